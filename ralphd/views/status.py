"""How the night stands, in words that `status` prints once and `top` keeps up to date, from ``ralphd.status/1``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ralphd.views import terminal
from ralphd.views.blocks import Block, Paragraph, Table
from ralphd.views.kinds import in_words
from ralphd.views.text import TELLING_S, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEADER = ("loop", "state", "score", "best", "sess", "last outcome", "quiet", "note")
NUMBERS = frozenset({2, 3, 4, 6})
DATE = len("2026-11-30 ")
BLOCKS, PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
_URGENT = {"dead": 1, "paused": 2, "stopped": 4}  # 0: it waits for a person; 3: everything that goes on by itself


def render_status(status: dict[str, Any], *, columns: int = 80, encoding: str | None = "utf-8") -> str:
    """Return the text of a status, ending in a newline. Whatever is missing is a dash, never an error."""
    return terminal.render_page(_page(status, encoding), columns=columns, encoding=encoding)


def _page(status: dict[str, Any], encoding: str | None) -> Iterator[Block]:
    for sentence in sentences(status, encoding):
        yield Paragraph(text=sentence)
    if rows := in_order(status):
        yield Table(header=HEADER, rows=tuple(map(cells, rows)), numbers=NUMBERS, last_wraps=True)


def sentences(status: dict[str, Any], encoding: str | None = "utf-8") -> Iterator[str]:
    """Yield what is to be said of the whole night; foreign words in it are as they came."""
    night, fleet, daemon = (_part(status, name) for name in ("night", "fleet", "daemon"))
    since, ends = _time(night.get("started_at")), _time(night.get("ends_at"))
    until = f"until {ends.removeprefix(since[:DATE])}" if night.get("ends_at") else "until stopped"
    name, state = (_text(night.get(key)) for key in ("id", "state"))
    if night or not daemon.get("next_night_at"):
        yield f"Night {name} {state}, since {since}, {until}."
    if next_night_at := daemon.get("next_night_at"):
        yield f"The next night begins {_time(next_night_at)}."
    states = ", ".join(f"{_text(fleet.get(name))} {name}" for name in ("running", "paused", "waiting", "verifying"))
    yield f"{states}; {_submissions(fleet)}."
    if _is_long_enough(fleet):
        yield _throughput(fleet)
        yield from _so_far(fleet.get("gains"), encoding)
    if budget := fleet.get("budget"):
        yield _text(budget)
    yield from (f"Needs you: {trouble}" for trouble in daemon.get("trouble") or ())
    if state == "running" and _is_quiet(status):
        yield "Nothing needs you."


def _is_quiet(status: dict[str, Any]) -> bool:
    """Tell whether a person may sleep on: no trouble, and no loop that stands still until somebody does something."""
    loops = [loop for loop in status.get("loops") or () if isinstance(loop, dict)]
    asks = _part(status, "daemon").get("trouble") or _part(status, "fleet").get("budget_spent")
    return bool(loops) and not asks and not any(loop.get("needs_person") for loop in loops)


def _is_long_enough(fleet: dict[str, Any]) -> bool:
    hours = fleet.get("hours")
    return isinstance(hours, (int, float)) and hours * 3600 >= TELLING_S


def _submissions(fleet: dict[str, Any]) -> str:
    per_h, hours = fleet.get("submissions_per_h"), fleet.get("hours")
    if isinstance(hours, (int, float)) and isinstance(per_h, (int, float)) and not _is_long_enough(fleet):
        return f"{(so_far := round(per_h * hours))} submission{'' if so_far == 1 else 's'} so far"
    return f"{_rate(per_h)} submissions an hour"


def _rate(figure: object) -> str:
    """Return a rate of a few submissions as no more than these can tell: three digits."""
    if not isinstance(figure, (int, float)):
        return _text(figure)
    return f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"


def in_order(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the loops, first those that a person should look at, else by their names, 2 before 10."""
    loops = [loop for loop in status.get("loops") or () if isinstance(loop, dict)]
    return sorted(loops, key=lambda loop: (_urgency(loop), _natural(_text(loop.get("id")))))


def _urgency(loop: dict[str, Any]) -> int:
    return 0 if loop.get("needs_person") is True else _URGENT.get(str(loop.get("state")), 3)


def _natural(name: str) -> tuple[tuple[str, int], ...]:
    return tuple((word, int(digits or 0)) for word, digits in re.findall(r"([^0-9]*)([0-9]{0,18})", name))


def cells(loop: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a loop's row, below ``HEADER``."""
    return (
        _text(loop.get("id")),
        _text(loop.get("state")),
        _text(loop.get("score")),
        _text(loop.get("best_score")),
        _text(loop.get("trajectory")),
        _text(loop.get("last_outcome")),
        span(loop.get("quiet_for_s")),
        note(loop),
    )


def note(loop: dict[str, Any]) -> str:
    """Return what is to be said of a loop, in words where it names a kind of outcome."""
    words = in_words(_text(loop.get("note"), ""))
    return f"needs you: {words}" if loop.get("needs_person") is True else words


def spark(values: Sequence[float], encoding: str | None = "utf-8") -> str:
    """Draw figures from 0 up as one letter each, the largest at full height; what is not 0 can be seen."""
    letters = BLOCKS if "utf" in (encoding or "").lower() else PLAIN_BLOCKS
    most = max(values, default=0.0)
    steps = (max(1, round(value / most * (len(letters) - 1))) if most > 0 and value > 0 else 0 for value in values)
    return "".join(letters[step] for step in steps)


def _so_far(gains: object, encoding: str | None) -> Iterator[str]:
    """Draw how the verified gain grew from the night's start until now."""
    told = [gain for gain in gains if isinstance(gain, (int, float))] if isinstance(gains, list) else []
    total = [sum(told[: place + 1]) for place in range(len(told))]
    if total and total[-1] > 0:
        yield f"Verified gain so far: [{spark(total, encoding)}] {_text(_short(total[-1]))}."


def _throughput(fleet: dict[str, Any]) -> str:
    """Tell the objective, and how sure it is: the truth lies between the two figures 19 times of 20."""
    gain, recent, healthy = (
        fleet.get(name) for name in ("throughput_per_h", "recent_throughput_per_h", "healthy_with_submission_per_h")
    )
    if gain is None:
        return "Verified gain: not known; the verifier can't tell the start, or contradicts itself."
    low, high = _text(_short(fleet.get("throughput_low_per_h"))), fleet.get("throughput_high_per_h")
    between = f"between {low} and {_text(_short(high))}" if high is not None else "no step yet to judge by"
    return (
        f"Verified gain {_text(_short(gain))} an hour ({between}), {_text(_short(recent))} in the last; "
        f"{_text(_short(healthy))} healthy sessions with a submission an hour."
    )


def _short(figure: object) -> object:
    return float(f"{figure:.3g}") if isinstance(figure, (int, float)) else figure


def figure(value: object) -> str:
    """Return a figure of a loop as its row has it."""
    return _text(value)


def _part(status: dict[str, Any], name: str) -> dict[str, Any]:
    part = status.get(name)
    return part if isinstance(part, dict) else {}


def _text(value: object, unknown: str = "-") -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(float(value))
    return unknown if value is None else str(value)


def _time(iso: object) -> str:
    """Return a time to the minute, in UTC as it is told."""
    return f"{iso[:10]} {iso[11:16]} UTC" if isinstance(iso, str) and len(iso) > 15 else _text(iso)


def span(seconds: object) -> str:
    """Return how long, in one unit: 4s, 3m, 2h."""
    if not isinstance(seconds, (int, float)):
        return "-"
    for size, letter in ((3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{int(seconds)}s"
