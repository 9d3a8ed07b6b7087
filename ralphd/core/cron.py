"""Whether a cron expression names one time a day: what may stand in ``night.schedule``."""

from __future__ import annotations

import re

from ralphd.core.errors import UsageError

_PART = re.compile(r"(?:\*|([a-z0-9]+)(?:-([a-z0-9]+))?)(?:/(\d{1,2}))?", re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTHS = dict(enumerate((31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), 1))
EXAMPLE = "write for example '0 22 * * *' for 22:00 every evening"


def parse_schedule(text: str) -> str:
    """Return the expression with single spaces. UsageError unless it has five fields and comes once a day at most."""
    fields = text.lower().split()
    if len(fields) != 5:
        raise UsageError(f"{text!r} has {len(fields)} fields, not cron's five; {EXAMPLE}")
    minute, hour, day, month, weekday = fields
    for name, field, most in (("minute", minute, 59), ("hour", hour, 23)):
        if not (re.fullmatch(r"\d{1,2}", field, re.ASCII) and int(field) <= most):
            raise UsageError(
                f"the {name} must be one number up to {most}, for one night a day, not {field!r}; {EXAMPLE}"
            )
    days, months = _values(day, 1, 31, ()), _values(month, 1, 12, _MONTHS)
    _values(weekday, 0, 7, _WEEKDAYS)
    if day != "*" and weekday != "*":
        raise UsageError(f"{text!r} names days of the month and weekdays; name only one of the two")
    if min(days) > max(_LONGEST_MONTHS[one] for one in months):
        raise UsageError(f"{text!r} never comes: no such month has a day {min(days)}")
    return " ".join(fields)


def _values(field: str, least: int, most: int, names: tuple[str, ...]) -> set[int]:
    """Return what a field allows, with weekdays that wrap around (fri-mon) taken as every value."""
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None or match[3] == "0":
            raise UsageError(f"{field!r} is not a field of cron; {EXAMPLE}")
        first = _number(match[1], names, least, most) if match[1] else least
        last = _number(match[2], names, least, most) if match[2] else most if match[3] or not match[1] else first
        if last < first and names is not _WEEKDAYS:
            raise UsageError(f"{part!r} runs backwards; {EXAMPLE}")
        found |= set(range(first, last + 1, int(match[3] or 1))) or set(range(least, most + 1))
    return found


def _number(text: str, names: tuple[str, ...], least: int, most: int) -> int:
    if text in names:
        return names.index(text) + least
    if not text.isdigit() or not least <= int(text) <= most:
        raise UsageError(f"{text!r} is not between {least} and {most}; {EXAMPLE}")
    return int(text)
