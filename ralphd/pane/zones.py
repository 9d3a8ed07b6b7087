"""In which zone an agent tells the time, and so when the limit is over that it tells of."""

from __future__ import annotations

from ralphd.core.outcomes import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from ralphd.core.outcomes import Outcome

LIMITS = (Kind.QUOTA, Kind.RATE_LIMITED, Kind.OVERLOADED)
LOCAL = "/etc/localtime"


def dated(outcome: Outcome, environ: dict[str, str], now: float) -> Outcome:
    """Return the outcome with the time that its message names for the end of a limit."""
    if outcome.kind not in LIMITS:
        return outcome
    from ralphd.core import resets  # noqa: PLC0415  # 0.3 MiB a loop, which few sessions need

    return resets.dated(outcome, now, zones_of(environ))


def zones_of(environ: dict[str, str]) -> Callable[[str], tzinfo | None]:
    """Return what finds a zone by its name, by an empty name that of an agent with that environment; None: no zone."""

    def find(name: str) -> tzinfo | None:
        return _named(name) if name else _local(environ.get("TZ", "").removeprefix(":"))

    return find


def _named(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # as above

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # no such zone, no name of one, a folder of zones
        return None


def _local(name: str) -> tzinfo:
    from datetime import UTC  # noqa: PLC0415  # as above
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # as above

    if name and not name.startswith("/") and (zone := _named(name)) is not None:
        return zone
    try:
        with open(name if name.startswith("/") else LOCAL, "rb") as file:
            return ZoneInfo.from_file(file)
    except (ValueError, OSError):
        return UTC
