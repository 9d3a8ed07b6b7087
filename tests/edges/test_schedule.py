"""Coarse jobs: due once by the wall clock, whatever daylight saving does, and only ever a name on a queue."""

from __future__ import annotations

import queue
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from ralphd.core.errors import UsageError
from ralphd.edges.schedule import Schedule, WallClock
from ralphd.edges.zone import local_zone

LONG_S = 60.0  # a deadline, not a measurement
BERLIN = "Europe/Berlin"
NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"


@pytest.fixture
def schedule():
    threads = set(threading.enumerate())
    posted = queue.Queue()
    made = Schedule(posted.put)
    made.posted = posted
    yield made
    made.close()
    assert set(threading.enumerate()) <= threads


def fire_times(expression, zone, start, count):
    """What APScheduler asks for: the next one after each, at the moment it fired."""
    zone = ZoneInfo(zone)
    trigger, previous, found = WallClock(expression, zone), None, []
    begin = datetime.fromisoformat(start)
    now = begin if begin.tzinfo else begin.replace(tzinfo=zone)
    for _ in range(count):
        previous = trigger.get_next_fire_time(previous, previous or now)
        found.append(previous.astimezone(zone))
        assert previous.tzinfo is UTC
    return found


DST = [
    (BERLIN, "30 2 * * *", "2026-03-27T12:00"),
    (BERLIN, "30 2 * * *", "2026-10-23T12:00"),
    (NEW_YORK, "30 2 * * *", "2026-03-06T12:00"),
    (NEW_YORK, "30 1 * * *", "2026-10-30T12:00"),
    (LORD_HOWE, "15 2 * * *", "2026-10-02T12:00"),
    (LORD_HOWE, "45 1 * * *", "2026-04-03T12:00"),
    ("America/Havana", "30 0 * * *", "2026-03-06T12:00"),
    ("America/Havana", "30 0 * * *", "2026-10-30T12:00"),
    (BERLIN, "0 22 * * *", "2026-03-27T23:00"),
]


@pytest.mark.parametrize(("zone", "expression", "start"), DST)
def test_a_daily_job_runs_exactly_once_per_local_date(zone, expression, start):
    dates = [moment.date() for moment in fire_times(expression, zone, start, 5)]
    assert [(later - earlier).days for earlier, later in pairwise(dates)] == [1] * 4
    assert dates[0] == datetime.fromisoformat(start).date() + timedelta(days=1)


def test_a_skipped_time_is_due_after_the_gap_and_a_repeated_one_at_its_first():
    assert fire_times("30 2 * * *", BERLIN, "2026-03-29T01:00", 1)[0].isoformat() == "2026-03-29T03:30:00+02:00"
    assert fire_times("30 2 * * *", BERLIN, "2026-10-25T01:00", 1)[0].isoformat() == "2026-10-25T02:30:00+02:00"


def test_a_start_in_the_second_of_two_equal_hours_does_not_run_it_again():
    start = "2026-10-25T02:10+01:00"
    assert fire_times("30 2 * * *", BERLIN, start, 1)[0].isoformat() == "2026-10-26T02:30:00+01:00"


def test_a_start_just_after_the_gap_still_runs_what_the_gap_moved():
    start = "2026-03-29T03:10"
    assert fire_times("30 2 * * *", BERLIN, start, 1)[0].isoformat() == "2026-03-29T03:30:00+02:00"


def test_times_grow_strictly_across_a_gap_that_folds_two_onto_one():
    found = fire_times("*/30 * * * *", BERLIN, "2026-03-29T00:15", 8)
    assert all(later > earlier for earlier, later in pairwise([moment.astimezone(UTC) for moment in found]))


def test_what_fell_due_while_the_machine_slept_is_one_run():
    trigger = WallClock("0 22 * * *", ZoneInfo(BERLIN))
    due, now = datetime(2026, 6, 1, 20, tzinfo=UTC), datetime(2026, 6, 9, 6, tzinfo=UTC)
    assert trigger.get_next_fire_time(due, now).isoformat() == "2026-06-09T20:00:00+00:00"


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("0", "Sun"),
        ("7", "Sun"),
        ("1-5", "Mon Tue Wed Thu Fri"),
        ("5-7", "Fri Sat Sun"),
        ("fri-mon", "Fri Sat Sun Mon"),
        ("0,3", "Sun Wed"),
        ("MON", "Mon"),
        ("1-5/2", "Mon Wed Fri"),
        ("*/2", "Sun Tue Thu Sat"),
    ],
)
def test_weekdays_are_those_of_cron(field, days):
    found = fire_times(f"0 22 * * {field}", BERLIN, "2026-06-01T00:00", 7)
    assert {moment.strftime("%a") for moment in found} == set(days.split())


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "0 22 * *",
        "0 22 * * * *",
        "60 22 * * *",
        "0 24 * * *",
        "x y * * *",
        "0 22 * * 8",
        "0 22 * * someday",
        "0 22 1 * 1",
        "0 0 30 2 *",
        "0 22 * * */0",
    ],
)
def test_other_expressions_are_refused_with_an_example_or_the_reason(expression):
    with pytest.raises(UsageError, match=r"write for example|name only one"):
        WallClock(expression, UTC)


def test_a_moment_posts_its_name_once_also_when_it_has_passed(schedule):
    schedule.at("past", datetime.now(UTC) - timedelta(days=1))
    assert schedule.posted.get(timeout=LONG_S) == "past"
    schedule.at("soon", datetime.now(UTC) + timedelta(seconds=0.1))
    assert schedule.posted.get(timeout=LONG_S) == "soon"
    assert schedule.next_run("past") is None


def test_an_interval_posts_again_and_again(schedule):
    schedule.every("tick", 0.05)
    assert [schedule.posted.get(timeout=LONG_S) for _ in range(3)] == ["tick"] * 3


def test_a_cron_job_knows_when_it_is_due(schedule):
    schedule.cron("night", "0 22 * * *", ZoneInfo(BERLIN))
    due = schedule.next_run("night")
    assert due.astimezone(ZoneInfo(BERLIN)).strftime("%H:%M:%S") == "22:00:00"
    assert timedelta(0) < due - datetime.now(UTC) <= timedelta(hours=25)


def test_a_name_set_again_replaces_and_a_cancelled_one_is_gone(schedule):
    soon = datetime.now(UTC) + timedelta(days=1)
    schedule.at("end", soon + timedelta(days=1))
    schedule.at("end", soon)
    assert schedule.next_run("end") == soon
    assert schedule.cancel("end") is True
    assert schedule.cancel("end") is False
    assert schedule.next_run("end") is None


def test_the_zone_of_this_machine_knows_daylight_saving():
    assert str(local_zone({"TZ": BERLIN})) == str(local_zone({"TZ": f":{BERLIN}"})) == BERLIN
    assert datetime.now(local_zone({})).utcoffset() is not None


@pytest.mark.parametrize("name", ["Nowhere/Land", "../etc/passwd", "\x00"])
def test_a_zone_that_does_not_exist_is_named(name):
    with pytest.raises(UsageError, match="not a time zone"):
        local_zone({"TZ": name})
