"""When a limit is over, read from the words of a server or a CLI: spans, clock times, dates, epoch seconds.

What stands behind words like "resets" or "try again" counts, and not behind a mere warning ("You've used 90 %"). A
time of day without a zone is the local one. Costs a runner datetime and zoneinfo: import it only for a limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from math import isfinite

from ralphd.core import times
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.pacing import MOST_AHEAD_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

    Zones = Callable[[str], tzinfo | None]

LIMITS = frozenset({Kind.QUOTA, Kind.RATE_LIMITED, Kind.OVERLOADED})
LOOK_AT_CHARS = 2000
BEHIND_CHARS = 80  # "Wednesday, September 30th, 2026 at 12:00:00 p.m. (America/Argentina/Buenos_Aires)"
JUST_PAST_S = 600.0  # a sentence may be some minutes old: "7:20pm" at 19:25 is now, not tomorrow
WORDS_CHARS = 120
MILLISECONDS_FROM = 1e11  # as seconds that is the year 5138

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_WEEKDAYS = "mon tue wed thu fri sat sun".split()
_UNIT_S = {"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_OFFSETS_H = {
    "utc": 0.0, "gmt": 0.0, "z": 0.0, "wet": 0.0, "bst": 1.0, "cet": 1.0, "cest": 2.0, "eet": 2.0, "eest": 3.0,
    "ist": 5.5, "jst": 9.0, "aest": 10.0, "aedt": 11.0, "est": -5.0, "edt": -4.0, "cst": -6.0, "cdt": -5.0, "mst": -7.0,
    "mdt": -6.0, "pst": -8.0, "pdt": -7.0,
}  # fmt: skip
_REGIONS = {"et": "America/New_York", "ct": "America/Chicago", "mt": "America/Denver", "pt": "America/Los_Angeles"}

_BEFORE = re.compile(
    r"(?P<seconds>\bretry[\s_-]?(?:after|delay)(?:_s|_seconds)?|\bresets?_(?:in|after)_seconds)\b[\"'\s:=]{0,6}(?:in\b|at\b)?\s*"
    r"|\|(?=\d{10}\b)"
    r"|\b(?:reset(?:s|ting|_at|s_at|_time)?|(?:re)?try(?:ing)?(?: again)?|available(?: again)?|refresh(?:es)?|renews?"
    r"|come back|wait|until)\b"
    r"[\"'\s:=]{0,6}(?:(?:at|on|in|after|by|until|for|from)\b[\s:]{0,3})?",
    re.IGNORECASE,
)
_WARNING = re.compile(r"\d\s?%|\bapproaching\b|\balmost\b|\bclose to\b", re.IGNORECASE)
_PART = re.compile(
    r"(\d{1,9}(?:\.\d{1,9})?)\s?"
    r"(w(?=eeks?\b|\b|\d)|d(?=ays?\b|\b|\d)|h(?=(?:ou)?rs?\b|\b|\d)|ms\b|m(?=in(?:ute)?s?\b|\b|\d)|s(?=ec(?:ond)?s?\b|\b|\d))"
    r"[a-z]{0,11}[\s,]{0,2}(?:and\s)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(?![\w:/-])")
_EPOCH = re.compile(r"(\d{10}|\d{13})(?:\.\d{1,9})?(?![\w:/-])")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?(?P<offset>\s?Z\b|[+-]\d\d:?\d\d)?", re.IGNORECASE
)
_ZONE = (
    r"(?:\s{0,2}\(?\s?(?P<zone>[A-Za-z]{2,20}(?:/[A-Za-z0-9_+-]{1,30}){1,2}|(?:UTC|GMT)\s?[+-]\d{1,2}(?::?\d\d)?"
    rf"|(?:{'|'.join([*_OFFSETS_H, *_REGIONS])})\b|(?<=\()[^()]{{1,30}}(?=\)))\)?)?"
)
_AFTER_ISO = re.compile(_ZONE, re.IGNORECASE)
_CALENDAR = re.compile(
    rf"(?:(?P<weekday>{'|'.join(_WEEKDAYS)})[a-z]{{0,6}}\b\.?|(?P<near>today|tonight|tomorrow)\b)?[,\s]{{0,2}}(?:at\s)?"
    rf"(?:(?:(?P<month>{'|'.join(_MONTHS)})[a-z]{{0,6}}\b\.?\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?"
    rf"|(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?[\s-](?P<month2>{'|'.join(_MONTHS)})[a-z]{{0,6}}\b)"
    r"(?:,?[\s-](?P<year>20\d\d)(?!:))?)?[,\s]{0,2}(?:at\s|@\s?)?"
    r"(?:(?P<named>midnight|noon)\b|(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::\d\d)?)?(?![\d:/])\s?(?P<half>[ap]\.?m\b\.?)?)?"
    + _ZONE,
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Reset:
    """``at``: epoch seconds. ``words``: what said so."""

    at: float
    words: str


def dated(outcome: Outcome, now: float, zones: Zones) -> Outcome:
    """Return the outcome of a limit with ``resets_at`` in its detail, where its message names a time.

    A time that nobody can mean (long past, years away) is left out, and ``reset_disbelieved`` says so. ``zones`` finds
    a zone by its name, the local one by an empty name, and returns None for what is none.
    """
    if outcome.kind not in LIMITS:
        return outcome
    detail = dict(outcome.detail)
    told = _figure(detail.get("resets_at"))
    if told is None and _figure(detail.get("retry_after_s")) is None:
        told = retry_after(str(detail.get("retry_after", "")), now)
        found = read(str(detail.get("message", "")), now, zones) if told is None else None
        if found is not None:
            told, detail["reset_words"] = found.at, found.words
    if told is None:
        return outcome
    detail["resets_at"] = told
    doubt = disbelief(told - now)
    if doubt:
        del detail["resets_at"]
        detail["reset_disbelieved"] = f"{_shown(told)} is {doubt}: asked again as if no time had been named"
    return replace(outcome, detail=detail)


def disbelief(ahead_s: float) -> str:
    """Say why a time so far ahead can't be meant, empty when it can."""
    if ahead_s > MOST_AHEAD_S:
        return f"{ahead_s / 86_400:.0f} days away"
    return "" if ahead_s >= -JUST_PAST_S else f"{-ahead_s / 60:.0f} minutes past"


def read(text: str, now: float, zones: Zones) -> Reset | None:
    """Return the first time that the text names as the end of a limit, None when it names none."""
    text, at = text[:LOOK_AT_CHARS], 0
    for before in _BEFORE.finditer(text):
        if before.start() < at:
            continue
        behind = text[before.end() : before.end() + BEHIND_CHARS]
        moment = _moment(behind, now, zones, bare=bool(before["seconds"]))
        if moment is None:
            continue
        warning = _WARNING.search(text, at, before.start())
        at = before.end()
        if warning is None:
            return Reset(at=moment, words=text[before.start() :][:WORDS_CHARS].split("\n")[0].strip(" |"))
    return None


def retry_after(value: str, now: float) -> float | None:
    """Return the epoch seconds that a Retry-After header means: seconds from now, or an HTTP date."""
    if _NUMBER.fullmatch(value.strip()):
        return now + float(value)
    return _calendar(value.strip(), now, lambda name: UTC if not name else None)


def _moment(text: str, now: float, zones: Zones, *, bare: bool) -> float | None:
    if (epoch := _EPOCH.match(text)) and not bare:
        told = float(epoch[0])
        return told / 1000 if told > MILLISECONDS_FROM else told
    if (span := _span_s(text)) is not None:
        return now + span
    if bare and (number := _NUMBER.match(text)):
        return now + float(number[1])
    if iso := _ISO.match(text):
        return _iso(iso, text, zones)
    return _calendar(text, now, zones)


def _span_s(text: str) -> float | None:
    """Add up "2h 13m", "1 hour and 5 minutes", "6m0.5s"."""
    total, at = 0.0, 0
    while part := _PART.match(text, at):
        total += float(part[1]) * _UNIT_S[part[2].lower()]
        at = part.end()
    return total if at else None


def _iso(told: re.Match[str], text: str, zones: Zones) -> float | None:
    try:
        wall = datetime.fromisoformat(f"{told[1]}T{told[2]}")
    except ValueError:
        return None
    if offset := (told["offset"] or "").strip():
        zone = _fixed(offset)
    else:
        named = _AFTER_ISO.match(text, told.end())
        zone = _zone((named["zone"] if named else None) or "", zones)
    return None if zone is None else times.instant(wall, zone).timestamp()


def _calendar(text: str, now: float, zones: Zones) -> float | None:
    told = _CALENDAR.match(text)
    if told is None or not (told["weekday"] or told["near"] or _month(told) or told["named"] or told["hour"]):
        return None
    dateless = not (told["weekday"] or told["near"] or _month(told))
    if dateless and told["hour"] and not (told["minute"] or told["half"]):
        return None  # a bare number is no time of day
    zone, clock = _zone(told["zone"] or "", zones), _clock(told)
    if zone is None or clock is None:
        return None
    try:
        moments = [
            times.instant(wall, zone, fold=fold).timestamp()
            for wall in _walls(told, clock, now, zone)
            for fold in (0, 1)
        ]
    except (ValueError, OverflowError):
        return None
    if _month(told):
        return min(moments, key=lambda at: abs(at - now), default=None)
    return next((at for at in sorted(moments) if at >= now - JUST_PAST_S), None)


def _walls(told: re.Match[str], clock: tuple[int, int], now: float, zone: tzinfo) -> Iterator[datetime]:
    """Return every date that may be meant, at that time of day."""
    today = datetime.fromtimestamp(now, zone).replace(
        tzinfo=None, hour=clock[0], minute=clock[1], second=0, microsecond=0
    )
    if month := _month(told):
        day = int(told["day"] or told["day2"])
        for year in [int(told["year"])] if told["year"] else range(today.year - 1, today.year + 2):
            try:
                yield today.replace(year=year, month=month, day=day)
            except ValueError:
                continue  # the 29th of February
        return
    near = (told["near"] or "").lower()
    for days in [near == "tomorrow"] if near else range(-1, 9):
        date = today + timedelta(days=days)
        if not told["weekday"] or date.weekday() == _WEEKDAYS.index(told["weekday"][:3].lower()):
            yield date


def _month(told: re.Match[str]) -> int:
    name = told["month"] or told["month2"]
    return _MONTHS.index(name[:3].lower()) + 1 if name else 0


def _clock(told: re.Match[str]) -> tuple[int, int] | None:
    if told["named"]:
        return (12, 0) if told["named"].lower() == "noon" else (0, 0)
    hour, minute, half = int(told["hour"] or 0), int(told["minute"] or 0), (told["half"] or "").lower()
    if half and not 1 <= hour <= 12:
        return None
    if half:
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    return (hour, minute) if hour < 24 and minute < 60 else None


def _zone(name: str, zones: Zones) -> tzinfo | None:
    """Find the zone that is named; None when there is no such one, for a guess may be half a day wrong."""
    words = name.strip().lower()
    if words in ("", "local", "local time", "your time", "your local time"):
        return zones("")
    if words in _OFFSETS_H:
        return timezone(timedelta(hours=_OFFSETS_H[words]))
    return _fixed(words) or zones(_REGIONS.get(words, name.strip()))


def _fixed(offset: str) -> tzinfo | None:
    told = re.fullmatch(r"(?:utc|gmt)?\s?(?:z|([+-])(\d{1,2}):?(\d\d)?)", offset, re.IGNORECASE)
    if told is None:
        return None
    minutes = int(told[2] or 0) * 60 + int(told[3] or 0)
    return timezone(timedelta(minutes=-minutes if told[1] == "-" else minutes)) if minutes < 24 * 60 else None


def _figure(value: object) -> float | None:
    told = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    return float(value) if told else None  # type: ignore[arg-type]  # looked at just above


def _shown(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{at:g}"
