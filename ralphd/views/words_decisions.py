"""What was decided in a night and why, by the policy, by a person and by the supervisor's model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralphd.core.actions import StopLoop
from ralphd.core.policy.running import NIGHT_ENDS
from ralphd.views.blocks import Block, Heading, Item, Items, Paragraph, Table
from ralphd.views.decisions import decisions as alike
from ralphd.views.phrases import big, many
from ralphd.views.text import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralphd.core.report_parts import ActionPart, AdvicePart, Report

ROUTINE = frozenset({"Verify", "SpawnRunner"})  # one a commit and one a loop: counted, not listed
DECISIONS = 20  # a page of them; `ralphd journal actions` has all


def decisions(report: Report) -> Iterator[Block]:
    yield Heading(text="What was decided, and why")
    if not report.actions:
        yield Paragraph(text="Nothing.")
        return
    listed = [action for action in report.actions if not _is_routine(action)]
    told = alike(listed)
    if told:
        yield Items(items=tuple(Item(text=one.text) for one in told[-DECISIONS:]))
    earlier = sum(one.count for one in told[:-DECISIONS])
    yield Paragraph(text=_left_out(earlier, len(report.actions) - len(listed)))


def _is_routine(action: ActionPart) -> bool:
    """Tell what is one a commit or one a loop: it is counted, and only listed where it didn't go well."""
    usual = action.action in ROUTINE or (action.action == StopLoop.__name__ and action.why == NIGHT_ENDS)
    return usual and action.result not in {"failed", "refused"}


def _left_out(earlier: int, routine: int) -> str:
    parts = (
        f"{many(earlier, 'earlier decision')}" if earlier else "",
        f"{many(routine, 'routine start, stop or verification', 'routine starts, stops and verifications')}"
        if routine
        else "",
    )
    rest = " and ".join(part for part in parts if part)
    return f"Not listed: {rest}; `ralphd journal actions` has them." if rest else "That is all."


def advice(report: Report) -> Iterator[Block]:
    advice = report.advice
    if advice is None:
        return
    yield Heading(text="The supervisor's model")
    yield Paragraph(text=_asked(advice))
    if advice.unreached:
        alone = "The policy decided everything" if not advice.taken else "Meanwhile the policy decided alone"
        yield Paragraph(text=f"It could not be reached, {many(advice.unreached, 'time')}. {alone}.")
    if not advice.taken:
        return
    shares = (("advised, before", advice.before), ("advised, after", advice.after), ("never advised", advice.others))
    rows = tuple(
        (name, str(share.loops), str(share.sessions), str(share.submissions), number(share.submissions_per_session))
        for name, share in shares
    )
    yield Table(
        header=("loops", "how many", "sessions", "subm.", "a session"), rows=rows, numbers=frozenset({1, 2, 3, 4})
    )
    yield Paragraph(
        text="It is asked about loops in trouble only, so compare the first two lines, not them with the third."
    )


def _asked(advice: AdvicePart) -> str:
    if not advice.asked:
        return f"{advice.model} answered no question: none was asked, or none reached it."
    taken = ", ".join(f"{count} {name}" for name, count in advice.choices.items())
    refused = ", ".join(f"{count} {kind}" for kind, count in advice.refused.items())
    return (
        f"{advice.model} was asked {many(advice.asked, 'time')}; {advice.taken} answers were taken"
        f"{f' ({taken})' if taken else ''}{f'; not taken: {refused}' if refused else ''}. "
        f"Tokens {big(advice.tokens_in)} in, {big(advice.tokens_out)} out."
    )
