"""Durations and times of day, as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphd.core.errors import UsageError
from ralphd.core.times import instant, parse_duration, parse_until

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("8h", 28_800),
        ("10m", 600),
        ("1h30m", 5_400),
        ("45s", 45),
        ("1d", 86_400),
        ("1d2h3m4s", 93_784),
        (" 8H ", 28_800),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "8", "h", "30m1h", "1.5h", "-8h", "0m", "8 h", "1h1h", "\u0668h", "9999999h", "8hours", "1h\n2m"]
)
def test_other_durations_are_refused_with_an_example(text):
    with pytest.raises(UsageError, match="not a duration; write for example 8h"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "7", "24:00", "07:60", "7am", "07:00:00", "-1:00", "\u0660\u0667:\u0660\u0660"])
def test_other_times_of_day_are_refused_with_an_example(text):
    with pytest.raises(UsageError, match="not a time of day; write for example 07:00"):
        parse_until(text, datetime(2026, 6, 1, tzinfo=BERLIN))


def until(text, now):
    return parse_until(text, now).astimezone(now.tzinfo)


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("07:00", datetime(2026, 6, 1, 22, 0, tzinfo=BERLIN), "2026-06-02T07:00:00+02:00"),
        ("07:00", datetime(2026, 6, 1, 6, 59, 59, tzinfo=BERLIN), "2026-06-01T07:00:00+02:00"),
        ("7:00", datetime(2026, 6, 1, 7, 0, tzinfo=BERLIN), "2026-06-02T07:00:00+02:00"),
        ("00:00", datetime(2026, 12, 31, 23, 0, tzinfo=BERLIN), "2027-01-01T00:00:00+01:00"),
        ("07:00", datetime(2026, 3, 28, 22, 0, tzinfo=BERLIN), "2026-03-29T07:00:00+02:00"),
        ("07:00", datetime(2026, 10, 24, 22, 0, tzinfo=BERLIN), "2026-10-25T07:00:00+01:00"),
        ("02:30", datetime(2026, 3, 28, 22, 0, tzinfo=BERLIN), "2026-03-29T03:30:00+02:00"),
        ("02:30", datetime(2026, 10, 24, 22, 0, tzinfo=BERLIN), "2026-10-25T02:30:00+02:00"),
        ("02:30", datetime(2026, 10, 25, 2, 40, tzinfo=BERLIN), "2026-10-25T02:30:00+01:00"),
        ("02:30", datetime(2026, 10, 25, 2, 40, fold=1, tzinfo=BERLIN), "2026-10-26T02:30:00+01:00"),
        ("02:30", datetime(2026, 3, 7, 22, 0, tzinfo=NEW_YORK), "2026-03-08T03:30:00-04:00"),
        ("01:30", datetime(2026, 10, 31, 22, 0, tzinfo=NEW_YORK), "2026-11-01T01:30:00-04:00"),
        ("02:15", datetime(2026, 10, 3, 22, 0, tzinfo=LORD_HOWE), "2026-10-04T02:45:00+11:00"),
        ("01:45", datetime(2026, 4, 4, 22, 0, tzinfo=LORD_HOWE), "2026-04-05T01:45:00+11:00"),
    ],
)
def test_until_is_the_next_such_local_time(text, now, expected):
    assert until(text, now).isoformat() == expected


MOMENTS = st.datetimes(
    datetime(2020, 1, 1),  # noqa: DTZ001 - hypothesis wants it naive
    datetime(2035, 1, 1),  # noqa: DTZ001 - same
).map(lambda naive: naive.replace(tzinfo=UTC))


@given(MOMENTS, st.integers(0, 23), st.integers(0, 59), st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, UTC]))
def test_until_lies_ahead_by_at_most_a_day_and_a_shift(moment, hour, minute, zone):
    ahead = parse_until(f"{hour:02}:{minute:02}", moment.astimezone(zone)) - moment
    assert timedelta(0) < ahead <= timedelta(hours=25)


@given(MOMENTS, st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, UTC]))
def test_the_wall_clock_of_a_moment_leads_back_to_it(moment, zone):
    local = moment.astimezone(zone)
    assert instant(local.replace(tzinfo=None, fold=0), zone, fold=local.fold) == moment


def test_a_naive_now_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="aware"):
        parse_until("07:00", datetime(2026, 6, 1))  # noqa: DTZ001 - the mistake under test
