"""A service manager hears of real passes only: one that hangs or fails looks dead."""

from __future__ import annotations

import socket
import threading

import pytest
from support.stories import Story

from ralphd.cli.pulse import Pulse
from ralphd.edges.systemd import Notifier


class Manager:
    """The manager's end of NOTIFY_SOCKET, and a night that tells it."""

    def __init__(self, path: str, *, interval_s: float | None = 4.0, adopted: bool = False) -> None:
        self.ours = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ours.bind(path)
        self.ours.setblocking(False)
        self.story = Story(loops=2)
        self.pulse = Pulse(
            notifier=Notifier(address=path), interval_s=interval_s, clock=self.story.clock.monotonic, adopted=adopted
        )
        self.story.daemon.hooks.ticked = self.pulse.beat

    def heard(self) -> list[str]:
        told = []
        while True:
            try:
                told += self.ours.recv(4096).decode().split("\n")
            except BlockingIOError:
                return told


@pytest.fixture
def manager(tmp_path):
    made = Manager(str(tmp_path / "n"))
    yield made
    made.ours.close()


def test_a_pass_that_went_well_pings_and_says_how_it_goes(manager):
    """The fleet in a few words, told again only when they change; a ping a quarter of the interval."""
    manager.story.begin()
    assert manager.heard()[-3:] == ["WATCHDOG=1", "STATUS=night 2026-11-30-a: 2 of 2 loops run", "WATCHDOG=1"]
    manager.story.step(0.5)
    assert manager.heard() == []
    manager.story.step(0.5)
    assert manager.heard() == ["WATCHDOG=1"]
    manager.story.runner_dies("l1")
    manager.story.step()
    assert "STATUS=night 2026-11-30-a: 1 of 2 loops run" in manager.heard()


def test_a_pass_that_fails_doesnt_ping(manager, monkeypatch):
    """The daemon survives a failing pass, but it must not look alive for it; the next good one pings."""
    manager.story.begin()
    manager.heard()
    with monkeypatch.context() as broken:
        broken.setattr(manager.story.daemon.closing, "step", lambda: 1 / 0)
        for _ in range(5):
            manager.story.clock.pass_time(4)
            manager.story.daemon._safely(manager.story.daemon._pass)
        assert manager.heard() == []
        assert "ZeroDivisionError" in manager.story.daemon.troubles["daemon"]
    manager.story.daemon._safely(manager.story.daemon._pass)
    assert "WATCHDOG=1" in manager.heard()


def test_a_pass_that_hangs_doesnt_ping(manager, monkeypatch):
    """Wedged in the world outside: silence until it comes back, though time goes by."""
    story, looked, go_on = manager.story, threading.Event(), threading.Event()
    story.begin()
    manager.heard()

    def hang() -> None:
        looked.set()
        assert go_on.wait(60)

    monkeypatch.setattr(story.daemon.closing, "step", hang)
    wedged = threading.Thread(target=story.daemon._pass)
    wedged.start()
    try:
        assert looked.wait(60)
        story.clock.pass_time(60)
        assert manager.heard() == []
    finally:
        go_on.set()
        wedged.join(60)
    assert manager.heard() == ["WATCHDOG=1"]


def test_requests_alone_dont_ping(manager):
    """A daemon that answers people but makes no pass any more does not watch over anything."""
    manager.story.begin()
    manager.heard()
    manager.story.clock.pass_time(60)
    assert manager.story.ask("status")
    assert manager.heard() == []


def test_without_a_watchdog_nothing_is_pinged(tmp_path):
    """No WatchdogSec=, no pings; the status is told all the same."""
    manager = Manager(str(tmp_path / "n"), interval_s=None)
    manager.story.begin()
    told = manager.heard()
    assert told
    assert all(line.startswith("STATUS=") for line in told)
    manager.ours.close()


def test_an_adopted_night_is_ready_with_the_first_pass(tmp_path):
    """Its loops may have been stopped on purpose: who waits for all to run would wait for ever. Told once."""
    manager = Manager(str(tmp_path / "n"), adopted=True)
    assert manager.heard() == []
    manager.story.begin()
    told = manager.heard()
    assert told[0] == "READY=1"
    manager.pulse.ready()
    assert (told + manager.heard()).count("READY=1") == 1
    manager.ours.close()


def test_a_new_night_isnt_ready_by_a_pass_alone(manager):
    """READY is the word of the loops, which hooks.ready brings."""
    manager.story.step()
    assert "READY=1" not in manager.heard()
    manager.pulse.ready()
    assert manager.heard() == ["READY=1"]
