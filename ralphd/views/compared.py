"""How two nights are told beside each other, in the same plain words in every form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralphd.core.spending import dollars
from ralphd.views.blocks import Block, Heading, Lead, Paragraph, Table
from ralphd.views.kinds import plainly
from ralphd.views.phrases import big, hours, rate, short
from ralphd.views.text import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ralphd.core.compare import Comparison, Figures, TaskCompared
    from ralphd.core.report_parts import Best


def title(told: Comparison) -> str:
    return f"Night {told.first.night} beside {told.second.night}"


def page(told: Comparison) -> Iterator[Block]:
    """Yield the whole comparison."""
    yield from _headline(told)
    yield from _figures(told.first, told.second)
    yield from _failures(told)


def _headline(told: Comparison) -> Iterator[Block]:
    for task in told.tasks:
        yield Lead(text=f"{task.name}: {_which(task, told)}")
    if not told.tasks:
        yield Lead(text="These nights have no task in common: their scores say nothing about each other.")
    for night, names in ((told.first.night, told.only_in_first), (told.second.night, told.only_in_second)):
        if names and told.tasks:
            yield Paragraph(text=f"Only in {night}: {', '.join(names)}.")


def _which(task: TaskCompared, told: Comparison) -> str:
    lower = " (lower is better)" if task.direction == "min" else ""
    both = f"{_best(task.first)} in {told.first.night}, {_best(task.second)} in {told.second.night}"
    caution = "" if task.same_base else " They began from different commits."
    if task.better is not None:
        return f"{task.better} is better by {number(task.by)}{lower}: {both}.{caution}"
    if task.by == 0:
        return f"neither is better: {both}.{caution}"
    return f"nobody can know which is better: {both}.{caution}"


def _best(best: Best | None) -> str:
    if best is None:
        return "nothing verified"
    return f"{number(best.score)} ({short(best.commit)} of {best.loop})"


def _figures(first: Figures, second: Figures) -> Iterator[Block]:
    yield Heading(text="In figures")
    rows = tuple((name, told(first), told(second)) for name, told in _ROWS)
    yield Table(header=("", first.night, second.night), rows=rows, numbers=frozenset({1, 2}))


def _failures(told: Comparison) -> Iterator[Block]:
    yield Heading(text="What went wrong")
    if not told.failures:
        yield Paragraph(text="Nothing that was recorded, in either night.")
        return
    rows = tuple((plainly(one.kind), str(one.first), str(one.second), one.change) for one in told.failures)
    header = ("failure", told.first.night, told.second.night, "change")
    yield Table(header=header, rows=rows, numbers=frozenset({1, 2}))


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{number(round(100 * share, 1))} %"


def _dollars(figure: float | None, *, estimated: bool = False) -> str:
    if figure is None:
        return "?"
    return f"{'about ' if estimated else ''}{dollars(figure)}"


_ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("length", lambda one: hours(one.hours)),
    ("loops", lambda one: str(one.loops)),
    ("sessions", lambda one: str(one.sessions)),
    ("healthy", lambda one: _percent(one.healthy_share)),
    ("submissions", lambda one: str(one.submissions)),
    ("submissions an hour", lambda one: rate(one.submissions_per_h)),
    ("verified gain", lambda one: number(one.gain)),
    ("verified gain an hour", lambda one: rate(one.gain_per_h)),
    ("tokens in", lambda one: big(one.tokens_in)),
    ("tokens out", lambda one: big(one.tokens_out)),
    ("cost", lambda one: _dollars(one.cost_usd, estimated=one.cost_estimated)),
    ("cost of a submission", lambda one: _dollars(one.cost_per_submission_usd, estimated=one.cost_estimated)),
)
