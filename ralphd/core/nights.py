"""How nights are named: a date and a letter, in the alphabet of loop ids."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _letters(count: int) -> str:
    """Return a, b, … z, aa, ab, … for 0, 1, …."""
    text = ""
    count += 1
    while count:
        count, rest = divmod(count - 1, len(_LETTERS))
        text = _LETTERS[rest] + text
    return text


def next_night_id(today: str, existing: Iterable[str]) -> str:
    """Return the first id of ``today`` (``2026-11-30``) that is not in ``existing``: ``2026-11-30-a``, then ``-b``."""
    taken = set(existing)
    count = 0
    while (night := f"{today}-{_letters(count)}") in taken:
        count += 1
    return night
