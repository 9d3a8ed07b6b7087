"""What `ralphd top` shows, as values: the sentences of the night, and the rows of its loops in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ralphd.views.status import HEADER, NUMBERS, cells, in_order, sentences
from ralphd.views.text import COLUMNS, clean, fit, pad

# How wide each column is in 80 columns; what is left of the line belongs to the note.
WIDTHS = (10, 8, 7, 7, 4, 16, 5)
ROOMY, ROOMY_WIDTHS = 110, (16, 8, 9, 9, 5, 24, 5)  # from so many columns on nothing but the longest names is cut
GAP = 1  # between two columns, and the scroll bar beside the last
SMALLEST_NOTE = 10


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A screen: sentences of the night, and for each loop in order its name and its cells. All text is harmless."""

    lines: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def shown(status: dict[str, Any], columns: int = COLUMNS) -> Shown:
    """Return the screen of a status for a terminal of so many columns."""
    loops = in_order(status)
    widths = column_widths(columns)
    return Shown(
        lines=tuple(clean(line) for line in sentences(status)),
        names=tuple(str(loop.get("id")) for loop in loops),
        rows=tuple(fitted(cells(loop), widths) for loop in loops),
    )


def column_widths(columns: int) -> tuple[int, ...]:
    """Return the width of each column; the note takes the rest of the line."""
    widths = ROOMY_WIDTHS if columns >= ROOMY else WIDTHS
    return (*widths, max(SMALLEST_NOTE, columns - sum(widths) - GAP * len(HEADER)))


def fitted(row: tuple[str, ...], widths: tuple[int, ...]) -> tuple[str, ...]:
    """Return cells that fill their columns exactly, figures to the right."""
    pairs = enumerate(zip(row, widths, strict=True))
    return tuple(pad(fit(clean(cell), wide), wide, right=n in NUMBERS) for n, (cell, wide) in pairs)


def line(cells: tuple[str, ...]) -> str:
    """Return a row as it stands on the screen."""
    return (" " * GAP).join(cells)


def place_of(name: str, now: Shown, before: int) -> int:
    """Return the row of the loop that was chosen; where it stood when it is gone."""
    if name in now.names:
        return now.names.index(name)
    return max(0, min(before, len(now.names) - 1))
