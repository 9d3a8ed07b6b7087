"""How a page looks in a terminal: plain text in 80 columns, bold only where there is a terminal to be bold in."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ralphd.views.blocks import Block, Commands, Heading, Item, Items, Lead, Paragraph, Table
from ralphd.views.text import COLUMNS, clean, fit, for_encoding, pad, width, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralphd.core.report_parts import Report

NARROWEST = 12  # columns that a cut cell keeps: enough to tell one loop from the next
BELOW = "    "  # before what stands below its row
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def render_report(report: Report, *, bold: bool = False, encoding: str | None = "utf-8") -> str:
    """Return the report as text that ends in a newline. ``bold``: the stream is a terminal that knows it."""
    from ralphd.views import words  # noqa: PLC0415  # a status is rendered here too, and must not load the report

    return render_page(words.page(report), bold=bold, encoding=encoding)


def render_page(
    blocks: Iterable[Block],
    *,
    bold: bool = False,
    columns: int = COLUMNS,
    encoding: str | None = "utf-8",
) -> str:
    out: list[str] = []
    before: Block | None = None
    for block in blocks:
        if isinstance(block, Heading) or (isinstance(before, Lead) and not isinstance(block, Lead)):
            out.append("")
        lines = [for_encoding(line, encoding) for line in _lines(block, columns)]
        out += [f"{_BOLD}{line}{_PLAIN}" for line in lines] if bold and isinstance(block, (Heading, Lead)) else lines
        before = block
    return "\n".join(out) + "\n"


def _lines(block: Block, columns: int) -> list[str]:
    match block:
        case Heading(text=text):
            return [clean(text)]
        case Lead(text=text) | Paragraph(text=text):
            return wrap(clean(text), columns)
        case Items(items=items):
            return [line for item in items for line in _item(item, columns)]
        case Commands(commands=commands):
            return [f"    {clean(command)}" for command in commands]
        case Table():
            return table(block, columns)
        case _:
            assert_never(block)


def _item(item: Item, columns: int) -> list[str]:
    places = [f"    {line}" for place in item.places for line in wrap(clean(place), columns - 4, "  ")]
    return [*wrap(f"- {clean(item.text)}", columns, "  "), *places]


def table(block: Table, columns: int) -> list[str]:
    """Return the rows in true widths; a column is cut when the others leave it too little."""
    rows = [tuple(map(clean, row)) for row in (block.header, *block.rows)]
    widths = [max(width(row[n]) for row in rows) for n in range(len(block.header))]
    for column in (len(widths) - 1, 0) if block.last_wraps else (0,):
        over = sum(widths) + 2 * (len(widths) - 1) - columns
        widths[column] -= max(0, min(over, widths[column] - NARROWEST))
    return [line for row in rows for line in _row(row, widths, block, columns)]


def _row(row: tuple[str, ...], widths: list[int], block: Table, columns: int) -> list[str]:
    below: list[str] = []
    if block.last_wraps and width(row[-1]) > widths[-1]:
        below = [BELOW + line for line in wrap(row[-1], columns - len(BELOW))]
        row = (*row[:-1], "")
    return ["  ".join(_cells(row, widths, block.numbers)).rstrip(), *below]


def _cells(row: tuple[str, ...], widths: list[int], numbers: frozenset[int]) -> list[str]:
    return [pad(fit(cell, widths[n]), widths[n], right=n in numbers) for n, cell in enumerate(row)]
