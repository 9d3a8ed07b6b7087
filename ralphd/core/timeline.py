"""When did what happen in a night: each loop's sessions, and what went wrong, in as many pieces as a page shows."""

from __future__ import annotations

from collections import Counter

from ralphd.core.report_parts import Span, Strip, Trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.report_facts import Facts, LoopFacts

PIECES = 20_000  # of all loops together: a page of them stays under a mebibyte
PIECES_A_LOOP = (40, 240)  # least and most
BINS = 96  # five minutes of an eight-hour night


def strips(facts: Facts) -> tuple[Strip, ...]:
    """Return what each loop did, in order of time."""
    least, most = PIECES_A_LOOP
    pieces = max(least, min(most, PIECES // max(1, len(facts.loops))))
    return tuple(Strip(loop=loop.id, spans=_fewer(_spans(loop), pieces)) for loop in facts.loops.values())


def _spans(loop: LoopFacts) -> list[Span]:
    spans: list[Span] = []
    for key, (began, ended) in sorted(loop.spans.items(), key=lambda item: item[1][0]):
        end = loop.ends.get(key)
        span = Span(at=began, until_at=ended, kind=end.value if end else None, sessions=1)
        if spans and spans[-1].kind == span.kind and span.kind is not None:
            spans[-1] = _together(spans[-1], span)
        else:
            spans.append(span)
    return spans


def _together(one: Span, other: Span, kind: str | None = None) -> Span:
    return Span(at=one.at, until_at=other.until_at, kind=kind or one.kind, sessions=one.sessions + other.sessions)


def _fewer(spans: list[Span], pieces: int) -> tuple[Span, ...]:
    """Put neighbours together until few enough are left; the kind with more sessions stands for both."""
    while len(spans) > pieces:
        pairs = [spans[at : at + 2] for at in range(0, len(spans), 2)]
        spans = [_both(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return tuple(spans)


def _both(one: Span, other: Span) -> Span:
    more = one if one.sessions >= other.sessions else other
    return _together(one, other, more.kind)


def troubles(facts: Facts, began: float | None, until: float | None) -> tuple[Trouble, ...]:
    """Return what went wrong, counted in equal pieces of the night; empty pieces are left out."""
    if began is None or until is None or until <= began:
        return ()
    width = (until - began) / BINS
    bins: dict[int, Counter[str]] = {}
    for at, kind in facts.troubles:
        bins.setdefault(max(0, min(BINS - 1, int((at - began) / width))), Counter())[kind] += 1
    return tuple(
        Trouble(
            at=began + number * width,
            until_at=began + (number + 1) * width,
            count=kinds.total(),
            kind=_most(kinds),
        )
        for number, kinds in sorted(bins.items())
    )


def _most(kinds: Counter[str]) -> str:
    return min(kinds, key=lambda kind: (-kinds[kind], kind))
