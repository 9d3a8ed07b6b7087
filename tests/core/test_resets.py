from __future__ import annotations

import time
from datetime import UTC, datetime
from math import isfinite
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphd.core import pacing, resets
from ralphd.core.exchange import Limits
from ralphd.core.failures import kind_of_words
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.pacing import Circumstances

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
TUESDAY = datetime(2026, 12, 1, 18, 0, tzinfo=BERLIN)  # as people in Berlin see it


def zones_of(local):
    def find(name):
        try:
            return ZoneInfo(name) if name else local
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return None

    return find


def told(text, now=TUESDAY, local=BERLIN):
    """What the text says, on the clocks of ``local``; None when it names no time."""
    found = resets.read(text, now.timestamp(), zones_of(local))
    return None if found is None else datetime.fromtimestamp(found.at, local).strftime("%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You've hit your session limit · resets 7:20pm", "12-01 19:20:00"),
        ("You've hit your session limit · resets 7:20pm (Europe/Berlin)", "12-01 19:20:00"),
        ("You've hit your session limit · resets 7:20pm (America/New_York)", "12-02 01:20:00"),
        ("resets at 19:20", "12-01 19:20:00"),
        ("resets at 19:20 UTC", "12-01 20:20:00"),
        ("resets 7pm PT", "12-02 04:00:00"),
        ("resets 7pm UTC+2", "12-01 18:00:00"),
        ("Your limit will reset at 7 p.m. (local time).", "12-01 19:00:00"),
        ("resets 2am", "12-02 02:00:00"),  # after midnight
        ("resets 12am", "12-02 00:00:00"),
        ("resets at 00:30", "12-02 00:30:00"),
        ("resets 12pm (UTC)", "12-02 13:00:00"),
        ("resets midnight", "12-02 00:00:00"),
        ("resets 5:55pm", "12-01 17:55:00"),  # five minutes ago: it is over
        ("resets 5:30pm", "12-02 17:30:00"),  # half an hour ago can't be meant
        ("resets Mon 9am", "12-07 09:00:00"),
        ("resets on Monday at 9:00 (America/New_York)", "12-07 15:00:00"),
        ("weekly limit reached, resets Tuesday 5pm", "12-08 17:00:00"),
        ("resets Thursday", "12-03 00:00:00"),
        ("resets Jan 3, 9am", "01-03 09:00:00"),
        ("resets 3 January 2027 at 9:15", "01-03 09:15:00"),
        ("You've hit your usage limit. Try again at Dec 4th, 2026 8:00 PM.", "12-04 20:00:00"),
        ("try again tomorrow at 9am", "12-02 09:00:00"),
        ("try again in 2h 13m", "12-01 20:13:00"),
        ("Try again in 3 days and 2 hours.", "12-04 20:00:00"),
        ("Please try again in 6m0.5s. Visit https://example.org", "12-01 18:06:00"),
        ("Please retry in 45.2s.", "12-01 18:00:45"),
        ("retry after 30", "12-01 18:00:30"),
        ("Retry-After: Wed, 02 Dec 2026 07:28:00 GMT", "12-02 08:28:00"),
        ('{"type":"usage_limit_reached","resets_in_seconds":3600}', "12-01 19:00:00"),
        ('{"type":"usage_limit_reached","resets_at":1796155200}', "12-01 21:00:00"),
        ('{"retryDelay": "45s"}', "12-01 18:00:45"),
        ("Claude AI usage limit reached|1796155200", "12-01 21:00:00"),
        ("resets at 1796155200000", "12-01 21:00:00"),
        ("resets at 2026-12-02T03:00:00Z", "12-02 04:00:00"),
        ("resets at 2026-12-02T03:00:00.123-05:00", "12-02 09:00:00"),
        ("resets 2026-12-02 03:00", "12-02 03:00:00"),
        ("resets 2026-12-02 03:00 (America/New_York)", "12-02 09:00:00"),
    ],
)
def test_the_end_of_a_limit_is_read_from_its_sentence(text, expected):
    assert told(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "You've hit your limit. Try again later.",
        "resets 9",
        "resets at 25:00",
        "resets 13pm",
        "resets 9am (Mars/Olympus)",  # half a day wrong is worse than not knowing
        "Jan 3, 9am",  # nothing says what ends then
        "You've used 90 % of your session limit · resets 7:20pm",
        "Approaching usage limit · resets at 7pm",
        "the preset 7:20pm",
        "",
    ],
)
def test_what_names_no_end_of_a_limit_gives_none(text):
    assert told(text) is None


def test_a_warning_beside_the_wall_is_not_taken_for_it():
    warning = "You've used 90 % of your weekly limit · resets Mon 9am"
    wall = "You've hit your session limit · resets 7:20pm"
    assert told(f"{warning}\n{wall}") == told(f"{wall}\n{warning}") == told(wall) == "12-01 19:20:00"
    assert kind_of_words(warning) is None
    assert kind_of_words(wall) is Kind.QUOTA


@pytest.mark.parametrize(
    "words",
    [
        "You've hit your org's monthly spend limit · resets Jan 1",
        "You've hit your weekly limit · resets Mon 9am",
        "You have reached your 5-hour limit, resets 7:20pm",
        "Usage has been disabled by your admin",
    ],
)
def test_every_wording_of_a_wall_is_a_quota(words):
    assert kind_of_words(words) is Kind.QUOTA


@pytest.mark.parametrize(
    ("now", "text", "expected"),
    [
        # 2:30 does not exist on the night to 2027-03-28: an hour later is the same moment as the clock is put forward
        (datetime(2027, 3, 28, 0, 30, tzinfo=BERLIN), "resets 2:30am", "2027-03-28T01:30:00+00:00"),
        (datetime(2027, 3, 28, 0, 30, tzinfo=BERLIN), "resets 7:20am", "2027-03-28T05:20:00+00:00"),
        # 2:30 comes twice on the night to 2026-10-25: the first that is still to come
        (datetime(2026, 10, 25, 0, 30, tzinfo=BERLIN), "resets 2:30am", "2026-10-25T00:30:00+00:00"),
        (datetime(2026, 10, 25, 2, 50, tzinfo=BERLIN), "resets 2:30am", "2026-10-25T01:30:00+00:00"),
        (datetime(2026, 10, 25, 2, 50, fold=1, tzinfo=BERLIN), "resets 2:30am", "2026-10-26T01:30:00+00:00"),
        (datetime(2026, 10, 25, 0, 30, tzinfo=BERLIN), "resets in 5h", "2026-10-25T03:30:00+00:00"),
    ],
)
def test_a_night_on_which_the_clock_is_set(now, text, expected):
    found = resets.read(text, now.timestamp(), zones_of(BERLIN))
    assert datetime.fromtimestamp(found.at, UTC).isoformat() == expected


def test_retry_after_is_seconds_or_a_date():
    now = TUESDAY.timestamp()
    assert resets.retry_after("120", now) == now + 120
    assert resets.retry_after(" Tue, 01 Dec 2026 17:05:00 GMT", now) == now + 300
    assert resets.retry_after("soon", now) is None


def limit(kind=Kind.QUOTA, **detail):
    return resets.dated(Outcome(kind=kind, detail=detail), TUESDAY.timestamp(), zones_of(BERLIN)).detail


def test_an_outcome_of_a_limit_gets_its_end_and_the_words_that_say_so():
    detail = limit(message="You've hit your session limit · resets 7:20pm")
    assert detail["resets_at"] == TUESDAY.timestamp() + 4800
    assert detail["reset_words"] == "resets 7:20pm"


def test_what_the_server_said_in_a_field_outweighs_words():
    assert limit(message="resets 7:20pm", resets_at=TUESDAY.timestamp() + 60)["resets_at"] == TUESDAY.timestamp() + 60
    assert "resets_at" not in limit(message="resets 7:20pm", retry_after_s=30.0)


@pytest.mark.parametrize(
    ("header", "ahead_s"),
    [("Tue, 01 Dec 2026 17:05:00 GMT", 300), ("120", 120)],
)
def test_a_header_as_it_stood_outweighs_words(header, ahead_s):
    detail = limit(message="resets 7:20pm", retry_after=header)
    assert detail["resets_at"] == TUESDAY.timestamp() + ahead_s


def test_a_header_that_says_nothing_leaves_it_to_the_words():
    assert limit(message="resets 7:20pm", retry_after="soon")["resets_at"] == TUESDAY.timestamp() + 4800


def test_nothing_but_a_limit_is_dated():
    assert "resets_at" not in limit(Kind.AUTH, message="resets 7:20pm")
    assert "resets_at" not in limit(Kind.NEXT, message="resets 7:20pm")


@pytest.mark.parametrize(
    ("message", "doubt"),
    [
        ("resets Jan 3, 2099", "days away: asked again as if no time had been named"),
        ("limit reached|1764547200", "2025-12-01 00:00 UTC is 526620 minutes past: asked again as if no time"),
        ("resets in 999999999w", "days away: asked again as if no time had been named"),
    ],
)
def test_an_absurd_time_is_said_and_not_waited_for(message, doubt):
    outcome = resets.dated(Outcome(kind=Kind.QUOTA, detail={"message": message}), TUESDAY.timestamp(), zones_of(BERLIN))
    assert "resets_at" not in outcome.detail
    assert doubt in outcome.detail["reset_disbelieved"]
    seen = Circumstances(seconds=1.0, worked=False, now=TUESDAY.timestamp(), chance=0.99)
    assert pacing.inference_wait_s(50, outcome, seen, Limits()) <= Limits().backoff_max_s


@given(st.text(max_size=200) | st.from_regex(r"resets? (at )?[0-9A-Za-z:,+ /()-]{0,60}"), st.floats(0, 4e9))
def test_no_text_breaks_it_and_what_it_reads_is_a_number(text, now):
    found = resets.read(text, now, zones_of(BERLIN))
    assert found is None or isfinite(found.at)
    resets.dated(Outcome(kind=Kind.QUOTA, detail={"message": text}), now, zones_of(BERLIN))


def test_a_long_text_is_read_quickly():
    """Every pattern is bounded: what a hostile server says costs no time."""
    began = time.process_time()
    for piece in (
        "resets ",
        "1d",
        "resets 1d",
        "try again in 1 ",
        "9 " * 30,
        "(" * 10,
        "resets Mon Mon ",
        "resets Jan ",
    ):
        resets.read(piece * 100_000, 0.0, zones_of(BERLIN))
    assert time.process_time() - began < 10.0  # takes a hundredth of that
