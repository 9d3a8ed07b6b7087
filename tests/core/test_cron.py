"""What may stand in night.schedule: one time a day, said in cron's five fields."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphd.core import configfile
from ralphd.core.cron import parse_schedule
from ralphd.core.errors import ConfigError, UsageError
from ralphd.edges.schedule import WallClock


@pytest.mark.parametrize(
    "text",
    [
        "0 22 * * *",
        "30 2 * * 1-5",
        "0 0 1,15 * *",
        "5 4 29 2 *",
        "0 22 * * FRI-mon",
        "0 22 */2 jan-jun *",
        "59 23 * * 7",
    ],
)
def test_a_time_of_day_on_some_days_is_a_schedule(text):
    assert parse_schedule(text) == text.lower()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("22:00", "1 fields"),
        ("0 22 * *", "4 fields"),
        ("* 22 * * *", "minute must be one number"),
        ("0 */2 * * *", "hour must be one number"),
        ("0 24 * * *", "hour must be one number up to 23"),
        ("0 22 32 * *", "'32' is not between 1 and 31"),
        ("0 22 * 13 *", "'13' is not between 1 and 12"),
        ("0 22 * * 8", "'8' is not between 0 and 7"),
        ("0 22 * * moon", "'moon'"),
        ("0 22 1 * 1", "only one of the two"),
        ("0 22 31 feb,apr *", "never comes"),
        ("0 22 9-3 * *", "runs backwards"),
        ("0 22 */0 * *", "not a field"),
        ("0 22 * * ²", "not a field"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text, why):
    with pytest.raises(UsageError) as told:
        parse_schedule(text)
    assert why in str(told.value)


FIELD = st.one_of(
    st.just("*"),
    st.integers(0, 32).map(str),
    st.tuples(st.integers(0, 32), st.integers(0, 32)).map(lambda pair: f"{pair[0]}-{pair[1]}"),
    st.integers(0, 9).map(lambda step: f"*/{step}"),
    st.sampled_from(["sun", "fri-mon", "jan,dec", "5-7", "1,2-4", "x"]),
)


@given(fields=st.tuples(st.integers(0, 59), st.integers(0, 23), FIELD, FIELD, FIELD))
def test_what_is_taken_can_be_waited_for(fields):
    """A night that nobody can begin must be refused when the file is read, not in the evening."""
    try:
        text = parse_schedule(" ".join(map(str, fields)))
    except UsageError:
        return
    assert WallClock(text, UTC).get_next_fire_time(None, datetime(2026, 6, 1, tzinfo=UTC)) is not None


def test_a_mistake_is_told_with_its_key_and_line():
    with pytest.raises(ConfigError) as told:
        configfile.read('[night]\nwidth = 2\nschedule = "0 22 * *"\n', "ralphd.toml")
    assert "ralphd.toml:3: night.schedule: " in str(told.value)
    assert told.value.key == "night.schedule"


def test_an_empty_schedule_is_none():
    assert configfile.read('[night]\nschedule = ""\n', "ralphd.toml").night.schedule == ""
