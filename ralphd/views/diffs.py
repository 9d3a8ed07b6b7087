"""How a patch is shown: every line as what it is (kept, added, removed), with the colours of its language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from html import escape

from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from ralphd.views.svg import safe
from ralphd.views.text import lines as harmless

LINES = 3000  # of a patch on the page; the rest is a command away
COLUMNS = 400  # of a line: a minified file is no reading
LONGEST_COLOURED = 200

_KINDS = {"+": "added", "-": "removed", "@": "place", "\\": "note"}


def render(patch: str) -> str:
    """Return markup for a unified diff as git prints it. Nothing in it can become markup of its own."""
    shown, count = [], 0
    paint: Callable[[str], str] = escape
    for raw in patch.split("\n"):
        if raw.startswith("diff --git "):
            paint = escape
            shown.append(f'<span class="file">{safe(raw.removeprefix("diff --git "))}</span>')
            continue
        if raw.startswith("+++ b/"):
            paint = _painter(raw.removeprefix("+++ b/"))
        count += 1
        if count > LINES:
            shown.append(f'<span class="note">[only the first {LINES} lines are shown]</span>')
            break
        shown.append(_line(raw, paint))
    return f'<pre class="diff" tabindex="0"><code>{"".join(shown)}</code></pre>'


def _line(raw: str, paint: Callable[[str], str]) -> str:
    text = " ".join(harmless(raw))[:COLUMNS]
    if raw.startswith(
        ("+++", "---", "index ", "new file", "deleted file", "similarity", "rename", "old mode", "new mode")
    ):
        return f'<span class="note">{escape(text)}</span>'
    kind = _KINDS.get(raw[:1], "kept")
    if kind in {"place", "note"}:
        return f'<span class="{kind}">{escape(text)}</span>'
    body = text[1:]
    painted = paint(body) if len(body) <= LONGEST_COLOURED else escape(body)
    return f'<span class="{kind}">{escape(text[:1])}{painted}</span>'


def _painter(name: str) -> Callable[[str], str]:
    lexer = _lexer(name.rsplit("/", 1)[-1])
    if lexer is None:
        return escape
    return lambda text: highlight(text, lexer, _FORMATTER).rstrip("\n")


@cache
def _lexer(name: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(name, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return None


_FORMATTER = HtmlFormatter(nowrap=True, classprefix="c-")


def style() -> str:
    """Return the colours of words in a diff, for light and for dark."""
    return "".join(_rules())


def _rules() -> Iterator[str]:
    light = {"k": "#7a1fa2", "s": "#0b6b2e", "c": "#5f6368", "m": "#0b57a4", "n": "inherit"}
    dark = {"k": "#d7a6ff", "s": "#8fd6a3", "c": "#a3a9b1", "m": "#8fc3ff", "n": "inherit"}
    yield from (f'.diff [class^="c-{name}"]{{color:{colour}}}' for name, colour in light.items())
    yield "@media screen and (prefers-color-scheme:dark){"
    yield from (f'.diff [class^="c-{name}"]{{color:{colour}}}' for name, colour in dark.items())
    yield "}"
