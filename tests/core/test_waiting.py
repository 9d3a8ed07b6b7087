"""A scheduled night: exactly once per local date, whatever clocks, daemons and machines do meanwhile."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ralphd.core.config import NightConfig
from ralphd.core.waiting import Look, Waiting, look, missed_words
from ralphd.edges.schedule import calendar

UTC_DAILY = calendar("0 22 * * *", UTC)
UNTIL = NightConfig(until="07:00", schedule="0 22 * * *")
START = datetime(2026, 6, 1, 12, tzinfo=UTC)


def no_nights() -> frozenset[date]:
    return frozenset()


def evening(days: int = 0, **more: int) -> datetime:
    return datetime(2026, 6, 1, 22, tzinfo=UTC) + timedelta(days=days, **more)


class Nights:
    """A waiting daemon on a clock that the test moves; ``began`` holds the due times of its nights."""

    def __init__(self, at: datetime = START, known=UTC_DAILY, night: NightConfig = UNTIL) -> None:
        self.calendar, self.night = known, night
        self.waiting = Waiting(looked_at=at)
        self.began: list[datetime] = []
        self.told: list[str] = []

    def look(self, now: datetime) -> Look:
        looked = look(self.waiting, now, self.night, self.calendar, no_nights)
        self.waiting = looked.after
        if looked.due is not None:
            self.began.append(looked.due)
            self.told += [missed_words(looked.after.missed, self.calendar)] if looked.after.missed else []
            self.waiting = looked.after.begun(looked.due, now, self.calendar)
        return looked


@pytest.mark.parametrize(
    ("zone", "expression", "start"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-03-27T12:00"),
        ("Europe/Berlin", "30 2 * * *", "2026-10-23T12:00"),
        ("America/New_York", "30 2 * * *", "2026-03-06T12:00"),
        ("America/New_York", "30 1 * * *", "2026-10-30T12:00"),
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-02T12:00"),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-03T12:00"),
        ("Europe/Berlin", "0 22 * * *", "2026-03-27T23:00"),
        ("America/New_York", "0 22 * * *", "2026-10-30T23:00"),
    ],
)
def test_one_night_begins_per_local_date_over_a_switch_of_daylight_saving(zone, expression, start):
    now = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    nights = Nights(now, calendar(expression, ZoneInfo(zone)))
    for _ in range(5 * 24 * 60):
        now += timedelta(minutes=1)
        nights.look(now)
    dates = [due.astimezone(ZoneInfo(zone)).date() for due in nights.began]
    assert dates == [date.fromisoformat(start[:10]) + timedelta(days=day) for day in range(1, 1 + len(dates))]
    assert len(dates) >= 4
    assert nights.told == []


def test_a_night_that_is_due_begins_once_also_when_the_clock_goes_back_ten_minutes():
    nights = Nights()
    for at in (evening(seconds=1), evening(minutes=-9), evening(seconds=2), evening(minutes=20)):
        nights.look(at)
    assert nights.began == [evening()]


def test_a_night_begins_late_while_it_would_still_run_and_tells_what_was_missed_once():
    """The machine slept over 22:00 and woke at 01:30; the night is until 07:00."""
    nights = Nights()
    nights.look(evening(hours=3, minutes=30))
    nights.look(evening(days=1, seconds=3))
    assert nights.began == [evening(), evening(1)]
    assert nights.told == ["no daemon was awake when a night was due: 2026-06-01 22:00"]


def test_a_night_whose_end_has_passed_is_not_begun_and_the_next_one_tells():
    nights = Nights()
    nights.look(evening(hours=10))
    nights.look(evening(hours=11))
    assert nights.began == []
    nights.look(evening(days=1, seconds=3))
    assert nights.began == [evening(1)]
    assert nights.told == ["no daemon was awake when a night was due: 2026-06-01 22:00"]


def test_a_night_is_not_begun_late_on_a_date_that_had_one():
    looked = look(Waiting(looked_at=START), evening(hours=1), UNTIL, UTC_DAILY, lambda: frozenset({date(2026, 6, 1)}))
    assert looked.due is None
    assert looked.after.missed == (evening(),)


@pytest.mark.parametrize(
    ("night", "hours", "begins"),
    [
        (NightConfig(for_s=3600.0), 0.9, True),
        (NightConfig(for_s=3600.0), 1.1, False),
        (NightConfig(), 20, True),
        (UNTIL, 8.9, True),
        (UNTIL, 9.1, False),
    ],
)
def test_late_means_within_what_the_night_would_have_run(night, hours, begins):
    looked = look(Waiting(looked_at=START), evening() + timedelta(hours=hours), night, UTC_DAILY, no_nights)
    assert (looked.due is not None) is begins


def test_a_week_without_a_daemon_is_told_in_one_line():
    nights = Nights()
    nights.look(evening(days=6, seconds=5))
    assert nights.began == [evening(6)]
    assert nights.told == [
        "no daemon was awake when a night was due: 2026-06-04 22:00, 2026-06-05 22:00, 2026-06-06 22:00 and 3 before"
    ]


def test_what_is_due_while_a_night_runs_needs_no_night_of_its_own():
    waiting = Waiting(looked_at=START).ran(evening(hours=2), UTC_DAILY)
    assert waiting.had == (date(2026, 6, 1),)
    assert look(waiting, evening(hours=-1), UNTIL, UTC_DAILY, no_nights).due is None
    assert look(waiting, evening(hours=3), UNTIL, UTC_DAILY, no_nights).due is None


def test_a_visit_to_2038_begins_no_crowd_of_nights_and_stops_none_afterwards():
    nights = Nights()
    nights.look(datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC))
    after_2038 = len(nights.began)
    assert after_2038 <= 1
    for day in range(3):
        nights.look(evening(day, seconds=2))
    assert nights.began[after_2038:] == [evening(day) for day in range(3)]


@pytest.mark.parametrize("seed", range(30))
def test_clocks_that_jump_never_make_two_nights_of_one_date(seed):
    """+-1 h, +-1 day, 2038 and back, back 10 min; looked at every minute for six days."""
    dice = random.Random(seed)
    jumps = [timedelta(hours=1), timedelta(days=1), timedelta(minutes=10), timedelta(days=4000)]
    nights, true, wrong = Nights(), START, timedelta()
    for _ in range(6 * 24 * 60):
        true += timedelta(minutes=1)
        if dice.random() < 0.003:
            wrong = dice.choice([timedelta(), *jumps, *(-jump for jump in jumps[:3])])
        nights.look(true + wrong)
    dates = [due.date() for due in nights.began]
    assert len(dates) == len(set(dates))
    assert len(dates) >= 1
