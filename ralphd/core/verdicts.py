"""What a verdict changes: what a task and a loop have gained, and what the next commit must beat."""

from __future__ import annotations

from ralphd.core import events
from ralphd.core.events import Entry
from ralphd.core.history import Gain
from ralphd.core.model import Verdict
from ralphd.core.outcomes import Kind
from ralphd.core.state import LoopState, NightState, TaskState

RISES_KEPT = 512  # of a task's best; an hour of a night has a few


def take(state: NightState, loop: LoopState | None, entry: Entry, verdict: Verdict, *, submission: bool) -> None:
    """Add a verdict to what the night knows of its task and of the loop whose commit it is about, if it is one's."""
    task = state.tasks.get(verdict.task)
    if task is None or verdict.cut_off:  # earlier versions recorded what nobody had judged
        return
    task.verdicts += 1
    task.doubted += verdict.kind is Kind.FLAKY
    task.unscored = set() if verdict.score is not None else {*task.unscored, verdict.loop}
    task.judged[verdict.tree] = verdict
    task.commits[verdict.commit] = verdict.tree
    if not verdict.loop:
        task.base, task.not_judged = verdict, ""
    if loop is not None:
        loop.judged.add(verdict.commit)
        if submission:
            loop.past.submit((entry.generation, entry.trajectory))
        loop.submissions += submission
        task.submissions += submission
        if entry.generation >= loop.reset_in:
            _take_to_heart(state, task, loop, entry)
    _take_best(state, task, loop, verdict, entry.at)
    task.done = task.done or (submission and task.task.verifier.reached(verdict.score))


def _take_to_heart(state: NightState, task: TaskState, loop: LoopState, entry: Entry) -> None:
    """Let a verdict say something about what the loop does now. One on what a reset took away is a fact of the past."""
    assert isinstance(entry.body, events.VerdictGiven)
    verdict = entry.body.verdict
    loop.last_verdict = verdict
    loop.restore = () if verdict.kind is not Kind.TAMPERED else loop.restore
    _take_gain(state, task, loop, entry)
    if valid(verdict) and verdict.score is not None and task.task.verifier.better(verdict.score, loop.bar):
        loop.bar = verdict.score


def _take_gain(state: NightState, task: TaskState, loop: LoopState, entry: Entry) -> None:
    """Remember what beats all that the loop had. To be called before its bar is set anew."""
    assert isinstance(entry.body, events.VerdictGiven)
    verdict, start = entry.body.verdict, to_beat(task, loop)
    if not valid(verdict) or verdict.score is None or not task.task.verifier.better(verdict.score, start):
        return
    # A commit that is seen on the branch may have been left by a session that is over, while the next one runs.
    generation, trajectory = loop.past.left_by(verdict.commit) or (entry.generation, entry.trajectory)
    gain = Gain(
        entry=entry.id,
        at_s=state.second(entry.at),
        generation=generation,
        trajectory=trajectory,
        commit=verdict.commit,
        score=verdict.score,
        by=0.0 if start is None else abs(verdict.score - start),
    )
    loop.past.gain(gain)


def _take_best(state: NightState, task: TaskState, loop: LoopState | None, verdict: Verdict, at: float) -> None:
    verifier, score = task.task.verifier, verdict.score
    if not valid(verdict) or score is None:
        return
    if loop is not None and verifier.better(score, loop.best_score):
        loop.best_score, loop.best_commit = score, verdict.commit
    known = task.best.score if task.best is not None else None
    if not verifier.better(score, known):
        return
    task.best = verdict
    if loop is not None and known is not None and task.base is not None:
        task.rises = [*task.rises[1 - RISES_KEPT :], (state.second(at), abs(score - known))]


def to_beat(task: TaskState, loop: LoopState) -> float | None:
    """Return the score that a commit of this loop must be better than to be a submission: its best, or the start's.

    What was found to be better only when a reset had taken it away is its best too, but nothing that it builds on.
    """
    start = task.base.score if task.base is not None else None
    if start is None or (loop.bar is not None and task.task.verifier.better(loop.bar, start)):
        return loop.bar
    return start


def sound_commits(task: TaskState, loop: LoopState) -> tuple[str, ...]:
    """Return what a loop can safely begin again from, the best first: what it gained with, then the start."""
    best_first = sorted(loop.past.gains, key=lambda gain: gain.entry, reverse=True)
    return tuple(dict.fromkeys([*(gain.commit for gain in best_first), task.task.base]))


def valid(verdict: Verdict) -> bool:
    """Tell whether a verdict's score may count at all."""
    return verdict.kind not in {Kind.TAMPERED, Kind.FLAKY} and not verdict.unverified
