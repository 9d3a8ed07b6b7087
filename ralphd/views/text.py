"""How foreign text becomes harmless and fits a column: no escapes, no tricks with direction, true widths."""

from __future__ import annotations

import re
import unicodedata

from ralphd.core.unseen import ESCAPE

COLUMNS = 80  # what every terminal has
TELLING_S = 600.0  # of a shorter night an hourly figure says little

_ESCAPE = re.compile(ESCAPE)
_DROPPED = {"Cc", "Cf", "Cs", "Co", "Cn"}
MARKS = 4  # combining marks on one letter; more is meant to smear over other lines


def clean(text: str) -> str:
    """Return ``text`` on one line, without anything that moves, colours, reorders or hides."""
    if text.isascii() and text.isprintable():  # most of all text, and what is live cleans all of it every second
        return text.strip()
    return " ".join(lines(text)).strip()


def lines(text: str) -> list[str]:
    """Return the lines of ``text``, each harmless; tabs become spaces."""
    return [_one(line) for line in re.split(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]", _ESCAPE.sub("", text))]


def _one(line: str) -> str:
    kept: list[str] = []
    marks = 0
    for char in line.replace("\t", " "):
        category = unicodedata.category(char)
        marks = marks + 1 if category in {"Mn", "Me"} else 0
        if marks > MARKS:
            continue
        if category == "Cs":
            kept.append("?")
        elif category not in _DROPPED:
            kept.append(char)
    return "".join(kept)


def width(text: str) -> int:
    """Return how many columns ``text`` takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def fit(text: str, columns: int) -> str:
    """Cut ``text`` to ``columns``; what was cut ends in three dots."""
    if width(text) <= columns:
        return text
    room, kept = columns - 3, ""
    for char in text:
        if width(kept) + _columns(char) > room:
            break
        kept += char
    return (kept + "...")[: max(columns, 0)] if columns < 3 else kept + "..."


def pad(text: str, columns: int, *, right: bool = False) -> str:
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def wrap(text: str, columns: int = COLUMNS, indent: str = "") -> list[str]:
    """Break a line of words; what is longer than a line (a path, a command) is left whole, for copying."""
    done, line = [], ""
    for word in text.split():
        if line.strip() and width(line) + 1 + width(word) > columns:
            done.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    return [*done, line]


def number(value: float | None) -> str:
    """Return a figure without a tail of zeros; the unknown is a question mark."""
    if value is None:
        return "?"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def for_encoding(text: str, encoding: str | None) -> str:
    """Return ``text`` with a question mark for whatever ``encoding`` doesn't have."""
    encoding = encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)
