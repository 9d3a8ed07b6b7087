"""A night that begins by itself: the daemon waits, answers, begins it once, and goes when it is told to."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime, timedelta

import pytest
from support.livenight import until

UTC_ENV = {"TZ": "UTC"}


@pytest.fixture
def scheduled(night):
    """A night whose schedule the test sets by ``due_in``."""
    night.env |= UTC_ENV

    def due_in(minutes: float, more: str = "") -> datetime:
        due = (datetime.now(UTC) + timedelta(minutes=minutes)).replace(second=0, microsecond=0)
        lines = f'schedule = "{due.minute} {due.hour} * * *"\n{more}\n'
        night.toml.write_text(night.toml.read_text().replace("width = 2\n", f"width = 2\n{lines}", 1))
        return due

    night.due_in = due_in
    return night


def waited_since(night, hours: float) -> None:
    """Leave the memory of a daemon that waited, and died so long ago."""
    remembered = json.loads((night.state / "schedule.json").read_text())
    remembered["looked_at"] = (datetime.now(UTC) - timedelta(hours=hours)).timestamp()
    remembered["missed"] = remembered["had"] = []
    (night.state / "schedule.json").write_text(json.dumps(remembered))


def runs(night):
    """Whether both loops run; a question may also come just when the night is being begun."""
    done = night.ralphd("status", "--json")
    return done.returncode == 0 and [loop["state"] for loop in json.loads(done.stdout)["loops"]] == ["running"] * 2


def nights(night):
    return [line.split()[0] for line in night.good("report", "--list").splitlines()]


def test_a_waiting_daemon_says_when_and_goes_when_told(scheduled):
    due = scheduled.due_in(180)
    assert f"waiting: the next night begins {due:%Y-%m-%d %H:%M}" in scheduled.start("--only-scheduled")
    told = scheduled.status()
    assert told["night"] is None
    assert told["daemon"]["next_night_at"] == due.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert f"The next night begins {due:%Y-%m-%d %H:%M} UTC." in scheduled.good("status")
    refused = scheduled.ralphd("pause")
    assert (refused.returncode, "no night runs; the next night begins" in refused.stderr) == (3, True)
    assert "nobody waits" in scheduled.good("stop")
    assert scheduled.daemon_pid() is None
    assert scheduled.ralphd("stop").returncode == 3


def test_after_its_night_the_daemon_stays_until_it_is_stopped_once_more(scheduled):
    scheduled.due_in(180)
    assert "2 of 2 loops run" in scheduled.start()
    daemon = scheduled.daemon_pid()
    first = scheduled.good("stop")
    assert "has ended" in first
    assert "`ralphd stop` once more ends the waiting" in first
    told = scheduled.status()
    assert (told["night"]["state"], told["daemon"]["pid"]) == ("ended", daemon)
    assert {loop["state"] for loop in told["loops"]} == {"stopped"}
    assert "nobody waits" in scheduled.good("stop")
    assert scheduled.daemon_pid() is None
    assert not scheduled.left()


def test_a_time_that_a_dead_daemon_missed_begins_late_once_and_is_told_once(scheduled):
    """Killed while waiting; started again by the service two hours after the time, well before the night's end."""
    scheduled.due_in(-120, 'for = "8h"')
    scheduled.start("--only-scheduled")
    os.kill(scheduled.daemon_pid(), signal.SIGKILL)
    until(lambda: scheduled.daemon_pid() is None)
    waited_since(scheduled, 5)
    service = scheduled.popen("start", "--foreground", "--only-open")
    until(lambda: runs(scheduled), "the night begins and its loops run")
    assert len(nights(scheduled)) == 1
    scheduled.good("stop", "--now")
    assert scheduled.status()["night"]["state"] == "ended"
    scheduled.good("stop")
    assert service.wait(60) == 0
    (missed,) = [line for line in scheduled.journal("outcomes") if line["kind"] == "daemon.schedule_missed"]
    assert missed["charge"] == "infra"
    assert len(nights(scheduled)) == 1


def test_a_missed_time_whose_night_would_be_over_is_only_told(scheduled):
    scheduled.due_in(-120, 'for = "1h"')
    scheduled.start("--only-scheduled")
    os.kill(scheduled.daemon_pid(), signal.SIGTERM)
    until(lambda: scheduled.daemon_pid() is None)
    waited_since(scheduled, 5)
    scheduled.start("--only-scheduled")
    assert scheduled.glance()["night"] is None  # who was told that it waits can ask it at once
    [trouble] = until(lambda: scheduled.glance()["daemon"]["trouble"], "it says what was missed")
    assert "no daemon was awake when a night was due" in trouble
    assert scheduled.status()["night"] is None
    scheduled.good("stop")
    scheduled.start("--for", "1h")
    scheduled.good("stop", "--now")
    scheduled.good("stop")
    assert not [line for line in scheduled.journal("outcomes") if line["kind"] == "daemon.schedule_missed"]


def test_a_night_that_cannot_begin_is_told_and_tried_again(scheduled):
    scheduled.due_in(-10, 'for = "8h"')
    scheduled.start("--only-scheduled")
    os.kill(scheduled.daemon_pid(), signal.SIGTERM)
    until(lambda: scheduled.daemon_pid() is None)
    waited_since(scheduled, 5)
    (scheduled.repo / "PROMPT.md").rename(scheduled.repo / "away.md")
    waiting = scheduled.popen("start", "--foreground", "--only-open")
    until(lambda: scheduled.ralphd("status").returncode == 0, "it waits")
    [trouble] = until(lambda: scheduled.status()["daemon"]["trouble"], "it says why")
    assert "the night that is due can't begin" in trouble
    assert "PROMPT.md" in trouble
    assert "nobody waits" in scheduled.good("stop")
    assert waiting.wait(60) == 0


def test_an_edit_of_the_schedule_is_followed_while_waiting_and_a_mistake_is_not(scheduled):
    scheduled.due_in(180)
    scheduled.start("--only-scheduled")
    text, before = scheduled.toml.read_text(), scheduled.status()["daemon"]["next_night_at"]
    line = next(line for line in text.splitlines() if line.startswith("schedule"))
    scheduled.toml.write_text(text.replace(line, 'schedule = "sometimes"'))
    [trouble] = until(lambda: scheduled.status()["daemon"]["trouble"], "the mistake is told")
    assert "has 1 fields" in trouble
    assert scheduled.status()["daemon"]["next_night_at"] == before
    scheduled.toml.write_text(text.replace(line, 'schedule = "0 0 1 1 *"'))
    until(lambda: scheduled.status()["daemon"]["next_night_at"].endswith("-01-01T00:00:00.000Z"), "it is followed")
    assert scheduled.status()["daemon"]["trouble"] == []
    scheduled.good("stop")


def test_waiting_without_a_schedule_is_refused(night):
    refused = night.ralphd("start", "--only-scheduled")
    assert refused.returncode == 2
    assert "has no night.schedule" in refused.stderr
    assert not night.state.exists()


def test_a_mistake_in_the_schedule_is_refused_before_anything_begins(night):
    night.toml.write_text(night.toml.read_text().replace("width = 2\n", 'width = 2\nschedule = "every day"\n', 1))
    refused = night.ralphd("start")
    assert refused.returncode == 2
    assert "ralphd.toml:3: night.schedule: 'every day' has 2 fields" in refused.stderr
