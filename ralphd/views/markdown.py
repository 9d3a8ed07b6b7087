"""How a page looks as Markdown; foreign text can't leave its place in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, assert_never

from ralphd.views import words
from ralphd.views.blocks import Block, Commands, Heading, Item, Items, Lead, Paragraph, Table
from ralphd.views.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralphd.core.report_parts import Report

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
_LINE_START = re.compile(r"^(\d{1,9})([.)])(?=\s|$)|^([+\-=])")


def render_report(report: Report) -> str:
    """Return the report as GitHub-flavoured Markdown."""
    return render_page(words.page(report), title=f"Night {report.night.id}")


def render_page(blocks: Iterable[Block], title: str) -> str:
    parts = [f"# {escape(title)}", *("\n".join(_lines(block)) for block in blocks)]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return foreign text as words: no markup, no HTML, no links, no mentions."""
    text = _SPECIAL.sub(r"\\\1", clean(text))
    text = text.replace("://", "&#58;//").replace("@", "&#64;").replace("www.", "www&#46;")
    return _LINE_START.sub(lambda found: f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}", text)


def _code(text: str) -> str:
    """Return ``text`` between more backticks than it holds in a row."""
    text = clean(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def _lines(block: Block) -> list[str]:
    match block:
        case Heading(text=text):
            return [f"## {escape(text)}"]
        case Lead(text=text):
            return [f"**{escape(text)}**"]
        case Paragraph(text=text):
            return [escape(text)]
        case Items(items=items):
            return [line for item in items for line in _item(item)]
        case Commands(commands=commands):
            return ["```sh", *map(clean, commands), "```"]
        case Table():
            return _table(block)
        case _:
            assert_never(block)


def _item(item: Item) -> list[str]:
    return [f"- {escape(item.text)}", *(f"  - {_code(place)}" for place in item.places)]


def _table(block: Table) -> list[str]:
    rule = ["---:" if n in block.numbers else "---" for n in range(len(block.header))]
    rows = [[escape(cell) for cell in row] for row in (block.header, *block.rows)]
    return [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]
