"""How a report is put into plain words, the same for every rendering: sections in the order a tired person needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralphd.core.spending import dollars
from ralphd.views.blocks import Block, Heading, Paragraph, Table
from ralphd.views.kinds import why_ended
from ralphd.views.phrases import big, clock, hours, many, rate
from ralphd.views.text import TELLING_S, number
from ralphd.views.words_decisions import advice, decisions
from ralphd.views.words_gain import headline, taking
from ralphd.views.words_trouble import failures, needs_you
from ralphd.views.words_unknown import unknowns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ralphd.core.report_parts import LoopPart, Report, Totals


def page(report: Report) -> Iterator[Block]:
    """Yield the whole report."""
    for section in SECTIONS:
        yield from section(report)


def _night(report: Report) -> Iterator[Block]:
    night, totals = report.night, report.totals
    ended = f"ended {clock(night.ended_at)} ({why_ended(night.why_ended)})"
    if night.ended_at is None:
        ended = f"no end is recorded; last heard of {clock(night.last_at)}"
    hourly = f" ({rate(totals.healthy_with_submission_per_h)} an hour)" if _long_enough(totals) else ""
    yield Paragraph(text=f"Night {night.id}: began {clock(night.started_at)}, {ended}, {hours(totals.hours)}.")
    yield Paragraph(
        text=f"{many(totals.trajectories, 'session')}, {totals.healthy} healthy, {totals.healthy_with_submission} of "
        f"those with a submission{hourly}.",
    )
    if totals.gain_per_h is not None and len(report.tasks) == 1:  # gains of several tasks have no common unit
        yield Paragraph(text=f"Verified gain: {number(totals.gain)}{_an_hour(totals)}.")
    yield from _budget(report)
    if totals.tokens_in is not None or totals.tokens_out is not None:
        tokens = f"{big(totals.tokens_in)} tokens in, {big(totals.tokens_out)} out"
        yield Paragraph(text=f"{tokens}; {_cost(report)}.")


def _budget(report: Report) -> Iterator[Block]:
    """Tell of a budget, first of all when it is spent."""
    given, cost = report.night.budget_usd, report.totals.cost_usd
    if given is None:
        return
    if cost is None:
        yield Paragraph(
            text=f"What it cost is not known, nor whether that is more than the budget of {dollars(given)}."
        )
    elif cost >= given:
        yield Paragraph(
            text=f"The budget of {dollars(given)} is spent: the night cost {_known(report)}{dollars(cost)}."
        )
    else:
        yield Paragraph(text=f"Of the budget of {dollars(given)} the night spent {_known(report)}{dollars(cost)}.")


def _cost(report: Report) -> str:
    totals = report.totals
    if totals.cost_usd is None:
        return "what they cost is not known"
    by_list = ", some of it by list prices" if totals.cost_estimated else ""
    return f"{_known(report)}{dollars(totals.cost_usd)}{by_list}"


def _known(report: Report) -> str:
    """Return how exact a sum of dollars is: of some sessions nobody knows them, or they are worked out."""
    if any(gap.what == "cost" for gap in report.unknown):
        return "at least "
    return "about " if report.totals.cost_estimated else ""


def _an_hour(totals: Totals) -> str:
    if not totals.gain or totals.gain_high_per_h is None or not _long_enough(totals):
        return ""
    between = f"between {rate(totals.gain_low_per_h)} and {rate(totals.gain_high_per_h)}"
    return f", that is {rate(totals.gain_per_h)} an hour ({between}, 19 times of 20)"


def _long_enough(totals: Totals) -> bool:
    return totals.hours is not None and totals.hours * 3600 >= TELLING_S


def _loops(report: Report) -> Iterator[Block]:
    if not report.loops:
        return
    yield Heading(text="Loops")
    columns = tuple(_columns(report))
    names = tuple(name for name, _ in columns)
    rows = tuple(tuple(told(loop) for _, told in columns) for loop in report.loops)
    yield Table(header=names, rows=rows, numbers=frozenset(range(names.index("sessions"), len(names))))
    yield Paragraph(
        text="Healthy: the session ended well. Submission (subm.): a commit that passed the verifier, or scored better "
        "than all before it in its loop."
    )


def _columns(report: Report) -> Iterator[tuple[str, Callable[[LoopPart], str]]]:
    """Return what is told of each loop: a name, and how. Nobody is shown a column in which nothing stands."""
    yield "loop", lambda loop: loop.id
    if len(report.tasks) > 1:
        yield "task", lambda loop: loop.task
    yield "sessions", lambda loop: str(loop.trajectories)
    yield "healthy", lambda loop: str(loop.healthy)
    yield "subm.", lambda loop: str(loop.submissions)
    yield "best", lambda loop: number(loop.best_score) if loop.best_score is not None else "-"
    if _long_enough(report.totals) and any(loop.gain_per_h is not None for loop in report.loops):
        yield "gain/h", lambda loop: rate(loop.gain_per_h) if loop.gain_per_h is not None else "-"
    yield "tokens in/out", lambda loop: f"{big(loop.tokens_in)}/{big(loop.tokens_out)}"
    if any(loop.cost_usd is not None for loop in report.loops):
        yield "cost", _loop_cost


def _loop_cost(loop: LoopPart) -> str:
    if loop.cost_usd is None:
        return "?"
    return f"{'~' if loop.cost_estimated else ''}{dollars(loop.cost_usd)}"


def _fewer(report: Report) -> Iterator[Block]:
    """Tell whether more loops would have helped, by what fewer would have given."""
    if not report.fewer:
        return
    yield Heading(text="Would more loops have helped?")
    several = len(report.tasks) > 1
    best = {task.name: task.best.score for task in report.tasks if task.best}
    for task in dict.fromkeys(fewer.task for fewer in report.fewer):
        told = [fewer for fewer in report.fewer if fewer.task == task]
        means = " and ".join(f"{_rounded(one.best_score)} with {one.loops}" for one in told)
        yield Paragraph(
            text=f"{f'{task}: of' if several else 'Of'} the {told[0].of} loops with a score the best has "
            f"{number(best.get(task))}. On average it would have been {means} of them."
        )


def _rounded(mean: float) -> str:
    """Return a mean in no more digits than scores of a night can bear out."""
    return number(float(f"{mean:.4g}"))


SECTIONS: tuple[Callable[[Report], Iterator[Block]], ...] = (
    headline,
    needs_you,
    _night,
    taking,
    _loops,
    _fewer,
    failures,
    decisions,
    advice,
    unknowns,
)
