"""Whether a scheduled night is due, comes late, or was missed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from ralphd.core import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date, datetime, tzinfo

    from ralphd.core.config import NightConfig

ON_TIME_S = 60.0  # the daemon looks every second; what is later than this had nobody to begin it
LOOK_BACK = timedelta(days=40)  # a clock that comes back from 2038 must not have a daemon count every evening since
KEPT = 60  # dates and times remembered: more than LOOK_BACK has days


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """When nights are due: ``next_after(moment)`` in UTC, None: never again. Dates are those of ``zone``."""

    next_after: Callable[[datetime], datetime | None]
    zone: tzinfo

    def date(self, moment: datetime) -> date:
        return moment.astimezone(self.zone).date()

    def between(self, since: datetime, now: datetime) -> list[datetime]:
        """Return the due times after ``since`` up to ``now``; when the clock went back, of the last minute."""
        found = []
        since = since if since <= now else now - timedelta(seconds=ON_TIME_S)
        due = self.next_after(max(since, now - LOOK_BACK))
        while due is not None and due <= now:
            found.append(due)
            due = self.next_after(due)
        return found

    def window_end(self, due: datetime, night: NightConfig) -> datetime:
        """Tell until when a night begun at ``due`` would run; one without an end, until the next is due."""
        if night.until:
            return times.parse_until(night.until, due.astimezone(self.zone))
        if night.for_s is not None:
            return due + timedelta(seconds=night.for_s)
        return self.next_after(due) or due


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """What a waiting daemon remembers, also over its own end. All moments are in UTC.

    ``looked_at``: up to when due times are accounted for. ``had``: the local dates whose scheduled night has begun.
    ``missed``: due times nobody was there for, until a night begins that can tell of them.
    """

    looked_at: datetime
    had: tuple[date, ...] = ()
    missed: tuple[datetime, ...] = ()

    def begun(self, due: datetime, now: datetime, calendar: Calendar) -> Waiting:
        """Account for a night that has begun for ``due``, and has told of what was missed."""
        return replace(self, looked_at=now, had=(*self.had, calendar.date(due))[-KEPT:], missed=())

    def ran(self, now: datetime, calendar: Calendar) -> Waiting:
        """Account for a night that ran until ``now``: due times meanwhile had theirs."""
        dates = (calendar.date(due) for due in calendar.between(self.looked_at, now))
        return replace(self, looked_at=now, had=(*self.had, *dates)[-KEPT:], missed=())


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is to be done. ``due``: begin a night for it now. ``after``: what to remember while none has begun."""

    after: Waiting
    due: datetime | None = None


def look(
    waiting: Waiting, now: datetime, night: NightConfig, calendar: Calendar, nights: Callable[[], frozenset[date]]
) -> Look:
    """Decide. ``nights`` tells the dates on which any night began; it is asked only when that matters.

    A clock that went back makes nothing due twice: a date is had only once. A night is begun late only if its date
    has had none at all, and only while it would still run if it had begun in time.
    """
    dues = [due for due in calendar.between(waiting.looked_at, now) if calendar.date(due) not in waiting.had]
    if not dues:
        return Look(after=replace(waiting, looked_at=now))
    newest = dues[-1]
    if (now - newest).total_seconds() <= ON_TIME_S:
        return Look(after=_missing(waiting, dues[:-1]), due=newest)
    after = _missing(waiting, dues)
    if calendar.date(newest) not in nights() and now < calendar.window_end(newest, night):
        return Look(after=after, due=newest)
    return Look(after=replace(after, looked_at=now))


def _missing(waiting: Waiting, dues: list[datetime]) -> Waiting:
    return replace(waiting, missed=tuple(dict.fromkeys((*waiting.missed, *dues)))[-KEPT:])


def missed_words(missed: tuple[datetime, ...], calendar: Calendar) -> str:
    """Say what was missed, in one line."""
    shown = ", ".join(f"{due.astimezone(calendar.zone):%Y-%m-%d %H:%M}" for due in missed[-3:])
    more = f" and {len(missed) - 3} before" if len(missed) > 3 else ""
    return f"no daemon was awake when a night was due: {shown}{more}"
