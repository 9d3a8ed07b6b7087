"""What a measured figure is, what its goal says of it, and how a person reads it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure. ``ours`` and ``bare`` are medians in ``unit``; ``judged`` holds a value for each round, and ``goal``
    is about these: ``judged_as`` says what they are (a difference, a ratio, the figure itself). No goal: for insight.
    ``busy``: others had the machine's cores meanwhile, so a goal that was missed proves nothing unless it is of memory.
    """

    what: str
    unit: str
    ours: float
    bare: float | None = None
    judged: tuple[float, ...] = ()
    judged_as: str = ""
    goal: float | None = None
    at_least: bool = False
    busy: bool = False

    @property
    def verdict(self) -> str:
        """Say `reached` or `missed` where three quarters of the rounds agree with the median, else `noisy`."""
        if self.goal is None or not self.judged:
            return ""
        low, high = middle_half(self.judged)
        kept = [value >= self.goal if self.at_least else value <= self.goal for value in (low, high)]
        if all(kept):
            return "reached"
        return "noisy" if any(kept) or (self.busy and self.unit != "MiB") else "missed"

    def to_json(self) -> dict[str, object]:
        return {
            "what": self.what,
            "unit": self.unit,
            "ours": self.ours,
            "bare": self.bare,
            "judged_as": self.judged_as,
            "judged": list(self.judged),
            "goal": self.goal,
            "at_least": self.at_least,
            "busy": self.busy,
            "verdict": self.verdict,
        }

    def cells(self) -> tuple[str, ...]:
        judged = ""
        if self.judged:
            low, high = min(self.judged), max(self.judged)
            spread = f" ({figure(low)} to {figure(high)})" if len(self.judged) > 1 else ""
            judged = f"{self.judged_as} {figure(median(self.judged))}{spread}".strip()
        goal = "" if self.goal is None else f"{'>=' if self.at_least else '<='} {figure(self.goal)}"
        bare = "" if self.bare is None else figure(self.bare)
        return (self.what, self.unit, figure(self.ours), bare, judged, goal, self.verdict)


HEAD = ("", "unit", "ralphd", "baseline", "judged: median (min to max)", "goal", "verdict")


def middle_half(values: tuple[float, ...]) -> tuple[float, float]:
    """Return the quartiles, or the extremes of less than four values."""
    if len(values) < 4:
        return min(values), max(values)
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def quantile(values: list[float], share: float) -> float:
    """Return the value that ``share`` of all lie below or at."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figure(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def render(name: str, rows: list[Row], head: tuple[str, ...] = HEAD) -> str:
    lines = [(name, *head[1:]), *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(line.rstrip() for line in text.split("\n")) + "\n"
