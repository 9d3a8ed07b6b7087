"""The verification queue: who is judged next, and when one run is not enough to believe a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from ralphd.core.model import Candidate, Task, Verdict
from ralphd.core.outcomes import Kind
from ralphd.core.policy import passed_over
from ralphd.core.state import NightState
from ralphd.daemon.failpoints import hit
from ralphd.daemon.inbox import Settled
from ralphd.ports import Judge


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A candidate with the intent it settles. ``claimed``, ``passed_over``: no newer head takes its place."""

    intent: int
    candidate: Candidate
    claimed: bool = False
    passed_over: bool = False


@dataclass(kw_only=True)
class VerifyQueue:
    """At most ``slots`` of a task at once; a newer head of a loop takes the place of its older one.

    ``done(intent, candidate, verdict)`` is called from a worker's thread; ``superseded(intent, by)`` from the caller's,
    with the commit that is judged instead, if any.
    """

    judge: Judge
    pool: Executor
    done: Callable[[int, Candidate, Verdict], None]
    superseded: Callable[[int, str], None]
    waiting: list[Waiting] = field(default_factory=list)
    running: dict[int, str] = field(default_factory=dict)  # intent -> task

    def add(self, state: NightState, intent: int, candidate: Candidate) -> None:
        loop = state.loops.get(candidate.loop)
        claimed = loop is not None and loop.claim is not None and loop.claim.head == candidate.commit
        session = passed_over(state, loop) if loop is not None else None
        mine = Waiting(
            intent=intent,
            candidate=candidate,
            claimed=claimed,
            passed_over=session is not None and session.after == candidate.commit,
        )
        self.waiting.append(mine)
        for older, newer in _replaced(mine, self.waiting):
            self.waiting.remove(older)
            self.superseded(older.intent, newer.candidate.commit)

    def pump(self, state: NightState) -> None:
        """Start what the slots allow, the one with the most to tell first."""
        for waiting in sorted(self.waiting, key=lambda w: _rank(state, w)):
            task = state.tasks[waiting.candidate.task]
            name = waiting.candidate.task
            if sum(running == name for running in self.running.values()) >= task.task.verifier.slots:
                continue
            self.waiting.remove(waiting)
            self.running[waiting.intent] = name
            best = task.best.score if task.best is not None else None
            self.pool.submit(self._run, waiting, task.task, task.base, best)

    def finished(self, intent: int) -> None:
        self.running.pop(intent, None)

    def idle(self) -> bool:
        return not self.waiting and not self.running

    def drop(self) -> None:
        """Forget what waits (a night that must end now); each is settled as superseded."""
        for waiting in self.waiting:
            self.superseded(waiting.intent, "")
        self.waiting.clear()

    def _run(self, waiting: Waiting, task: Task, base: Verdict | None, best: float | None) -> None:
        try:
            hit("judging")
            verdict = judge_surely(self.judge, task, waiting.candidate, base, best)
        except Exception as error:  # noqa: BLE001  # a worker's boundary: whatever broke here is told as such
            verdict = Verdict(
                task=task.name,
                loop=waiting.candidate.loop,
                commit=waiting.candidate.commit,
                tree=waiting.candidate.tree,
                score=None,
                passed=False,
                kind=Kind.VERIFY_FAILED,
                why=f"{type(error).__name__}: {error}"[:300],
                cut_off=True,
            )
        self.done(waiting.intent, waiting.candidate, verdict)


def _rank(state: NightState, waiting: Waiting) -> tuple[int, int, int]:
    """Bases first, then claims, then loops with the fewest submissions; among equals the oldest."""
    loop = state.loops.get(waiting.candidate.loop)
    if loop is None:
        return (0, 0, waiting.intent)
    return (1 if waiting.claimed or waiting.passed_over else 2, loop.submissions, waiting.intent)


def _replaced(mine: Waiting, waiting: Sequence[Waiting]) -> Iterator[tuple[Waiting, Waiting]]:
    """Pair what needs no judging any more with what is judged instead: the newer commit of the same loop."""
    if not mine.candidate.loop or mine.claimed or mine.passed_over:
        return
    alike = [
        other
        for other in waiting
        if other is not mine
        and other.candidate.loop == mine.candidate.loop
        and not (other.claimed or other.passed_over)
    ]
    newer = next((other for other in alike if _age(other) > _age(mine)), None)
    if newer is not None:
        yield mine, newer
        return
    for other in alike:
        yield other, mine


def _age(waiting: Waiting) -> tuple[int, int]:
    return (waiting.candidate.generation, waiting.candidate.trajectory)


def ending(intent: int, by: str) -> Settled:
    """Say what came of a verification that was not needed; ``by``: the commit that is judged instead, if any."""
    return Settled(intent=intent, result="overtaken" if by else "superseded", detail=by)


def judge_surely(judge: Judge, task: Task, candidate: Candidate, base: Verdict | None, best: float | None) -> Verdict:
    """Judge once; a verdict that would change what the report claims is tried to falsify by a second run."""
    first = _judge(judge, task, candidate, base)
    gain = first.score is not None and task.verifier.better(first.score, best)
    if not candidate.loop or first.kind is not None or not (first.passed or gain):
        return first
    second = _judge(judge, task, candidate, base)
    return second if second.cut_off else combine(task, first, second)


def _judge(judge: Judge, task: Task, candidate: Candidate, base: Verdict | None) -> Verdict:
    """Judge; a run that was cut off says nothing of its candidate, and no tree is judged twice: it is run again."""
    first = judge.judge(task, candidate, base)
    if not first.cut_off:
        return first
    second = judge.judge(task, candidate, base)
    return replace(second, seconds=first.seconds + second.seconds) if second.cut_off else second


def combine(task: Task, first: Verdict, second: Verdict) -> Verdict:
    """One verdict of two runs over one tree: agreed, or flaky with the worse of both."""
    if (first.score, first.passed, first.kind) == (second.score, second.passed, second.kind):
        return replace(first, runs=first.runs + 1, seconds=first.seconds + second.seconds)
    scores = [v.score for v in (first, second) if v.score is not None]
    worse = None
    if len(scores) == 2:
        worse = min(scores) if task.verifier.direction == "max" else max(scores)
    why = f"two runs over one tree: {first.why or first.score}; then {second.why or second.score}"
    return replace(
        second,
        kind=Kind.FLAKY,
        score=worse,
        passed=first.passed and second.passed,
        runs=2,
        seconds=first.seconds + second.seconds,
        why=why,
    )
