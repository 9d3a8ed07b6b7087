"""The verification queue: who is judged next, and when one run is not enough to believe a verdict."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from ralphd.core.model import Candidate, Task, Verdict
from ralphd.core.outcomes import Kind
from ralphd.core.policy import passed_over
from ralphd.core.state import NightState
from ralphd.daemon.failpoints import hit
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

    ``done(intent, candidate, verdict)`` is called from a worker's thread; ``superseded(intent)`` from the caller's.
    """

    judge: Judge
    pool: Executor
    done: Callable[[int, Candidate, Verdict], None]
    superseded: Callable[[int], None]
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
        for waiting in [w for w in self.waiting if _replaces(mine, w)]:
            self.waiting.remove(waiting)
            self.superseded(waiting.intent)
        self.waiting.append(mine)

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
            self.superseded(waiting.intent)
        self.waiting.clear()

    def _run(self, waiting: Waiting, task: Task, base: Verdict | None, best: float | None) -> None:
        try:
            hit("judging")
            verdict = judge_surely(self.judge, task, waiting.candidate, base, best)
        except Exception as error:  # noqa: BLE001  # a worker's boundary: whatever broke becomes a verdict in the journal
            verdict = Verdict(
                task=task.name,
                loop=waiting.candidate.loop,
                commit=waiting.candidate.commit,
                tree=waiting.candidate.tree,
                score=None,
                passed=False,
                kind=Kind.VERIFY_FAILED,
                why=f"{type(error).__name__}: {error}"[:300],
            )
        self.done(waiting.intent, waiting.candidate, verdict)


def _rank(state: NightState, waiting: Waiting) -> tuple[int, int, int]:
    """Bases first, then claims, then loops with the fewest submissions; among equals the oldest."""
    loop = state.loops.get(waiting.candidate.loop)
    if loop is None:
        return (0, 0, waiting.intent)
    return (1 if waiting.claimed or waiting.passed_over else 2, loop.submissions, waiting.intent)


def _replaces(newer: Waiting, older: Waiting) -> bool:
    if newer.claimed or newer.passed_over or older.claimed or older.passed_over:
        return False
    return bool(newer.candidate.loop) and newer.candidate.loop == older.candidate.loop


def judge_surely(judge: Judge, task: Task, candidate: Candidate, base: Verdict | None, best: float | None) -> Verdict:
    """Judge once; a verdict that would change what the report claims is tried to falsify by a second run."""
    first = judge.judge(task, candidate, base)
    gain = first.score is not None and task.verifier.better(first.score, best)
    if not candidate.loop or first.kind is not None or not (first.passed or gain):
        return first
    return combine(task, first, judge.judge(task, candidate, base))


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
