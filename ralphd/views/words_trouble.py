"""What went wrong in a night, what of it a person must mend, and where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralphd.core.outcomes import TABLE, Charge, Kind, Response
from ralphd.views.blocks import Block, Heading, Item, Items, Lead, Paragraph
from ralphd.views.kinds import plainly
from ralphd.views.phrases import hours, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralphd.core.report_facts import TraceFact
    from ralphd.core.report_parts import OwnRetries, Report

PLACES = 3  # to look at, for each kind of failure


def needs_you(report: Report) -> Iterator[Block]:
    for kind, count in report.outcomes.items():
        if TABLE[Kind(kind)].response in {Response.HOLD, Response.ASK}:
            loops = ", ".join(loop.id for loop in report.loops if kind in loop.outcomes)
            where = f", in {loops}" if loops else ""
            yield Lead(text=f"Needs you: {plainly(kind)}, {many(count, 'time')}{where} ({kind}).")


def failures(report: Report) -> Iterator[Block]:
    failed = {kind: count for kind, count in report.outcomes.items() if not kind.startswith("done.")}
    limit = Kind.COMPACTION_LIMIT.value
    if report.outcomes.get(limit):
        failed[limit] = report.outcomes[limit]
    yield Heading(text="What went wrong")
    if not failed:
        yield Paragraph(text="Nothing that was recorded.")
    else:
        by_count = sorted(failed.items(), key=lambda pair: (-pair[1], pair[0]))
        yield Items(items=tuple(_failure(report, kind, count) for kind, count in by_count))
    if report.own_retries.counts:
        yield Paragraph(text=_own_retries(report.own_retries))


def _own_retries(told: OwnRetries) -> str:
    parts = ", ".join(f"{name} {count}" for name, count in told.counts.items())
    times = many(sum(told.counts.values()), "time")
    return f"The agents' own clients asked again {times} ({parts}), and waited {hours(told.waited_s / 3600)} for that."


def _failure(report: Report, kind: str, count: int) -> Item:
    seen = [trace for trace in report.evidence if trace.kind == kind]
    words = plainly(kind)
    text = f"{words[:1].upper()}{words[1:]}, {many(count, 'time')} ({kind}{_charged(kind)})"
    return Item(text=text, places=tuple(map(place, seen[:PLACES])))


def _charged(kind: str) -> str:
    charges = {Charge.LOOP: "the loop's own", Charge.INFRA: "no loop's fault", Charge.OPERATOR: "yours to mend"}
    words = charges.get(TABLE[Kind(kind)].charge)
    return f", {words}" if words else ""


def place(trace: TraceFact) -> str:
    """Name where a person can look."""
    who = f"{trace.loop} session {trace.trajectory}" if trace.loop else "the night"
    where = trace.file
    if trace.file and trace.end > trace.start:
        where = f"{trace.file}:{trace.start}-{trace.end}"
    elif trace.file and trace.start:
        where = f"{trace.file}:{trace.start}"
    return ": ".join(part for part in (who, trace.what, where) if part)
