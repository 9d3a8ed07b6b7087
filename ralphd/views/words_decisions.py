"""What was decided in a night and why, by the policy, by a person and by the supervisor's model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralphd.core.actions import ASKED
from ralphd.views.blocks import Block, Heading, Item, Items, Paragraph, Table
from ralphd.views.phrases import big, clock, many
from ralphd.views.text import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralphd.core.report_parts import ActionPart, AdvicePart, Report

ROUTINE = frozenset({"Verify", "SpawnRunner"})  # one a commit and one a loop: counted, not listed
DECISIONS = 20  # a page of them; `ralphd journal actions` has all


def decisions(report: Report) -> Iterator[Block]:
    yield Heading(text="What was decided, and why")
    listed = [
        action for action in report.actions if action.action not in ROUTINE or action.result in {"failed", "refused"}
    ]
    if listed:
        yield Items(items=tuple(Item(text=_decision(action)) for action in listed[-DECISIONS:]))
    if not report.actions:
        yield Paragraph(text="Nothing.")
        return
    yield Paragraph(text=_left_out(max(0, len(listed) - DECISIONS), len(report.actions) - len(listed)))


def _left_out(earlier: int, routine: int) -> str:
    parts = (
        f"{many(earlier, 'earlier decision')}" if earlier else "",
        f"{many(routine, 'routine start or verification', 'routine starts and verifications')}" if routine else "",
    )
    rest = " and ".join(part for part in parts if part)
    return f"Not listed: {rest}; `ralphd journal actions` has them." if rest else "That is all."


def _decision(action: ActionPart) -> str:
    who = f" {action.loop}" if action.loop else ""
    result = action.result or "no result recorded"
    detail = f" ({action.detail})" if action.detail else ""
    why = "" if action.by == "operator" and action.why == ASKED else f": {action.why}"
    return f"{clock(action.at)[11:16]} {action.by}: {_verb(action.action)}{who}{why}; {result}{detail}"


def _verb(action: str) -> str:
    return "".join(f" {char.lower()}" if char.isupper() else char for char in action).strip()


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
