"""Did the supervisor's model help? Loops whose advice was taken, before and after, beside the loops without."""

from __future__ import annotations

from collections import Counter

from ralphd.core.report_facts import Facts, Key
from ralphd.core.report_parts import AdvicePart, Share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def advice(facts: Facts) -> AdvicePart | None:
    """Return what there is to say; None when no model was set and none was asked."""
    if not facts.supervisor and not facts.advice:
        return None
    told = [fact.body for fact in facts.advice]
    first: dict[str, Key] = {}
    for fact in facts.advice:
        if fact.body.taken:
            first.setdefault(fact.loop, fact.key)
    others = [name for name in facts.loops if name not in first]
    return AdvicePart(
        model=facts.supervisor or told[-1].model,
        asked=len(told),
        taken=sum(body.taken for body in told),
        choices=_counts(body.choice for body in told if body.taken),
        refused=_counts(body.refused for body in told if not body.taken),
        unreached=len(facts.unreached),
        tokens_in=_sum(body.tokens_in for body in told),
        tokens_out=_sum(body.tokens_out for body in told),
        before=_share(facts, first, lambda name, key: key < first[name]),
        after=_share(facts, first, lambda name, key: key >= first[name]),
        others=_share(facts, others, lambda _name, _key: True),
    )


def _share(facts: Facts, names: Iterable[str], counts: Callable[[str, Key], bool]) -> Share:
    chosen = list(names)
    sessions = sum(counts(name, key) for name in chosen for key in facts.of(name).ends)
    submissions = sum(
        judged.submission and judged.verdict.loop in chosen and counts(judged.verdict.loop, judged.key)
        for judged in facts.verdicts
    )
    return Share(
        loops=len(chosen),
        sessions=sessions,
        submissions=submissions,
        submissions_per_session=round(submissions / sessions, 4) if sessions else None,
    )


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _sum(told: Iterable[int | None]) -> int | None:
    known = [figure for figure in told if figure is not None]
    return sum(known) if known else None
