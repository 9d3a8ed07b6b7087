"""The report as one HTML file that opens from disk: no script, no link to anywhere, pictures inside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from ralphd.views import ansi, diffs, figures, words
from ralphd.views.blocks import Block, Commands, Heading, Item, Items, Lead, Paragraph, Table
from ralphd.views.svg import safe

if TYPE_CHECKING:
    from ralphd.core.report_parts import Report, TaskPart

STYLE = Path(__file__).with_name("report.css")
ROWS_SHOWN = 24  # of a table; a longer one is folded


@dataclass(frozen=True, kw_only=True)
class Extras:
    """What lies outside of the journal, already free of secrets: patches by task, subjects by commit.

    ``excerpts``: what stands at a failure's place, by the words that name the place, with a terminal's colours.
    """

    patches: Mapping[str, str] = field(default_factory=dict)
    subjects: Mapping[str, str] = field(default_factory=dict)
    excerpts: Mapping[str, str] = field(default_factory=dict)


def render_report(report: Report, extras: Extras | None = None) -> str:
    """Return the whole file."""
    return page(f"Night {report.night.id}", report_body(report, extras or Extras()))


def report_body(report: Report, extras: Extras) -> str:
    """Return what stands below the title."""
    return "".join(_body(report, extras))


def style() -> str:
    """Return the style that a report's markup needs."""
    return STYLE.read_text(encoding="utf-8") + diffs.style() + ansi.style()


def page(title: str, body: str) -> str:
    """Frame ``body`` (markup of ours) in a page whose policy forbids everything but its own style."""
    styles = style()
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n'
        f"<title>{safe(title)} - ralphd</title>\n<style>{styles}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{safe(title)}</h1>\n{body}</main>\n</body>\n</html>\n"
    )


def _body(report: Report, extras: Extras) -> Iterator[str]:
    drawn = {
        "Loops": _after_loops(report, extras),
        "How to take it": _patches(report, extras),
    }
    heading = ""
    pictured = False
    for block in words.page(report):
        if isinstance(block, Heading):
            yield drawn.pop(heading, "")
            if not pictured:
                pictured = True
                yield from (_score_figure(report, task) for task in report.tasks)
            heading = block.text
        yield render_block(block, extras.excerpts)
    yield drawn.pop(heading, "")


def _score_figure(report: Report, task: TaskPart) -> str:
    drawn = figures.scores(report, task)
    if not drawn:
        return ""
    return _figure(drawn, f"Best verified score of {task.name}.", figures.score_table(report, task))


def _figure(drawn: str, caption: str, behind: Table) -> str:
    return (
        f'<figure><div class="wide" tabindex="0" role="region" aria-label="picture">{drawn}</div>'
        f"<figcaption>{safe(caption)}</figcaption>"
        f"<details><summary>The same as a table</summary>{_table(behind)}</details></figure>\n"
    )


def _after_loops(report: Report, extras: Extras) -> str:
    strips = "".join(
        f'<div class="strip-row" role="listitem"><span class="name">{safe(loop)}</span>{drawn}</div>'
        for loop, drawn in figures.strips(report)
    )
    parts = []
    if strips:
        parts.append(
            f"<h3>Every loop's sessions over the night</h3>{figures.legend()}"
            f'<div class="strips" role="list">{strips}</div>'
        )
    shares = figures.shares(report.loops)
    if shares:
        parts.append(f"<h3>Where the progress came from, and where the tokens went</h3>{shares}")
    tried = [(loop.id, extras.subjects.get(loop.best_commit or "", "")) for loop in report.loops]
    rows = tuple((loop, subject) for loop, subject in tried if subject)
    if rows:
        table = Table(header=("loop", "its best commit, in its own words"), rows=rows)
        parts.append(f"<h3>What they tried</h3>{_folded(table)}")
    return "".join(parts)


def _patches(report: Report, extras: Extras) -> str:
    return "".join(
        f"<details><summary>What {safe(task.best.loop)} changed for {safe(task.name)}</summary>"
        f"{diffs.render(extras.patches[task.name])}</details>"
        for task in report.tasks
        if task.best is not None and extras.patches.get(task.name)
    )


def render_block(block: Block, excerpts: Mapping[str, str] | None = None) -> str:
    match block:
        case Heading(text=text):
            return f"<h2>{safe(text)}</h2>\n"
        case Lead(text=text):
            return f'<p class="lead">{safe(text)}</p>\n'
        case Paragraph(text=text):
            return f"<p>{safe(text)}</p>\n"
        case Items(items=items):
            return f"<ul>{''.join(_item(item, excerpts or {}) for item in items)}</ul>\n"
        case Commands(commands=commands):
            lines = "\n".join(map(safe, commands))
            return f'<pre tabindex="0"><code>{lines}</code></pre>\n'
        case Table():
            return _folded(block)
        case _:
            assert_never(block)


def _item(item: Item, excerpts: Mapping[str, str]) -> str:
    if not item.places:
        return f"<li>{safe(item.text)}</li>"
    places = "".join(f"<li><code>{safe(place)}</code>{_excerpt(excerpts.get(place, ''))}</li>" for place in item.places)
    return f"<li><details><summary>{safe(item.text)}</summary><ul>{places}</ul></details></li>"


def _excerpt(text: str) -> str:
    return f'<pre class="excerpt" tabindex="0">{ansi.render(text)}</pre>' if text else ""


def _folded(table: Table) -> str:
    if len(table.rows) <= ROWS_SHOWN:
        return _table(table)
    first = Table(header=table.header, rows=table.rows[:ROWS_SHOWN], numbers=table.numbers)
    rest = Table(header=table.header, rows=table.rows[ROWS_SHOWN:], numbers=table.numbers)
    more = f"<details><summary>{len(rest.rows)} more</summary>{_table(rest)}</details>"
    return _table(first) + more


def _table(table: Table) -> str:
    head = "".join(_cells(table.header, table.numbers, "th"))
    rows = "".join(f"<tr>{''.join(_cells(row, table.numbers, 'td'))}</tr>" for row in table.rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{safe(", ".join(table.header))}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
    )


def _cells(row: Iterable[str], numbers: frozenset[int], tag: str) -> Iterator[str]:
    for column, cell in enumerate(row):
        kind = ' class="figure"' if column in numbers else ""
        scope = ' scope="col"' if tag == "th" else ""
        yield f"<{tag}{scope}{kind}>{safe(cell)}</{tag}>"
