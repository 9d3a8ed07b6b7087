"""How counts, times and commits are said, the same in every section and comparison."""

from __future__ import annotations

from ralphd.core.report import iso
from ralphd.views.text import number

SHORT = 12  # characters of a commit: unique in any repository a person has


def short(commit: str) -> str:
    return commit[:SHORT]


def many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def big(count: int | None) -> str:
    """Return a count of tokens in three digits or so: 950, 12k, 3.4M."""
    if count is None:
        return "?"
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}" if count < 10 * size else f"{count // size}{letter}"
    return str(count)


def hours(value: float | None) -> str:
    if value is None:
        return "an unknown time"
    if value < 1 / 60:
        return many(round(value * 3600), "second")
    minutes = round(value * 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else many(minutes, "minute")


def clock(at: float | None) -> str:
    """Return a time to the minute, in UTC."""
    text = None if at is None else iso(at)
    return f"{text[:10]} {text[11:16]} UTC" if text else "?"


def rate(figure: float | None) -> str:
    """Return a figure in no more digits than it bears."""
    return number(None if figure is None else round(figure, 2 if figure < 100 else 0))
