"""A running night's journal is copied every quarter of an hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from ralphd.cli.serve import _schedule
from ralphd.core.state import NightState


def test_a_backup_is_due_within_a_quarter_of_an_hour():
    begun = SimpleNamespace(frame=SimpleNamespace(state=NightState()))
    schedule = _schedule(begun, SimpleNamespace(inbox=None))
    try:
        due = schedule.next_run("backup")
    finally:
        schedule.close()
    assert due is not None
    assert due <= datetime.now(UTC) + timedelta(minutes=15)
