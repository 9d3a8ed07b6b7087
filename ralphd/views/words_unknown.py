"""What a report does not know, said in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ralphd.views.blocks import Block, Heading, Item, Items, Paragraph
from ralphd.views.phrases import many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ralphd.core.report_parts import Report
    from ralphd.core.report_unknown import Unknown

ALIKE = 3  # gaps of one sort that are named one by one


def unknowns(report: Report) -> Iterator[Block]:
    yield Heading(text="What is not known")
    if not report.unknown:
        yield Paragraph(text="Nothing that matters: every session, verdict and decision has its record.")
        return
    yield Items(items=tuple(Item(text=_gap(gap)) for gap in _together(report.unknown)))


def _together(gaps: tuple[Unknown, ...]) -> Iterator[Unknown]:
    """Tell a gap that many loops share once."""
    for what in dict.fromkeys(gap.what for gap in gaps):
        alike = [gap for gap in gaps if gap.what == what]
        if len(alike) > ALIKE:
            yield replace(
                alike[0],
                subject=f"{len(alike)} {'tasks' if what in _OF_TASKS else 'loops'}",
                count=sum(gap.count for gap in alike),
            )
        else:
            yield from alike


def _gap(gap: Unknown) -> str:
    sentence = _GAPS.get(gap.what)
    return sentence(gap) if sentence else f"{gap.what} {gap.subject}"


_OF_TASKS = frozenset({"no_verifier", "no_base_score", "flaky"})
_GAPS: dict[str, Callable[[Unknown], str]] = {
    "journal_lost": lambda gap: (
        f"What was decided and judged {gap.subject}: the journal was damaged. What the loops recorded themselves "
        "was taken in again; the kind daemon.journal_error above says what became of the file."
    ),
    "no_verifier": lambda gap: f"{gap.subject}: whether anything is better; it has no verifier.",
    "no_base_score": lambda gap: f"{gap.subject}: the score at the start; the verifier gave none.",
    "flaky": lambda gap: f"{gap.subject}: the score of {many(gap.count, 'tree')}; the verifier gave different answers.",
    "unjudged": lambda gap: f"{gap.subject}: what {many(gap.count, 'commit')} would score; never verified.",
    "night_open": lambda _gap: "How the night ends: no end is recorded yet.",
    "still_running": lambda gap: f"{gap.subject}: how its newest session ends; no end is recorded yet.",
    "no_end": lambda gap: f"{gap.subject}: how {many(gap.count, 'session')} ended; no end was recorded.",
    "tokens": lambda gap: f"{gap.subject}: the tokens of {many(gap.count, 'session')}; the agent didn't tell.",
    "cost": lambda gap: (
        f"{gap.subject}: what {many(gap.count, 'session')} cost; neither the agent nor a price list tells."
    ),
    "unsettled": lambda gap: f"What came of {many(gap.count, 'decision')}; no result was recorded.",
    "unreadable": lambda gap: (
        f"{many(gap.count, 'journal entry', 'journal entries')} could not be read: a newer ralphd?"
    ),
}
