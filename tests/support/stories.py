"""A night told as a story: the real spine over the fakes of ralphd.testing, everything on one thread."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future
from queue import Empty
from typing import Any

from ralphd.cli.daemonlog import DaemonLog
from ralphd.core import events, policy, records
from ralphd.core.config import Config
from ralphd.core.events import Entry
from ralphd.core.exchange import Assignment
from ralphd.core.fold import fold
from ralphd.core.model import Candidate, Loop, Task, Verdict, Verifier
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.policy import Head
from ralphd.core.redact import Redactor
from ralphd.core.state import LoopState, NightState
from ralphd.core.status import DaemonFacts
from ralphd.daemon.act import Doer
from ralphd.daemon.close import Closing
from ralphd.daemon.consult import Consultant
from ralphd.daemon.guarding import Guarding
from ralphd.daemon.inbox import Asked, Inbox, Judged
from ralphd.daemon.observe import Sight
from ralphd.daemon.requests import Desk
from ralphd.daemon.run import Daemon, Hooks
from ralphd.daemon.tick import Night
from ralphd.daemon.verify import VerifyQueue, ending
from ralphd.daemon.weigh import Room
from ralphd.daemon.world import Assign, World
from ralphd.ports import Adviser
from ralphd.testing import (
    FakeAdviser,
    FakeClock,
    FakeFolders,
    FakeHost,
    FakeJournal,
    FakeJudge,
    FakeNotifier,
    FakePanes,
    FakeRepositories,
)

NIGHT = "2026-11-30-a"
BASE = "b" * 40
QUIET = DaemonLog(os.devnull, Redactor())  # one for all stories: it is open as long as the tests run


class Now(Executor):
    """Runs what is submitted at once, on this very thread."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Story:
    """``begin`` writes the night's first entries; ``step`` lets the daemon make passes until nothing moves."""

    def __init__(
        self,
        *,
        loops: int = 2,
        verifier: Verifier | None = None,
        ends_in_s: float | None = None,
        adviser: Adviser | None = None,
    ) -> None:
        self.adviser = adviser or FakeAdviser(reply=lambda _: b"", model="")
        self.budget, self.logs = 200, dict[str, str]()
        self.advisers: dict[str, Adviser] = {"": FakeAdviser(reply=lambda _: b"", model="")}  # after an edit
        self.stuck, self.offers, self.cheap = policy.stuck, policy.offers, lambda _state, _loop: ()
        self.clock, self.journal, self.panes = FakeClock(), FakeJournal(), FakePanes(up=False)
        self.repositories, self.folders, self.judge, self.host = (
            FakeRepositories(),
            FakeFolders(),
            FakeJudge(),
            FakeHost(),
        )
        self.notifier: FakeNotifier | None = FakeNotifier()
        self.verifier = verifier or Verifier(command="true")
        self.seq: dict[str, int] = {}
        self.ready: list[str] = []
        self.reports = 0
        self.config_error: Exception | None = None
        self.edited = Config()  # what ralphd.toml says when it is read again
        self.judge.verdicts[BASE] = [self.verdict("", BASE, score=0.0)]
        ends_at = None if ends_in_s is None else self.clock.now() + ends_in_s
        started = events.NightStarted(width=loops, ends_at=ends_at, version="0", config={})
        self.journal.submit([self.entry("", started), self.entry("", events.TaskAdded(task=self.task()))])
        self.journal.submit(
            [self.entry(f"l{n}", events.LoopAdded(loop=self.loop(f"l{n}"))) for n in range(1, loops + 1)]
        )
        self.start_daemon()

    # ------------------------------------------------------------------ the daemon

    def start_daemon(self) -> None:
        """A new daemon over the same world: its memory is what the journal holds."""
        self.inbox = Inbox()
        world = World(
            clock=self.clock,
            journal=self.journal,
            panes=self.panes,
            repositories=self.repositories,
            folders=self.folders,
            judge=self.judge,
            host=self.host,
            config=Config(),
            assignment=assignment,
            runner=lambda folder, after_s: ("runner", folder, f"{after_s:g}"),
            template=lambda name: f"{name}: {{commit}}{{ref}}",
            notifier=self.notifier,
            log=QUIET,
        )
        queue = VerifyQueue(
            judge=self.judge,
            pool=Now(),
            done=lambda i, c, v: self.inbox.put(Judged(intent=i, candidate=c, verdict=v)),
            superseded=lambda i, by: self.inbox.put(ending(i, by)),
        )
        doer = Doer(world=world, inbox=self.inbox, slow=Now(), aside=Now(), queue=queue)
        state = fold(self.journal.stored)
        seqs = {name: max((e.seq for e in self.journal.stored if e.loop == name), default=0) for name in state.loops}
        night = Night(world=world, inbox=self.inbox, state=state, sight=Sight(last_seq=seqs), doer=doer)
        self.night = night
        hooks = Hooks(ready=lambda text, _runs: self.ready.append(text), report=self._report, reload=self._reload)
        desk = Desk(night=night, facts=lambda: DaemonFacts(pid=1, version="0", started_at=0.0))
        self.consultant = self._consultant()
        night.consult, night.hears = self.consultant.heed, self.consultant.chronicle.hear
        for entry in self.journal.stored:
            self.consultant.chronicle.hear(entry)
        self.daemon = Daemon(
            night=night,
            desk=desk,
            closing=Closing(night=night),
            hooks=hooks,
            consultant=self.consultant,
            guarding=Guarding(night=night),
        )
        self.daemon.started = self.clock.monotonic()

    def _consultant(self) -> Consultant:
        return Consultant(
            adviser=self.adviser,
            adviser_of=lambda model: self.advisers[model],
            run=lambda call: call(),
            inbox=self.inbox,
            room=Room(stuck=self.stuck, offers=self.offers, cheap=self.cheap),
            budget=self.budget,
            system=lambda: "the rules",
            excerpt=lambda loop: self.logs.get(loop.loop.id, ""),
            hide=Redactor(("a secret of the daemon",)).text,
            fence=lambda: "f" * 32,
            chance=lambda: 0.5,
        )

    def step(self, seconds: float = 1.0) -> None:
        """Let time pass, make a pass, and handle what comes of it, until the inbox is empty."""
        self.clock.pass_time(seconds)
        self.daemon._pass()
        self.daemon._tell_ready()
        self.drain()

    def drain(self) -> None:
        for _ in range(10_000):
            try:
                message = self.inbox.get_nowait()
            except Empty:
                return
            self.daemon._handle(message)
        raise AssertionError("the daemon never comes to rest")

    def ask(self, verb: str, **request: object) -> list[dict[str, object]]:
        replies: list[dict[str, object]] = []
        self.daemon._handle(Asked(request={"verb": verb, **request}, reply=lambda data, last: replies.append(data)))
        self.drain()
        return replies

    def _report(self) -> None:
        self.reports += 1

    def _reload(self) -> tuple[Config, Assign]:
        if self.config_error is not None:
            raise self.config_error
        return self.edited, assignment

    # ------------------------------------------------------------------ the world

    def begin(self) -> None:
        """Every loop comes up and begins its first session."""
        self.step()
        for name in self.night.state.loops:
            self.runner_starts(name)
            self.session_starts(name, 1)
        self.step()

    def runner_starts(self, name: str) -> None:
        self.folders.living.add(self.loop(name).folder)
        self.tell(name, records.RunnerStarted(pid=1, start_ticks=1, boot_id="b", pane=f"%{name}"))

    def runner_dies(self, name: str) -> None:
        self.folders.living.discard(self.loop(name).folder)

    def session_starts(self, name: str, number: int, nonce: str = "") -> None:
        started = records.TrajectoryStarted(head=BASE, log="log", prompt_sha256="", prompt_bytes=1)
        self.tell(name, started, number, nonce or f"n{number}")
        self.tell(name, records.AgentStarted(pid=100, start_ticks=1, attempt=1), number, nonce or f"n{number}")

    def session_ends(
        self, name: str, number: int, kind: Kind = Kind.NEXT, *, head: str = BASE, claims: bool = False, nonce: str = ""
    ) -> None:
        before = self.repositories.tips[name].commit
        self.repositories.tips[name] = Head(commit=head, tree=f"tree of {head}")
        ended = records.TrajectoryEnded(
            outcome=Outcome(kind=kind),
            head_before=before,
            head_after=head,
            claims_done=claims,
            usage=records.Usage(),
            compactions=None,
            seconds=1.0,
            attempts=1,
            calls=0,
            leftovers=0,
            log="log",
        )
        self.tell(name, ended, number, nonce or f"n{number}")

    def tell(self, name: str, body: events.Body, trajectory: int = 0, nonce: str = "", generation: int = 1) -> None:
        self.seq[name] = self.seq.get(name, 0) + 1
        entry = Entry(
            at=self.clock.now(),
            night=NIGHT,
            loop=name,
            generation=generation,
            trajectory=trajectory,
            seq=self.seq[name],
            nonce=nonce,
            body=body,
        )
        self.folders.telling.setdefault(name, []).append(entry)

    def will_say(self, commit: str, *scores: float, passed: bool = False, **more: Any) -> None:
        self.judge.verdicts[commit] = [self.verdict("l1", commit, score=s, passed=passed, **more) for s in scores]

    def verdict(self, loop: str, commit: str, *, score: float | None, passed: bool = False, **more: Any) -> Verdict:
        more = {"tree": f"tree of {commit}", "why": "so"} | more
        return Verdict(task="main", loop=loop, commit=commit, score=score, passed=passed, **more)

    # ------------------------------------------------------------------ nouns

    def entry(self, loop: str, body: events.Body) -> Entry:
        return Entry(at=self.clock.now(), night=NIGHT, loop=loop, body=body)

    def task(self) -> Task:
        return Task(
            name="main",
            repository="/r",
            night_repository="/n",
            prompt="/r/PROMPT.md",
            base=BASE,
            verifier=self.verifier,
        )

    @staticmethod
    def loop(name: str) -> Loop:
        branch = f"ralphd/{NIGHT}/{name}"
        return Loop(
            id=name,
            task="main",
            pod="pod-1",
            branch=branch,
            worktree=f"/w/{name}",
            folder=f"/f/{name}",
            nonce=f"nonce-{name}",
        )

    def orders(self, name: str) -> list[str]:
        return [order.want.value for order in self.folders.orders.get(f"/f/{name}", [])]

    def intents(self, kind: str) -> list[Entry]:
        return [e for e in self.journal.stored if isinstance(e.body, events.ActionIntended) and e.body.type == kind]

    def loop_state(self, name: str) -> LoopState:
        return self.night.state.loops[name]


def assignment(
    config: Config, state: NightState, loop: LoopState, generation: int, reset_to: str
) -> tuple[Assignment, str]:
    del config
    made = Assignment(
        night=state.id,
        loop=loop.loop.id,
        generation=generation,
        task=loop.loop.task,
        cli="command",
        program="/bin/true",
        folder=loop.loop.folder,
        worktree=loop.loop.worktree,
        night_repository="/n",
        branch=loop.loop.branch,
        base=BASE,
        prompt="/r/PROMPT.md",
        preamble=f"{loop.loop.folder}/preamble.md",
        nonce=loop.loop.nonce,
        reset_to=reset_to,
    )
    return made, "preamble"


def candidate(commit: str) -> Candidate:
    return Candidate(task="main", loop="l1", generation=1, trajectory=1, commit=commit, tree=f"tree of {commit}")
