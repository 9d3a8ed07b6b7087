"""The few shapes that the report's pictures are made of: axes with round figures, steps, bars, strips of spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from ralphd.views.text import clean, number

TICKS = 5


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maps ``low`` to ``start`` and ``high`` to ``end``, in units of the picture."""

    low: float
    high: float
    start: float
    end: float

    def has(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __call__(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """Return some ``count`` round figures between ``low`` and ``high``, in steps of 1, 2 or 5 times ten to a power."""
    if high <= low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** floor(log10(rough))
    step = next(power * unit for unit in (1, 2, 5, 10) if power * unit >= rough)
    first = ceil(low / step - 1e-9)
    return [round(n * step, 12) for n in range(first, int(high / step + 1e-9) + 1)]


HOUR_STEPS = (60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)  # seconds


def time_ticks(began: float, until: float, count: int = 8) -> list[float]:
    """Return moments at whole minutes or hours of UTC, at most ``count``."""
    step = next((step for step in HOUR_STEPS if (until - began) / step <= count), 86400 * 7)
    return [float(at) for at in range(ceil(began / step) * step, int(until) + 1, step)]


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{safe(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def bar(at: tuple[float, float], size: tuple[float, float], kind: str, title: str = "") -> str:
    (x, y), (width, height) = at, size
    shape = f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(0.5, width):.1f}" height="{height:.1f}"'
    return f"{shape}><title>{safe(title)}</title></rect>" if title else f"{shape}/>"


def steps(points: Sequence[tuple[float, float]], until: float, kind: str) -> str:
    """Draw a line that keeps each value until the next one."""
    if not points:
        return ""
    (x, y), *rest = points
    way = [f"M{x:.1f} {y:.1f}", *(f"H{x:.1f}V{y:.1f}" for x, y in rest), f"H{until:.1f}"]
    return f'<path class="{kind}" d="{"".join(way)}"/>'


def spans(pieces: Iterable[tuple[float, float]], y: float, kind: str) -> str:
    """Draw pieces of one line as one path: hundreds of loops have thousands of pieces."""
    way = "".join(f"M{x:g} {y:g}h{width:g}" for x, width in pieces)
    return f'<path class="{kind}" d="{way}"/>' if way else ""


def picture(size: tuple[int, int], label: str, parts: Iterable[str], kind: str = "", *, stretch: bool = False) -> str:
    """Return a picture that scales with the page; ``label`` says in words what it shows; empty: a mere ornament."""
    told = f'role="img" aria-label="{safe(label)}"' if label else 'aria-hidden="true"'
    way = ' preserveAspectRatio="none"' if stretch else ""
    return f'<svg class="{kind}" viewBox="0 0 {size[0]} {size[1]}"{way} {told}>{"".join(parts)}</svg>'


def axis_y(scale: Scale, left: float, right: float) -> Iterable[str]:
    for value in ticks(scale.low, scale.high):
        y = scale(value)
        yield line(left, y, right, y, "grid")
        yield text(left - 6, y + 4, number(value), anchor="end", kind="tick")


def safe(words: str) -> str:
    """Return foreign text as text of HTML or SVG, and of an attribute in double quotes."""
    return escape(clean(words))
