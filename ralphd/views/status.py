"""How the night stands, as text: one line a loop, from the JSON of ``ralphd.status/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralphd.views import terminal
from ralphd.views.blocks import Block, Paragraph, Table
from ralphd.views.text import number

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = ("loop", "state", "score", "best", "traj", "last outcome", "quiet", "note")
TELLING_S = 600.0  # of a shorter night an hourly figure says little
DATE = len("2026-11-30 ")
_NUMBERS = frozenset({2, 3, 4, 6})


def render_status(status: dict[str, Any], *, columns: int = 80, encoding: str | None = "utf-8") -> str:
    """Return the text of a status, ending in a newline. Whatever is missing is a dash, never an error."""
    return terminal.render_page(_page(status), columns=columns, encoding=encoding)


def _page(status: dict[str, Any]) -> Iterator[Block]:
    for line in summary(status):
        yield Paragraph(text=line)
    loops = [loop for loop in status.get("loops") or () if isinstance(loop, dict)]
    if loops:
        yield Table(header=HEADER, rows=tuple(map(row, loops)), numbers=_NUMBERS, last_gives_way=True)


def summary(status: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence each: the night, the fleet, its throughput, what waits for a person."""
    night, fleet = _part(status, "night"), _part(status, "fleet")
    since, ends = _time(night.get("started_at")), _time(night.get("ends_at"))
    until = f"until {ends.removeprefix(since[:DATE])}" if night.get("ends_at") else "until stopped"
    name, state = (_text(night.get(key)) for key in ("id", "state"))
    if night or not _part(status, "daemon").get("next_night_at"):
        yield f"Night {name} {state}, since {since}, {until}."
    if next_night_at := _part(status, "daemon").get("next_night_at"):
        yield f"The next night begins {_time(next_night_at)}."
    states = ", ".join(f"{_text(fleet.get(name))} {name}" for name in ("running", "paused", "waiting", "verifying"))
    yield f"{states}; {_text(fleet.get('submissions_per_h'))} submissions an hour."
    if (hours := fleet.get("hours")) is not None and hours * 3600 >= TELLING_S:
        yield _throughput(fleet)
    for trouble in _part(status, "daemon").get("trouble") or ():
        yield f"Needs you: {trouble}"


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


def row(loop: dict[str, Any]) -> tuple[str, ...]:
    """Return a loop's cells, below HEADER."""
    return (
        _text(loop.get("id")),
        _text(loop.get("state")),
        _text(loop.get("score")),
        _text(loop.get("best_score")),
        _text(loop.get("trajectory")),
        _text(loop.get("last_outcome")),
        _span(loop.get("quiet_for_s")),
        _text(loop.get("note"), ""),
    )


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


def _span(seconds: object) -> str:
    """Return how long, in one unit: 4s, 3m, 2h."""
    if not isinstance(seconds, (int, float)):
        return "-"
    for size, letter in ((3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{int(seconds)}s"
