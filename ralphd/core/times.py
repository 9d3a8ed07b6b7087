"""What people mean by "07:00", by "8h" and by a time of day that daylight saving skips or repeats."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from ralphd.core.errors import UsageError

_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", re.ASCII)
_SECONDS_OF_UNIT = (86_400, 3_600, 60, 1)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)


def parse_duration(text: str) -> int:
    """Count the seconds in ``8h``, ``10m``, ``1h30m``, ``45s`` or ``1d``; anything else is a UsageError."""
    match = _DURATION.fullmatch(text.strip().lower())
    groups = match.groups() if match else ()
    seconds = sum(int(n) * unit for n, unit in zip(groups, _SECONDS_OF_UNIT, strict=False) if n)
    if not seconds:
        raise UsageError(f"{text!r} is not a duration; write for example 8h, 10m or 1h30m")
    return seconds


def parse_until(text: str, now: datetime) -> datetime:
    """Give the next moment, in UTC, at which clocks in the zone of ``now`` show ``text`` (``HH:MM``); never ``now``.

    A time that daylight saving skips is taken as that much later; one that it repeats, as the first still to come.
    UsageError for anything but a time of day.
    """
    clock = parse_clock(text)
    zone = now.tzinfo
    if zone is None:
        raise ValueError("parse_until needs an aware datetime")
    today = now.date()
    days = (today + timedelta(days=n) for n in (-1, 0, 1))
    moments = sorted(instant(datetime.combine(day, clock), zone, fold=fold) for day in days for fold in (0, 1))
    return next(moment for moment in moments if moment > now.astimezone(UTC))


def instant(wall: datetime, zone: tzinfo, *, fold: int = 0) -> datetime:
    """Give the moment, in UTC, when clocks in ``zone`` show ``wall`` (naive). A skipped time moves later by the gap."""
    skipped = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if skipped.astimezone(zone).replace(tzinfo=None) != wall:
        return skipped
    return wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)


def parse_clock(text: str) -> time:
    """Read ``HH:MM``; anything else is a UsageError."""
    match = _CLOCK.fullmatch(text.strip())
    hour, minute = (int(part) for part in match.groups()) if match else (24, 0)
    if hour > 23 or minute > 59:
        raise UsageError(f"{text!r} is not a time of day; write for example 07:00")
    return time(hour, minute)
