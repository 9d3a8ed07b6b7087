"""Two nights beside each other: what is better, how fast, at what cost, and which failures are new or gone."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core import codec
from ralphd.core.report_parts import Best, Report, TaskPart

SCHEMA = "ralphd.compare/1"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One night. The unknown is None. ``healthy_share``: of the sessions; the costs are in US dollars."""

    night: str
    hours: float | None
    loops: int
    sessions: int
    healthy: int
    healthy_share: float | None
    submissions: int
    submissions_per_h: float | None
    gain: float | None
    gain_per_h: float | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    cost_estimated: bool
    cost_per_submission_usd: float | None


@dataclass(frozen=True, kw_only=True)
class TaskCompared:
    """A task of both nights, by its name. ``better``: the night whose best is; None: neither, or nobody can know.

    ``by`` is how far apart they are. ``same_base``: both began from the same commit, so the scores can be compared.
    """

    name: str
    direction: str
    first: Best | None
    second: Best | None
    better: str | None
    by: float | None
    same_base: bool


@dataclass(frozen=True, kw_only=True)
class FailureCompared:
    """How often a kind of failure came in each night. ``change``: new, gone, more, fewer or same."""

    kind: str
    first: int
    second: int
    change: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """``first`` is the night that is told about, ``second`` the one it is held against."""

    first: Figures
    second: Figures
    tasks: tuple[TaskCompared, ...]
    only_in_first: tuple[str, ...]
    only_in_second: tuple[str, ...]
    failures: tuple[FailureCompared, ...]


def compare(first: Report, second: Report) -> Comparison:
    ours, theirs = ({task.name: task for task in night.tasks} for night in (first, second))
    return Comparison(
        first=_figures(first),
        second=_figures(second),
        tasks=tuple(_task(ours[name], theirs[name], first, second) for name in ours if name in theirs),
        only_in_first=tuple(name for name in ours if name not in theirs),
        only_in_second=tuple(name for name in theirs if name not in ours),
        failures=_failures(first.outcomes, second.outcomes),
    )


def to_json(value: Comparison) -> dict[str, object]:
    """Return it as JSON-ready data, the unknown as null."""
    data = codec.dump(value)
    assert isinstance(data, dict)
    return {"schema": SCHEMA, **data}


def _figures(night: Report) -> Figures:
    totals = night.totals
    cost, submissions = totals.cost_usd, totals.submissions
    return Figures(
        night=night.night.id,
        hours=totals.hours,
        loops=len(night.loops),
        sessions=totals.trajectories,
        healthy=totals.healthy,
        healthy_share=_share(totals.healthy, totals.trajectories),
        submissions=submissions,
        submissions_per_h=_share(submissions, totals.hours),
        gain=totals.gain,
        gain_per_h=totals.gain_per_h,
        tokens_in=totals.tokens_in,
        tokens_out=totals.tokens_out,
        cost_usd=cost,
        cost_estimated=totals.cost_estimated,
        cost_per_submission_usd=None if cost is None else _share(cost, submissions),
    )


def _share(part: float, whole: float | None) -> float | None:
    return round(part / whole, 4) if whole else None


def _task(ours: TaskPart, theirs: TaskPart, first: Report, second: Report) -> TaskCompared:
    mine = ours.best.score if ours.best else None
    other = theirs.best.score if theirs.best else None
    by = None if mine is None or other is None else round(abs(mine - other), 6)
    comparable = ours.direction == theirs.direction and by
    better = None
    if comparable and mine is not None and other is not None:
        better = first.night.id if (mine > other) == (ours.direction == "max") else second.night.id
    return TaskCompared(
        name=ours.name,
        direction=ours.direction,
        first=ours.best,
        second=theirs.best,
        better=better,
        by=by if ours.direction == theirs.direction else None,
        same_base=bool(ours.base) and ours.base == theirs.base,
    )


def _failures(first: dict[str, int], second: dict[str, int]) -> tuple[FailureCompared, ...]:
    kinds = [kind for kind in dict.fromkeys([*first, *second]) if not kind.startswith("done.")]
    told = [
        FailureCompared(kind=kind, first=mine, second=other, change=_change(mine, other))
        for kind in kinds
        for mine, other in [(first.get(kind, 0), second.get(kind, 0))]
    ]
    order = ("new", "more", "same", "fewer", "gone")
    return tuple(sorted(told, key=lambda one: (order.index(one.change), -max(one.first, one.second), one.kind)))


def _change(mine: int, other: int) -> str:
    if not mine or not other:
        return "new" if mine else "gone"
    return "same" if mine == other else "more" if mine > other else "fewer"
