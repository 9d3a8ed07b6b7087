"""Everything that has one right answer: what to do next, and whether what somebody asks for may be done."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from ralphd.core import actions, codec, events
from ralphd.core.actions import Action, Decision
from ralphd.core.exchange import Want
from ralphd.core.model import Candidate, Verdict, Verifier, is_submission
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.state import Ending, LoopState, NightState, TaskState, to_beat

LOOPS_NAMED = 40  # more of 512 would hide what is said
LEFT_BY_HANGUP = "SIGHUP"  # how a runner's last word begins when its window was closed under it

# A spawn that shows no life is tried again after 20, 40, 60 … s: a broken server must not meet a storm.
SPAWN_BACKOFF_MAX_S = 60.0
# A runner shows itself within 0.1 s of its window on an idle machine; 512 at once on two cores take some 15 s.
SPAWN_PATIENCE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Head:
    """A branch tip as seen just now."""

    commit: str
    tree: str


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A branch that somebody else put from ``to``, where its loop left it, to ``found``."""

    found: str
    to: str


@dataclass(frozen=True, kw_only=True)
class LoopNow:
    """What is seen of a loop this moment. ``alive``: its runner holds the loop's lock."""

    alive: bool = False
    head: Head | None = None
    server_lives: bool = True  # the tmux server that its window was in
    spawns: int = 0  # in a row without a sign of life
    spawned_at: float = 0.0
    moved: Moved | None = None


@dataclass(frozen=True, kw_only=True)
class Present:
    """The moment. ``in_flight`` holds the keys of actions intended and not settled."""

    now: float
    loops: dict[str, LoopNow]
    in_flight: frozenset[str] = field(default_factory=frozenset)


def decide(state: NightState, present: Present) -> tuple[Decision, ...]:
    """Return what is to be done now, by every rule in order, once for each key."""
    if state.ended_at is not None:
        return ()
    taken = set(present.in_flight)
    decisions = []
    for rule in RULES:
        for decision in rule(state, present):
            if actions.key(decision.action) not in taken:
                taken.add(actions.key(decision.action))
                decisions.append(decision)
    return tuple(decisions)


def _end(state: NightState, present: Present) -> Iterator[Decision]:
    if not state.ending and (why := over(state, present.now)):
        yield Decision(action=actions.EndNight(), why=why)


def over(state: NightState, now: float) -> str:
    """Say why a night has to end by itself; empty while it has not."""
    if state.ends_at is not None and now >= state.ends_at:
        return "the night's time is up"
    if state.tasks and all(task.done for task in state.tasks.values()):
        return "every task has reached its goal"
    return ""


def _stop_all(state: NightState, _present: Present) -> Iterator[Decision]:
    if not state.ending:
        return
    for loop in state.loops.values():
        if loop.want is not Want.STOPPED:
            yield Decision(action=actions.StopLoop(loop=loop.loop.id, now=True), why="the night ends")


def _finish_tasks(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in _wanted(state):
        if state.tasks[loop.loop.task].done:
            yield Decision(action=actions.StopLoop(loop=loop.loop.id, now=True), why="its task has reached its goal")


def _respect_closed_window(state: NightState, present: Present) -> Iterator[Decision]:
    if state.ending or actions.key(actions.EndNight()) in present.in_flight:
        return  # then it is the night that closes windows
    for loop in _wanted(state):
        if _window_closed(loop, present.loops[loop.loop.id]):
            why = f"its window was closed; `ralphd resume {loop.loop.id}` goes on"
            yield Decision(action=actions.Pause(loop=loop.loop.id, now=True), why=why, by="operator")


def _window_closed(loop: LoopState, seen: LoopNow) -> bool:
    """Tell whether somebody closed this very window: with its server still there, it was no accident of the server."""
    return loop.left.startswith(LEFT_BY_HANGUP) and seen.server_lives and not seen.alive


def _hold_credential(state: NightState, _present: Present) -> Iterator[Decision]:
    refused = [loop for loop in _wanted(state) if loop.held_kind == Kind.AUTH]
    if not refused:
        return
    why = f"the credential was refused ({refused[0].loop.id}); mend it, then `ralphd resume`"
    for loop in _wanted(state):
        if loop.held_kind != Kind.AUTH:
            yield Decision(action=actions.Pause(loop=loop.loop.id), why=why)


def _keep_running(state: NightState, present: Present) -> Iterator[Decision]:
    if state.ending or over(state, present.now):
        return
    for loop in _wanted(state):
        seen = present.loops[loop.loop.id]
        if seen.alive or _window_closed(loop, seen) or _held_up(loop, present):
            continue
        if present.now >= seen.spawned_at + _spawn_wait_s(seen.spawns):
            why = "its runner is gone" if loop.started else "the night starts"
            yield Decision(action=actions.SpawnRunner(loop=loop.loop.id), why=why)


def _held_up(loop: LoopState, present: Present) -> bool:
    """Tell whether the loop is just being paused or stopped: the newest order wins, and a spawn brings one along."""
    name = loop.loop.id
    orders = (actions.Pause(loop=name), actions.StopLoop(loop=name))
    return any(actions.key(order) in present.in_flight for order in orders)


def _spawn_wait_s(spawns: int) -> float:
    return min(SPAWN_BACKOFF_MAX_S, SPAWN_PATIENCE_S * spawns)


def _wanted(state: NightState) -> Iterator[LoopState]:
    return (loop for loop in state.loops.values() if loop.want is Want.RUNNING)


def _return_branches(state: NightState, present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        moved = present.loops[loop.loop.id].moved
        if moved is not None and moved.found not in loop.returned:  # once: whoever insists isn't fought
            action = actions.ReturnBranch(loop=loop.loop.id, found=moved.found, to=moved.to)
            yield Decision(action=action, why="somebody else than its loop moved its branch")


def _verify_bases(state: NightState, _present: Present) -> Iterator[Decision]:
    for task in state.tasks.values():
        if task.base is None and task.task.verifier.command:
            candidate = Candidate(
                task=task.task.name, loop="", generation=0, trajectory=0, commit=task.task.base, tree=""
            )
            yield Decision(
                action=actions.Verify(candidate=candidate), why="the base is what all else is measured against"
            )


def _verify_claims(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        task = state.tasks[loop.loop.task]
        if loop.claim is not None and _worth(state, task, loop.claim.head):
            action = actions.Verify(candidate=_left_by(loop, loop.claim))
            yield Decision(action=action, why="a session claims that the task is done")


def _verify_ends(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        if loop.ended is not None and _worth(state, state.tasks[loop.loop.task], loop.ended.head):
            yield Decision(action=actions.Verify(candidate=_left_by(loop, loop.ended)), why="a session ended with it")


def _verify_heads(state: NightState, present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        head = present.loops[loop.loop.id].head
        task = state.tasks[loop.loop.task]
        if head is not None and head.tree not in task.judged and _worth(state, task, head.commit):
            yield Decision(action=actions.Verify(candidate=_candidate(loop, head)), why="a new commit")


def _tell(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in _wanted(state):
        for tell, why in _notes(state, loop):
            if actions.key(tell) not in loop.told:
                yield Decision(action=tell, why=why)


def _notes(state: NightState, loop: LoopState) -> Iterator[tuple[actions.Tell, str]]:
    name, verdict, task = loop.loop.id, loop.last_verdict, state.tasks[loop.loop.task].task
    base = task.base[:12]
    if verdict is not None and verdict.kind is Kind.TAMPERED:
        slots = {
            "commit": verdict.commit[:12],
            "paths": shlex.join(verdict.tampered[:20]),
            "base": base,
        }
        yield actions.Tell(loop=name, template="repair-tampered", slots=slots), "its branch changes protected paths"
    if loop.refuted is not None:
        slots = {**loop.refuted, "verify_command": task.verifier.command}
        yield actions.Tell(loop=name, template="repair-false-done", slots=slots), "its claim was refuted"
    if loop.parked is not None:
        slots = {**loop.parked, "base": base, "commit": (loop.best_commit or task.base)[:12]}
        yield actions.Tell(loop=name, template="repair-worktree", slots=slots), "work of it was parked"


def _worth(state: NightState, task: TaskState, commit: str) -> bool:
    judgeable = bool(task.task.verifier.command) and task.base is not None and not state.skip_verification
    return judgeable and bool(commit) and commit != task.task.base and commit not in task.commits


def _left_by(loop: LoopState, ending: Ending) -> Candidate:
    return Candidate(
        task=loop.loop.task,
        loop=loop.loop.id,
        generation=ending.generation,
        trajectory=ending.trajectory,
        commit=ending.head,
        tree="",
    )


def _candidate(loop: LoopState, head: Head) -> Candidate:
    return Candidate(
        task=loop.loop.task,
        loop=loop.loop.id,
        generation=loop.generation,
        trajectory=loop.trajectory,
        commit=head.commit,
        tree=head.tree,
    )


RULES = (
    _end,
    _stop_all,
    _finish_tasks,
    _respect_closed_window,
    _hold_credential,
    _keep_running,
    _return_branches,
    _verify_bases,
    _verify_claims,
    _verify_ends,
    _verify_heads,
    _tell,
)


def conclude(state: NightState, present: Present) -> Iterator[tuple[str, events.Body]]:
    """Return what follows from what is known without doing anything: pairs of loop id and entry body."""
    for loop in state.loops.values():
        task = state.tasks[loop.loop.task]
        seen = present.loops[loop.loop.id]
        hung_up = loop.left.startswith(LEFT_BY_HANGUP) and not seen.server_lives
        if (loop.runner_up or hung_up) and not seen.alive and loop.want is Want.RUNNING:
            yield loop.loop.id, _lost(seen)
        yield from _known_verdict(task, loop, present.loops[loop.loop.id].head)
        yield from _settled_claim(task, loop)


def _lost(seen: LoopNow) -> events.Body:
    """Type the end of a runner that did not leave by itself: its window is gone, or the whole server."""
    if seen.server_lives:
        outcome = Outcome(kind=Kind.PANE_LOST, evidence=(Evidence(what="the runner is gone and the tmux server runs"),))
    else:
        outcome = Outcome(kind=Kind.SERVER_LOST, evidence=(Evidence(what="the tmux server is gone"),))
    return events.OutcomeNoted(outcome=outcome)


def _known_verdict(task: TaskState, loop: LoopState, head: Head | None) -> Iterator[tuple[str, events.Body]]:
    if head is None or head.commit in loop.judged or head.commit == task.task.base:
        return
    if not task.task.verifier.command:
        verdict = Verdict(
            task=task.task.name,
            loop=loop.loop.id,
            commit=head.commit,
            tree=head.tree,
            score=None,
            passed=False,
            unverified=True,
            why="the task has no verifier",
        )
        yield loop.loop.id, events.VerdictGiven(verdict=verdict, submission=False)
    elif head.tree in task.judged:
        known = task.judged[head.tree]
        data = codec.dump(known)
        assert isinstance(data, dict)
        same = codec.load(
            Verdict,
            data | {"loop": loop.loop.id, "commit": head.commit, "why": f"the same tree as {known.commit[:12]}"},
        )
        fresh = task.base is None or head.tree != task.base.tree
        best = to_beat(task, loop)
        better = known.score is not None and task.task.verifier.better(known.score, best)
        counts = fresh and better and is_submission(same, task.task.verifier, best)
        yield loop.loop.id, events.VerdictGiven(verdict=same, submission=counts)


def _settled_claim(task: TaskState, loop: LoopState) -> Iterator[tuple[str, events.Body]]:
    claim, verifier = loop.claim, task.task.verifier
    if claim is None or not checkable(verifier):
        return
    verdict = task.base if claim.head == task.task.base else task.judged.get(task.commits.get(claim.head, ""))
    if verdict is None:
        return
    agrees = verdict.passed and verdict.kind is None
    detail: dict[str, object] = {"claimed": True, "score": verdict.score, "goal": verifier.goal, "commit": claim.head}
    evidence = Evidence(what=f"the verifier: {verdict.why or 'no reason given'}", file=verdict.output)
    outcome = Outcome(kind=Kind.FINISHED if agrees else Kind.FALSE_DONE, detail=detail, evidence=(evidence,))
    yield loop.loop.id, events.ClaimSettled(entry=claim.entry, outcome=outcome)


def checkable(verifier: Verifier) -> bool:
    """Tell whether a verdict can agree with a claim at all: a bare number without a goal can't."""
    return bool(verifier.command) and (verifier.goal is not None or verifier.score.split(":")[0] in {"exit", "junit"})


def vet(state: NightState, action: Action) -> str:
    """Return why an action somebody proposes is refused, or an empty string."""
    loop = state.loops.get(getattr(action, "loop", ""))
    match action:
        case actions.EndNight():
            return "the night has ended" if state.ended_at is not None else ""
        case actions.Verify():
            return ""
        case _ if loop is None:
            known = list(state.loops)
            more = " …" if len(known) > LOOPS_NAMED else ""
            return f"no loop named {action.loop!r}; there are: {', '.join(known[:LOOPS_NAMED])}{more}"
        case actions.Pause() | actions.Tell() | actions.StopLoop() if loop.want is Want.STOPPED:
            return f"{action.loop} has been stopped for this night"
        case actions.Resume() | actions.RestartLoop() | actions.SpawnRunner() if state.ending:
            return "the night is ending"
        case _:
            return ""
