from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ralphd.core.outcomes import Kind, Outcome
from ralphd.pane import zones

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC).timestamp()


def hours_until(environ, words):
    outcome = zones.dated(Outcome(kind=Kind.QUOTA, detail={"message": words}), environ, NOON)
    return (outcome.detail["resets_at"] - NOON) / 3600


@pytest.mark.parametrize(
    ("zone", "hours"),
    [("Europe/Berlin", 7.0), (":America/New_York", 13.0), ("UTC", 8.0), ("/usr/share/zoneinfo/Asia/Tokyo", 23.0)],
)
def test_a_time_of_day_is_that_of_the_agent_s_own_zone(zone, hours):
    assert hours_until({"TZ": zone}, "limit reached · resets 8pm") == hours


def test_without_a_zone_the_machine_s_own_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(zones, "LOCAL", "/usr/share/zoneinfo/Asia/Tokyo")
    assert hours_until({}, "resets 8pm") == 23.0
    assert hours_until({"TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}, "resets 8pm") == 23.0
    monkeypatch.setattr(zones, "LOCAL", str(tmp_path / "none"))
    assert hours_until({}, "resets 8pm") == 8.0


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "../etc", "/etc/passwd", "\0", "x" * 5000])
def test_what_is_no_zone_is_none(name):
    assert zones.zones_of({})(name) is None


def test_other_outcomes_stay_as_they_are():
    outcome = Outcome(kind=Kind.AUTH, detail={"message": "resets 8pm"})
    assert zones.dated(outcome, {}, NOON) is outcome
