"""When the few coarse jobs of a night (its start and end, reports, backups, pruning) are due."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from ralphd.core.errors import UsageError
from ralphd.core.times import instant
from ralphd.core.waiting import Calendar

_WEEKDAYS = (
    "sun",
    "mon",
    "tue",
    "wed",
    "thu",
    "fri",
    "sat",
    "sun",
)  # cron's numbers 0 to 7; APScheduler's start on mon
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)
_LARGEST_SHIFT = timedelta(hours=3)  # a wall time up to this far back may still lie ahead; clocks shift by 2 h at most


class Schedule:
    """Posts a job's name when it is due, and does nothing else. Everything is late rather than lost or doubled.

    A job that fell due while the machine slept is posted once, on waking. A name set again replaces what it was.
    """

    def __init__(self, post: Callable[[str], None]) -> None:
        self._post = post
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": {"type": "threadpool", "max_workers": 1}},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._scheduler.start()

    def at(self, name: str, when: datetime) -> None:
        """Once, at an aware moment; one that has passed is due at once."""
        self._set(name, DateTrigger(run_date=when.astimezone(UTC)))

    def every(self, name: str, seconds: float) -> None:
        """Again and again, first after ``seconds``."""
        self._set(name, IntervalTrigger(seconds=seconds, timezone=UTC))

    def cron(self, name: str, expression: str, zone: tzinfo) -> None:
        """At the wall-clock times of a five-field cron expression. UsageError when it isn't one."""
        self._set(name, WallClock(expression, zone))

    def cancel(self, name: str) -> bool:
        """Forget a job; False when there was none."""
        try:
            self._scheduler.remove_job(name)
        except JobLookupError:
            return False
        return True

    def next_run(self, name: str) -> datetime | None:
        """When the job is due next, in UTC; None: never."""
        job = self._scheduler.get_job(name)
        when: datetime | None = job.next_run_time if job else None
        return when.astimezone(UTC) if when else None

    def close(self) -> None:
        """Stop; when this returns no thread is left and nothing is posted any more."""
        self._scheduler.shutdown(wait=True)

    def _set(self, name: str, trigger: BaseTrigger) -> None:
        self._scheduler.add_job(self._post, trigger, args=(name,), id=name, name=name, replace_existing=True)


class WallClock(BaseTrigger):  # type: ignore[misc]  # APScheduler ships no types
    """Cron times by the clock on the wall: once for each, also where daylight saving skips or repeats it.

    APScheduler's own trigger fires twice in a repeated hour and, at a gap over midnight, not at all.
    """

    def __init__(self, expression: str, zone: tzinfo) -> None:
        self._walls = _cron(expression)
        self._zone = zone
        if self._walls.get_next_fire_time(None, _ANY_DAY) is None:
            raise UsageError(f"{expression!r} never comes; write for example '0 22 * * *'")

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        after = max(now - timedelta(microseconds=1), previous_fire_time) if previous_fire_time else now
        wall = after.astimezone(self._zone).replace(tzinfo=UTC, fold=0) - _LARGEST_SHIFT
        while (found := self._walls.get_next_fire_time(None, wall)) is not None:
            due = instant(found.replace(tzinfo=None), self._zone)
            if due > after if previous_fire_time else due >= after:
                return due
            wall = found + timedelta(seconds=1)
        return None


def calendar(expression: str, zone: tzinfo) -> Calendar:
    """Tell when nights are due by a cron expression. UsageError when it isn't one."""
    trigger = WallClock(expression, zone)
    return Calendar(next_after=lambda moment: trigger.get_next_fire_time(moment, moment), zone=zone)


def _cron(expression: str) -> CronTrigger:
    fields = expression.split()
    if len(fields) != 5:
        raise UsageError(f"{expression!r} has {len(fields)} fields, not cron's five; write for example '0 22 * * *'")
    minute, hour, day, month, weekday = fields
    if day != "*" and weekday != "*":
        raise UsageError(f"{expression!r} names days of the month and weekdays; name only one of the two")
    try:
        return CronTrigger(minute=minute, hour=hour, day=day, month=month, day_of_week=_weekdays(weekday), timezone=UTC)
    except (ValueError, IndexError) as error:
        raise UsageError(f"{expression!r} is not a cron expression: {error}; write for example '0 22 * * *'") from None


def _weekdays(field: str) -> str:
    """Write cron's weekday field by names: 5-7 is fri,sat,sun; what isn't numeric stays."""
    return ",".join(_named(part) for part in field.lower().split(","))


def _named(part: str) -> str:
    part = re.sub(r"^\*/", "0-6/", part)
    match = re.fullmatch(r"(\d|[a-z]{3})(?:-(\d|[a-z]{3}))?(?:/(\d))?", part)
    if not match:
        return part
    first, last, step = _number(match[1]), _number(match[2] or match[1]), int(match[3] or 1)
    if match[3] and not match[2]:
        last = 6
    if last < first:
        last += 7  # fri-mon
    days = range(first, last + 1, step)
    return ",".join(_WEEKDAYS[day % 7] for day in days)


def _number(day: str) -> int:
    if day.isdigit():
        if int(day) > 7:
            raise ValueError(f"there is no weekday {day}")
        return int(day)
    return _WEEKDAYS.index(day)
