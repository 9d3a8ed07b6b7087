"""The dashboard's pages: markup of ours around foreign text, in places that can be replaced while one looks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ralphd.views import html
from ralphd.views import status as words
from ralphd.views.blocks import Table
from ralphd.views.kinds import plainly, why_ended
from ralphd.views.svg import safe
from ralphd.views.webfacts import facts, tokens

Regions = dict[str, str]  # the id of an element -> its markup

NAV = (("/", "Now"), ("/report", "Report"), ("/nights", "Nights"))
HEADER = ("loop", "state", "score", "best", "session", "last outcome", "quiet for", "tokens in/out", "note")
FIGURES = frozenset({2, 3, 4, 6, 7})
VERBS = {"pause": "Pause after this session", "resume": "Resume", "restart": "Restart now"}


def frame(title: str, body: str, *, events: str = "", here: str = "") -> str:
    """Return a whole page. ``events``: where its regions come from while one looks."""
    links = "".join(f'<a href="{to}"{_current(to == here)}>{name}</a>' for to, name in NAV)
    live = f' data-events="{safe(events)}"' if events else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{safe(title)} - ralphd</title>\n<link rel="stylesheet" href="/static/style.css">\n'
        '<script src="/static/live.js" defer></script>\n</head>\n'
        f'<body>\n<nav aria-label="Pages">{links}</nav>\n<main{live}>\n<h1>{safe(title)}</h1>\n'
        '<p id="said" role="status"></p>\n'
        f"{body}</main>\n</body>\n</html>\n"
    )


def enter() -> str:
    """Return the page that says nothing, and takes the token out of the address."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>ralphd</title>\n'
        '<link rel="stylesheet" href="/static/style.css">\n<script src="/static/enter.js" defer></script>\n</head>\n'
        '<body>\n<main>\n<h1>ralphd</h1>\n<p id="said" role="status">Open the whole address that '
        "<code>ralphd web</code> printed.</p>\n</main>\n</body>\n</html>\n"
    )


def now(status: dict[str, Any]) -> str:
    """Return the page of the fleet and its loops."""
    regions = now_regions(status)
    title = f"Night {status['night']['id']}" if status.get("night") else "ralphd"
    head = "".join(_heads(HEADER))
    rows = "".join(f'<tr id="{name}">{cells}</tr>' for name, cells in regions.items() if name != "fleet")
    table = (
        f'<div class="wide loops" tabindex="0" role="region" aria-label="loops"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    body = f'<section id="fleet">{regions["fleet"]}</section>\n{table if rows else ""}'
    return frame(title, body, events="/events/now", here="/")


def now_regions(status: dict[str, Any]) -> Regions:
    """Return the fleet's lines, and a row a loop, in the order of `ralphd top`: what needs a person comes first."""
    lines = "".join(sentence(line) for line in words.sentences(status))
    return {"fleet": lines, **{f"row-{place}": _row(loop) for place, loop in enumerate(words.in_order(status))}}


def loop_page(loop: dict[str, Any], regions: Regions, *, actions: bool) -> str:
    name = str(loop["id"])
    buttons = "".join(
        f'<button type="button" data-verb="{verb}" data-loop="{safe(name)}">{text}</button>'
        for verb, text in VERBS.items()
    )
    acts = f'<p class="acts">{buttons}</p>\n' if actions else ""
    body = (
        f'{acts}<section id="facts">{regions["facts"]}</section>\n<h2>Last outcomes</h2>\n'
        f'<section id="outcomes">{regions["outcomes"]}</section>\n<h2>What it says and does</h2>\n'
        f'<section id="digest">{regions["digest"]}</section>\n'
    )
    return frame(name, body, events=f"/events/loop/{name}")


def loop_regions(loop: dict[str, Any], outcomes: Iterable[Mapping[str, Any]], digest: str) -> Regions:
    """Return facts, last outcomes (the newest first) and the end of the log as sentences."""
    rows = tuple((_at(one["at"]), str(one["trajectory"] or ""), _kind_of(one), _why(one)) for one in outcomes)
    told = html.render_block(Table(header=("at (UTC)", "session", "outcome", "evidence"), rows=rows))
    lines = "\n".join(map(safe, digest.splitlines()))
    return {
        "facts": html.render_block(Table(header=("fact", "now"), rows=facts(loop))),
        "outcomes": told if rows else "<p>None yet.</p>",
        "digest": f'<pre tabindex="0">{lines}</pre>' if lines else "<p>Nothing yet.</p>",
    }


def nights(rows: Iterable[Mapping[str, Any]]) -> str:
    items = "".join(map(_night, rows))
    return frame("Nights", f"<ul>{items}</ul>\n" if items else "<p>No night has been yet.</p>\n", here="/nights")


def _night(row: Mapping[str, Any]) -> str:
    name = safe(str(row["id"]))
    span = f"from {_at(row['started_at'])} UTC {_until(row)}"
    return f'<li><a href="/report/{name}">{name}</a> {safe(span)}</li>'


def trouble(why: str) -> str:
    return frame("ralphd", f'<section id="fleet">{sentence(why)}</section>\n', events="/events/now", here="/")


def changes(seen: Regions, regions: Regions) -> str:
    """Return an event of a stream that brings a page from ``seen`` to ``regions``; empty when there is none."""
    if seen and list(seen) != list(regions):
        return "event: anew\ndata: 1\n\n"
    fresh = {name: markup for name, markup in regions.items() if seen.get(name) != markup}
    return f"event: regions\ndata: {json.dumps(fresh)}\n\n" if fresh else ""


def _row(loop: dict[str, Any]) -> str:
    first, *rest, note = words.cells(loop)
    cells = [*rest, tokens(loop), note]
    figures = "".join(f"<td{_kind(number)}>{safe(cell)}</td>" for number, cell in enumerate(cells, 1))
    return f'<td><a href="/loop/{safe(first)}">{safe(first)}</a></td>{figures}'


def _heads(names: Iterable[str]) -> Iterable[str]:
    for number, name in enumerate(names):
        yield f'<th scope="col"{_kind(number)}>{name}</th>'


def _kind(number: int) -> str:
    return ' class="figure"' if number in FIGURES else ""


def sentence(line: str) -> str:
    kind = ' class="needs"' if line.startswith("Needs you: ") else ""
    return f"<p{kind}>{safe(line)}</p>"


def _kind_of(one: Mapping[str, Any]) -> str:
    name = str(one["kind"])
    return f"{words_of} ({name})" if (words_of := plainly(name)) != name else name


def _why(one: Mapping[str, Any]) -> str:
    return "; ".join(str(evidence.get("what", "")) for evidence in one.get("evidence") or ())


def _at(iso: object) -> str:
    """Return a time to the second, in UTC as it is told."""
    return str(iso).replace("T", " ")[:19]


def _until(row: Mapping[str, Any]) -> str:
    if not row.get("ended_at"):
        return "on, with no end recorded"
    return f"until {_at(row['ended_at'])} UTC: {why_ended(str(row['why_ended'] or ''))}"


def _current(is_here: bool) -> str:
    return ' aria-current="page"' if is_here else ""
