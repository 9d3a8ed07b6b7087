"""Colours that a program wrote for a terminal, as classes of a page: a few are known, all else is dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from unicodedata import category

from ralphd.views.svg import safe
from ralphd.views.text import lines

_COLOUR = re.compile(r"\x1b\[([0-9;:]{0,64})m")  # "select graphic rendition", and no other sequence
HUES = ("", "red", "green", "yellow", "blue", "magenta", "cyan", "")  # black and white are whatever the page writes in
# What one figure sets, and what it ends. Backgrounds, blinking and hidden text are left out: it is to be read.
SETS = {"1": "bold", "2": "faint", "3": "italic", "4": "underline"}
ENDS = {"22": {"bold", "faint"}, "23": {"italic"}, "24": {"underline"}, "39": set(HUES)}
LONGER = {"5": 1, "2": 3}  # figures behind "38;5" and "38;2": one of 256 colours, or red, green and blue


def coloured(text: str) -> list[str]:
    """Return the lines of ``text``, each as harmless as ``text.lines`` makes it but for its colours."""
    return "".join(_parts(text)).split("\n")


def _parts(text: str) -> Iterator[str]:
    for number, part in enumerate(_COLOUR.split(text)):
        if number % 2:
            yield f"\x1b[{part}m"
        else:
            yield "\n".join(lines(_without_marks(part) if number else part))


def _without_marks(part: str) -> str:
    """Drop marks that would be put on the letter before a colour: there they escape being counted."""
    return next((part[at:] for at, char in enumerate(part) if category(char) not in {"Mn", "Me"}), "")


def render(text: str) -> str:
    """Return markup for ``coloured`` text: every letter escaped, colours as classes, everything closed."""
    made, worn = [], frozenset[str]()
    for number, part in enumerate(_COLOUR.split(text)):
        if number % 2:
            worn = _after(worn, () if ":" in part else part.split(";"))  # a colon begins a form that nobody needs
        elif part:
            made.append(_wrapped("\n".join(map(safe_line, part.split("\n"))), worn))
    return "".join(made)


def safe_line(line: str) -> str:
    """Return a piece of a line as text of HTML, its spaces kept: a cut in it is not its end."""
    before, after = line[: len(line) - len(line.lstrip(" "))], line[len(line.rstrip(" ")) :]
    return f"{before}{safe(line)}{after}" if line.strip(" ") else line


def _wrapped(markup: str, worn: frozenset[str]) -> str:
    names = " ".join(f"t-{name}" for name in sorted(worn))
    return f'<span class="{names}">{markup}</span>' if names else markup


def _after(worn: frozenset[str], figures: Iterable[str]) -> frozenset[str]:
    """Return what is worn after a sequence; what isn't known changes nothing."""
    left = iter(figures)
    for figure in left:
        plain = figure.lstrip("0")
        if plain in {"38", "48", "58"}:
            for _ in range(LONGER.get(next(left, ""), 0)):
                next(left, "")
        else:
            worn = frozenset() if not plain else _with(worn, plain)
    return worn


def _with(worn: frozenset[str], figure: str) -> frozenset[str]:
    if figure in SETS:
        return worn | {SETS[figure]}
    if len(figure) == 2 and figure[0] in "39" and figure[1] in "01234567":
        hue = HUES[int(figure[1])]
        return (worn - set(HUES)) | ({hue} if hue else set())
    return worn - ENDS.get(figure, set())


def style() -> str:
    """Return what the classes look like, in light and in dark; each hue has contrast enough on a panel."""
    light = {"red": "#b42318", "green": "#166b2f", "yellow": "#7a5200", "blue": "#0b57a4", "magenta": "#8a2a8a"}
    dark = {"red": "#ff8a80", "green": "#56d364", "yellow": "#e3b341", "blue": "#79c0ff", "magenta": "#e0a0ff"}
    forms = ".t-bold{font-weight:700}.t-faint{color:var(--soft)}.t-italic{font-style:italic}"
    forms += ".t-underline{text-decoration:underline}"
    return (
        forms
        + _hues({**light, "cyan": "#0f6674"})
        + f"@media screen and (prefers-color-scheme:dark){{{_hues({**dark, 'cyan': '#76e3ea'})}}}"
    )


def _hues(colours: dict[str, str]) -> str:
    return "".join(f".t-{name}{{color:{colour}}}" for name, colour in colours.items())
