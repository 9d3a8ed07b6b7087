"""The objective as a figure: verified progress an hour, and how sure that is. Mere effort never enters it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

from ralphd.core.state import LoopState, NightState, TaskState

WINDOW_S = 3600.0
PARTS = 24  # of a night: as many as fit beside a few words in a line
TELLING_S = 600.0  # of a shorter time an hourly figure says little
FLAKY_MOST = 0.5  # from here on the verifier says two things of most trees: then nothing is known
SURE = 1.96  # standard deviations: of 20 such intervals 19 hold the truth


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Something an hour. None: nobody can know. The truth is between ``low`` and ``high``, 19 times of 20."""

    per_h: float | None = None
    low: float | None = None
    high: float | None = None


UNKNOWN = Rate()


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The night so far, and of its last hour. ``gain`` is in the unit of the score, summed over tasks.

    ``fruitful``: trajectories that ended well and had a submission. ``verdicts``: how many there were to go by.
    """

    hours: float
    gain: Rate
    recent_gain: Rate
    fruitful: Rate
    verdicts: int


def of_night(state: NightState, now: float) -> Progress:
    """Tell how the fleet does; ``now``: epoch seconds. A clock that was set makes no night longer or shorter."""
    until_s = state.second(state.ended_at if state.ended_at is not None else now)
    tasks = list(state.tasks.values())
    verdicts = sum(task.verdicts for task in tasks)
    doubted = sum(task.doubted for task in tasks)
    known = [task for task in tasks if task.base is not None and task.base.score is not None]
    rises = [rise for task in known for rise in task.rises]
    since_s = max(0.0, until_s - WINDOW_S)
    recent = [by for at_s, by in rises if at_s > since_s]
    hours, recent_hours = until_s / 3600, (until_s - since_s) / 3600
    doubt = doubted / verdicts if verdicts else 0.0
    total = gained(known)
    return Progress(
        hours=hours,
        gain=gain_rate(total, [by for _, by in rises], hours, doubt) if known else UNKNOWN,
        recent_gain=gain_rate(sum(recent), recent, recent_hours, doubt) if known else UNKNOWN,
        fruitful=count_rate(sum(loop.past.fruitful for loop in state.loops.values()), hours),
        verdicts=verdicts,
    )


def by_part(state: NightState, now: float, parts: int = PARTS) -> list[float] | None:
    """Return the verified gain of each of ``parts`` equal stretches of the night so far; None where nobody can know."""
    until_s = state.second(state.ended_at if state.ended_at is not None else now)
    known = [task for task in state.tasks.values() if task.base is not None and task.base.score is not None]
    if not known or until_s <= 0:
        return None
    gains = [0.0] * parts
    for at_s, by in (rise for task in known for rise in task.rises):
        gains[min(parts - 1, int(at_s / until_s * parts))] += by
    return gains


def gained(tasks: Iterable[TaskState]) -> float:
    """Return by how much the best of each task beats its start, summed."""
    total = 0.0
    for task in tasks:
        if task.best is None or task.best.score is None or task.base is None or task.base.score is None:
            continue
        total += abs(task.best.score - task.base.score)
    return total


def of_loop(state: NightState, loop: LoopState, now: float) -> float | None:
    """Return one loop's verified gain an hour over its task's start; None when the start has no score."""
    task = state.tasks[loop.loop.task]
    hours = state.second(state.ended_at if state.ended_at is not None else now) / 3600
    if task.base is None or task.base.score is None or hours <= 0:
        return None
    best, start = loop.best_score, task.base.score
    better = best is not None and task.task.verifier.better(best, start)
    return abs(best - start) / hours if better and best is not None else 0.0


def gain_rate(total: float, steps: Sequence[float], hours: float, doubt: float) -> Rate:
    """Return a rate of gain that came in ``steps``.

    Few steps, unequal ones and a verifier that is in ``doubt`` (the share of its verdicts that a second run did not
    bear out) make it unsure. Without any step nobody can say how large the next would have been.
    """
    if hours <= 0 or doubt >= FLAKY_MOST:
        return UNKNOWN
    per_h = total / hours
    if not steps:
        return Rate(per_h=per_h, low=per_h, high=None)
    spread = SURE * sqrt(sum(step * step for step in steps)) / hours / (1.0 - doubt)
    return Rate(per_h=per_h, low=max(0.0, per_h - spread), high=per_h + spread)


def count_rate(count: int, hours: float) -> Rate:
    """Return a rate of independent events, with the interval of Byar's approximation to Poisson's."""
    if hours <= 0:
        return UNKNOWN
    low = count * max(0.0, 1 - 1 / (9 * count) - SURE / (3 * sqrt(count))) ** 3 if count else 0.0
    more = count + 1
    high = more * (1 - 1 / (9 * more) + SURE / (3 * sqrt(more))) ** 3
    return Rate(per_h=count / hours, low=low / hours, high=high / hours)
