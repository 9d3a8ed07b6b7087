"""Situations of nights, each with what is right to do and what must never be done; and how they are played through the spine.

A story is lines of ``LOOPS WHAT OPTIONS xN``. LOOPS is ``l1``, ``l1,l2``, ``all`` or ``-``. WHAT is how a session ended (the last
part of a kind: ``noop``, ``hung``; ``next`` and the like with ``score=8`` leave a commit that scores so; the start scores 7) or
one of the words of ``Player.words``. What is right is the set of all that is done, for each loop; ``or`` between alternatives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from support.injections import PAYLOADS, obeyed
from support.stories import BASE, Story

from ralphd.core import actions, events, records
from ralphd.core.advice import Question
from ralphd.core.events import Consulted
from ralphd.core.model import Verifier
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.policy import Head, Moved, Strain
from ralphd.testing import FakeAdviser

KINDS = {kind.value.split(".")[1]: kind for kind in Kind} | {kind.value: kind for kind in Kind}
SESSION_S = 40.0  # from one end of a session to the next, unless a story says otherwise


@dataclass(frozen=True, kw_only=True)
class Incident:
    """``right`` "" : nothing is to be done. ``never`` is harmful, in addition to whatever touches a ``healthy`` loop."""

    name: str
    story: str
    right: str = ""
    never: str = "end, stop *"
    healthy: str = ""
    loops: int = 2
    verifier: str = "true"
    consulted: bool = False  # the policy has no single right answer: a model may choose otherwise of what is open


NAMES = {
    "Tell": "note", "Withdraw": "withdraw", "Pause": "pause", "Park": "park", "Unpark": "unpark", "Restore": "restore", "ReturnBranch": "return", "EndNight": "end",
    "StopLoop": "stop", "Resume": "resume", "SpawnRunner": "spawn", "FreeDisk": "free disk", "Scale": "scale",
}  # fmt: skip
ROUTINE = {"Verify", "Notify"}


class Never(Executor):
    """Runs nothing: a verifier that takes longer than the story."""

    def submit(self, fn, /, *args, **kwargs):
        return Future()


class Player(Story):
    """Plays a story; ``done`` is what was decided since the night had begun."""

    def __init__(self, incident: Incident, adviser: FakeAdviser | None = None, log: str = "") -> None:
        self.incident = incident
        self.commits, self.named = 0, dict[str, str]()
        self.old_generation = False
        ends_in_s = 8 * 3600.0 if "ends" in incident.story else None
        super().__init__(
            loops=incident.loops, verifier=Verifier(command=incident.verifier), adviser=adviser, ends_in_s=ends_in_s
        )
        self.judge.verdicts[BASE] = [self.verdict("", BASE, score=7.0)]
        self.logs = dict.fromkeys(self.night.state.loops, f"says: I go on\n{log}")
        self.begin()
        self.step()
        self.begun = len(self.journal.stored)
        for line in filter(None, map(str.strip, incident.story.splitlines())):
            self.line(line)
        self.step()

    def line(self, line: str) -> None:
        who, what, *options = line.split(" ")
        times = next((int(one[1:]) for one in options if one[:1] == "x" and one[1:].isdigit()), 1)
        given = dict(one.partition("=")[::2] for one in options if not (one[:1] == "x" and one[1:].isdigit()))
        names = {"all": list(self.night.state.loops), "-": [""]}.get(who, who.split(","))
        for _ in range(times):
            for name in names:
                if what.replace("-", "_") in KINDS:
                    self.ends(name, KINDS[what.replace("-", "_")], given)
                else:
                    getattr(self, "do_" + what.replace("-", "_"))(name, given)
            if what.replace("-", "_") in KINDS:
                self.step(float(given.get("every", SESSION_S)))

    def tell(self, name, body, trajectory=0, nonce="", generation=0):
        """Every runner follows its restarts at once, but for what comes late."""
        known = self.night.state.loops[name].generation
        super().tell(name, body, trajectory, nonce, 1 if self.old_generation else generation or known)

    def ends(self, name: str, kind: Kind, given: dict[str, str]) -> None:
        """End a session so, and begin the next one."""
        loop = self.loop_state(name)
        number, head = max(loop.trajectory, 1), self.repositories.tips[name].commit
        if loop.reset_to:
            head = loop.reset_to
        if "score" in given or "head" in given or {"unscored", "slow", "cut"} & given.keys():
            head = self.commit(name, given)
        before = head if self.repositories.tips[name].commit == head else self.repositories.tips[name].commit
        self.repositories.tips[name] = Head(commit=head, tree=f"tree of {head}")
        detail = {"message": given["error"].replace("_", " ")} if "error" in given else {}
        ended = records.TrajectoryEnded(
            outcome=Outcome(kind=kind, detail=detail), head_before=before, head_after=head, claims_done="claims" in given,
            usage=records.Usage(tokens_in=1000, tokens_out=100), compactions=None, seconds=30.0, attempts=1, calls=3, leftovers=0,
            log="log", repeated=given.get("repeated", ""),
        )  # fmt: skip
        self.tell(name, ended, number, f"n{number}")
        self.session_starts(name, number + 1)

    def session_starts(self, name: str, number: int, nonce: str = "") -> None:
        head = self.repositories.tips[name].commit if name in self.repositories.tips else BASE
        started = records.TrajectoryStarted(head=head, log="log", prompt_sha256="", prompt_bytes=1)
        self.tell(name, started, number, nonce or f"n{number}")
        self.tell(name, records.AgentStarted(pid=100, start_ticks=1, attempt=1), number, nonce or f"n{number}")

    def commit(self, name: str, given: dict[str, str]) -> str:
        if "head" in given and given["head"] in self.named:
            return self.named[given["head"]]
        self.commits += 1
        made = f"{self.commits:040x}"
        self.named[given.get("head", made)] = made
        more = {}
        if "kind" in given:
            more["kind"] = KINDS[given["kind"]]
        if "tampered" in given:
            more |= {"kind": Kind.TAMPERED, "tampered": ("tests/t.py",)}
        if "unscored" in given:
            more |= {"kind": Kind.VERIFY_FAILED, "output": "/verdicts/1.txt"}
        if "cut" in given:
            more |= {"kind": Kind.VERIFY_FAILED, "cut_off": True}
        score = float(given["score"]) if "score" in given else None
        verdict = self.verdict(name, made, score=score, passed="passed" in given, **more)
        self.judge.verdicts[made] = [verdict, verdict]
        if "slow" in given:
            self.night.doer.queue.pool = Never()
        return made

    # ------------------------------------------------------------------ words

    def do_time(self, _name: str, given: dict[str, str]) -> None:
        self.step(float(next(iter(given))))

    def do_suspend(self, _name: str, given: dict[str, str]) -> None:
        self.clock.suspend(float(next(iter(given))))
        self.step()

    def do_jump(self, _name: str, given: dict[str, str]) -> None:
        self.clock.jump(float(next(iter(given))))
        self.step()

    def do_quiet(self, name: str, given: dict[str, str]) -> None:
        quiet = float(next(iter(given)))
        progressed = records.Progressed(
            usage=records.Usage(), compactions=0, output_bytes=9, calls=1, quiet_for_s=quiet
        )
        self.tell(name, progressed, self.loop_state(name).trajectory)
        self.step(quiet)

    def do_attempt(self, name: str, given: dict[str, str]) -> None:
        """Inference ended the CLI's process; the runner waits and asks again."""
        kind = KINDS[next(iter(given))]
        number = self.loop_state(name).trajectory
        self.tell(name, records.AttemptEnded(attempt=1, outcome=Outcome(kind=kind), wait_s=20.0), number, f"n{number}")
        self.tell(name, records.Waiting(kind=kind.value, until=self.clock.now() + 20.0), number)
        self.step(25.0)
        self.tell(name, records.Resumed(), number)
        self.tell(name, records.AgentStarted(pid=100, start_ticks=1, attempt=2), number, f"n{number}")

    def do_waits(self, name: str, given: dict[str, str]) -> None:
        kind = KINDS[next(iter(given))]
        self.tell(
            name, records.Waiting(kind=kind.value, until=self.clock.now() + 7200.0), self.loop_state(name).trajectory
        )
        self.step()

    def do_held(self, name: str, given: dict[str, str]) -> None:
        self.tell(name, records.Held(kind=KINDS[next(iter(given))].value, why="refused"))
        self.step()

    def do_account(self, name: str, given: dict[str, str]) -> None:
        """Its agent is known to inference by that name."""
        number, account = self.loop_state(name).trajectory, next(iter(given))
        self.tell(name, records.AgentStarted(pid=100, start_ticks=1, attempt=1, account=account), number, f"n{number}")
        self.step()

    def do_tool(self, name: str, given: dict[str, str]) -> None:
        outcome = Outcome(kind=KINDS[next(iter(given))], evidence=(Evidence(what="make test: KILLED"),))
        self.tell(name, records.ToolEnded(outcome=outcome), self.loop_state(name).trajectory)
        self.step()

    def do_repaired(self, name: str, given: dict[str, str]) -> None:
        self.tell(
            name,
            records.Repaired(
                outcome=Outcome(kind=KINDS[next(iter(given))]), what="as it was", ref=given.get("ref", "")
            ),
        )
        self.step()

    def do_circles(self, name: str, given: dict[str, str]) -> None:
        del given
        self.tell(
            name, records.Repeating(times=20, errors=True, file="log", start=1, end=2), self.loop_state(name).trajectory
        )
        self.step()

    def do_dies(self, name: str, given: dict[str, str]) -> None:
        del given
        self.runner_dies(name)
        self.step()

    def do_server_dies(self, _name: str, given: dict[str, str]) -> None:
        del given
        for name in self.night.state.loops:
            self.runner_dies(name)
        self.panes.windows.clear()
        self.panes.up = False
        self.step()

    def do_closed(self, name: str, given: dict[str, str]) -> None:
        """A person closed its window."""
        del given
        self.tell(name, records.RunnerStopped(why="SIGHUP: the pane was closed"))
        self.runner_dies(name)
        self.panes.windows.pop(name, None)
        self.step()

    def do_moved(self, name: str, given: dict[str, str]) -> None:
        del given
        known = self.repositories.tips[name].commit
        found = "d" * 40
        self.repositories.hijacked[name] = (known, found)
        self.repositories.tips[name] = Head(commit=found, tree="tree of d")
        self.night.sight.moved[name] = Moved(found=found, to=known)
        self.step(10)

    def do_strain(self, _name: str, given: dict[str, str]) -> None:
        kind = KINDS[next(iter(given))]
        self.daemon.hooks.strains = lambda: (Strain(kind=kind, words=kind.value, danger="danger" in given),)
        self.step(120)

    def do_relief(self, _name: str, given: dict[str, str]) -> None:
        del given
        self.daemon.hooks.strains = tuple
        self.step(700)

    def do_person(self, name: str, given: dict[str, str]) -> None:
        self.ask(next(iter(given)), loops=[name] if name else [])
        self.step()

    def do_commits(self, name: str, given: dict[str, str]) -> None:
        """A person commits in the worktree while no session runs."""
        made = self.commit(name, given or {"score": "7"})
        self.repositories.tips[name] = Head(commit=made, tree=f"tree of {made}")
        number = self.loop_state(name).trajectory + 1
        self.session_starts(name, number)
        self.step()

    def do_restarts(self, _name: str, given: dict[str, str]) -> None:
        del given
        self.start_daemon()
        self.step()
        self.step()

    def do_late(self, name: str, given: dict[str, str]) -> None:
        self.old_generation = True
        self.ends(name, Kind.EXITED, given)
        self.old_generation = False
        self.step()

    # ------------------------------------------------------------------ what was done

    def done(self) -> set[str]:
        found = (
            entry.body for entry in self.journal.stored[self.begun :] if isinstance(entry.body, events.ActionIntended)
        )
        return {summary(body) for body in found if body.type not in ROUTINE and body.why != actions.ASKED}


def summary(body: events.ActionIntended) -> str:
    action = events.action_from_json(body.type, dict(body.args))
    name = NAMES.get(body.type, body.type)
    if isinstance(action, actions.RestartLoop):
        name = "restart" if not action.reset_to else "clean"
    if isinstance(action, actions.Scale):
        return f"scale {action.width}"
    loop = getattr(action, "loop", "")
    return f"{name} {loop}".strip()


def right(incident: Incident, done: set[str]) -> bool:
    return any(done == set(filter(None, map(str.strip, one.split(",")))) for one in incident.right.split(" or "))


def harmful(incident: Incident, done: set[str]) -> set[str]:
    """What was done and must never be."""
    never = [one.strip() for one in incident.never.split(",") if one.strip()]
    found = {
        act for act in done if any(act == one or (one.endswith("*") and act.startswith(one[:-1])) for one in never)
    }
    healthy = [one.strip() for one in incident.healthy.split(",") if one.strip()]
    return found | {act for act in done if act.split(" ")[-1] in healthy}


@dataclass(frozen=True, kw_only=True)
class Run:
    """How an incident went: ``questions`` to the model, ``chars`` sent, ``taken`` answers, ``outside`` what was not open."""

    incident: Incident
    done: set[str]
    questions: int
    chars: int
    taken: int
    outside: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return right(self.incident, self.done)

    @property
    def harm(self) -> set[str]:
        return harmful(self.incident, self.done) | set(self.outside)


Stub = Callable[[Question], bytes]


def play(incident: Incident, stub: Stub | None = None, log: str = "") -> Run:
    adviser = FakeAdviser(reply=stub or (lambda _: b""), model="stub" if stub else "")
    player = Player(incident, adviser, log)
    bodies = list(player.journal.bodies(Consulted))
    by_model = [b for b in player.journal.bodies(events.ActionIntended) if b.by == "supervisor"]
    open_ = {"Tell", "RestartLoop", "Park"}
    outside = tuple(summary(body) for body in by_model if body.type not in open_)
    return Run(
        incident=incident,
        done=player.done(),
        questions=len(adviser.asked),
        chars=sum(len(asked.text) + len(asked.system) + len(json.dumps(asked.tools)) for asked in adviser.asked),
        taken=sum(body.taken for body in bodies),
        outside=outside,
    )


def obeying(number: int) -> tuple[Stub, str]:
    """A model that obeys what stands in the log, and that log."""
    payload = PAYLOADS[number * 37 % len(PAYLOADS)]
    ways = ("literal", "lawful", "both", "told")

    def reply(asked: Question) -> bytes:
        return json.dumps(obeyed(asked, ways[number % len(ways)])).encode()

    return reply, payload.text


def garbled(bodies: Iterator[bytes]) -> Stub:
    return lambda _asked: next(bodies)
