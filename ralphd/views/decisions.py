"""How decisions are told: one line each, what was decided of several loops for one reason together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from ralphd.core.actions import ASKED
from ralphd.core.report import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralphd.core.report_parts import ActionPart


@dataclass(frozen=True, kw_only=True)
class Told:
    """A line, and how many decisions it tells."""

    text: str
    count: int


def decisions(actions: Iterable[ActionPart]) -> list[Told]:
    """Return a line for every run of decisions that differ in nothing but the loop."""
    return [_told(list(alike)) for _, alike in groupby(actions, key=_sort)]


def _sort(action: ActionPart) -> tuple[object, ...]:
    return _clock(action.at), action.by, action.action, action.why, action.result, action.detail, bool(action.loop)


def _told(alike: Sequence[ActionPart]) -> Told:
    one = alike[0]
    named = dict.fromkeys(action.loop for action in alike if action.loop)
    loops, times = ", ".join(named), f", {len(alike)} times" if len(alike) > max(1, len(named)) else ""
    result = one.result or "no result recorded"
    detail = f" ({one.detail})" if one.detail else ""
    why = "" if one.by == "operator" and one.why == ASKED else f": {one.why}"
    did = " ".join((_verb(one.action, of_loop=bool(loops)), loops)).strip()
    return Told(text=f"{_clock(one.at)} {one.by}: {did}{why}; {result}{detail}{times}", count=len(alike))


def _clock(at: float) -> str:
    return (iso(at) or "")[11:16]


def _verb(action: str, *, of_loop: bool) -> str:
    """Return the words of an action's name; which loop it is about is said by that loop's own."""
    words = "".join(f" {char.lower()}" if char.isupper() else char for char in action).strip()
    return words.removesuffix(" loop") if of_loop else words
