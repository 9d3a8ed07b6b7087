"""What the report can't know, said as plainly as what it knows."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.losses import Loss, span
from ralphd.core.outcomes import Kind
from ralphd.core.records import Usage
from ralphd.core.report_facts import Facts
from ralphd.core.status import iso

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ralphd.core.spending import Price


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """A gap. ``what`` is a stable code (views word it), ``subject`` a task or loop, ``count`` how many."""

    what: str
    subject: str = ""
    count: int = 1


def unknown(facts: Facts, unreadable: int, price: Price) -> tuple[Unknown, ...]:
    """Return every gap, the most important first."""
    gaps = [*(gap for section in SECTIONS for gap in section(facts)), *_cost(facts, price)]
    if unreadable:
        gaps.append(Unknown(what="unreadable", count=unreadable))
    return tuple(gaps)


def _journal_lost(facts: Facts) -> Iterator[Unknown]:
    for loss in facts.losses:
        yield Unknown(what="journal_lost", subject=_when(loss), count=loss.count)


def _when(loss: Loss) -> str:
    since, until = iso(loss.since), iso(loss.until)
    return f"from {since or 'its beginning'} to {until or 'a time that is not known'} (entries {span(loss)})"


def _no_verifier(facts: Facts) -> Iterator[Unknown]:
    for task in facts.tasks.values():
        if not task.verifier.command:
            yield Unknown(what="no_verifier", subject=task.name)


def _no_base_score(facts: Facts) -> Iterator[Unknown]:
    bases = [j for j in facts.verdicts if j.sound and not j.verdict.loop]
    scored = {j.verdict.task for j in bases if j.verdict.score is not None}
    for task in facts.tasks.values():
        if task.verifier.command and task.name not in scored:
            yield Unknown(what="no_base_score", subject=task.name)


def _flaky(facts: Facts) -> Iterator[Unknown]:
    for name in facts.tasks:
        trees = {j.verdict.tree for j in facts.verdicts if j.verdict.task == name and j.verdict.kind is Kind.FLAKY}
        if trees:
            yield Unknown(what="flaky", subject=name, count=len(trees))


def _unjudged(facts: Facts) -> Iterator[Unknown]:
    judged = {j.verdict.commit for j in facts.verdicts}
    for loop in facts.loops.values():
        task = facts.tasks.get(loop.loop.task) if loop.loop else None
        left = [commit for commit in loop.moved_to if commit not in judged]
        if left and (task is None or task.verifier.command):
            yield Unknown(what="unjudged", subject=loop.id, count=len(left))


def _no_end(facts: Facts) -> Iterator[Unknown]:
    for loop in facts.loops.values():
        open_ = loop.began - loop.ends.keys()
        running = {max(loop.began)} & open_ if facts.ended_at is None and open_ else set()
        if running:
            yield Unknown(what="still_running", subject=loop.id)
        if open_ - running:
            yield Unknown(what="no_end", subject=loop.id, count=len(open_ - running))


def _tokens(facts: Facts) -> Iterator[Unknown]:
    for loop in facts.loops.values():
        silent = [key for key in loop.ends if not _told(loop.usage.get(key))]
        if silent:
            yield Unknown(what="tokens", subject=loop.id, count=len(silent))


def _told(usage: Usage | None) -> bool:
    return usage is not None and (usage.tokens_in is not None or usage.tokens_out is not None)


def _cost(facts: Facts, price: Price) -> Iterator[Unknown]:
    """Tell of tokens that nobody knows the dollars of, where those of others are added up."""
    silent: list[Unknown] = []
    known = False
    for loop in facts.loops.values():
        unpriced = [u for u in loop.usage.values() if u.cost_usd is None and _told(u) and price(u) is None]
        known = known or any(u.cost_usd is not None or price(u) is not None for u in loop.usage.values())
        if unpriced:
            silent.append(Unknown(what="cost", subject=loop.id, count=len(unpriced)))
    if known:
        yield from silent


def _unsettled(facts: Facts) -> Iterator[Unknown]:
    count = sum(action.result is None for action in facts.actions)
    if count:
        yield Unknown(what="unsettled", count=count)


def _night_open(facts: Facts) -> Iterator[Unknown]:
    if facts.ended_at is None:
        yield Unknown(what="night_open")


SECTIONS: tuple[Callable[[Facts], Iterator[Unknown]], ...] = (
    _journal_lost,
    _no_verifier,
    _no_base_score,
    _flaky,
    _unjudged,
    _night_open,
    _no_end,
    _tokens,
    _unsettled,
)
