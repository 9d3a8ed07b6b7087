"""Which time zone the clocks of this machine show."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tzlocal import get_localzone

from ralphd.core.errors import UsageError


def local_zone(environ: Mapping[str, str]) -> tzinfo:
    """Tell the zone of this machine's clocks, daylight saving included. UsageError for a TZ that names none."""
    name = environ.get("TZ", "").removeprefix(":")
    try:
        return ZoneInfo(name) if name else get_localzone()
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"TZ={name!r} is not a time zone; write for example TZ=Europe/Berlin, or unset it") from None
