"""A real daemon under a service manager's protocol.

The manager is simulated: a socket that hears what it would hear, and signals that it would send.
"""

from __future__ import annotations

import os
import signal
import socket
import time

import pytest
from support.livenight import until


class Manager:
    """What systemd is to the daemon: a socket that hears, and an environment that says so."""

    def __init__(self, night) -> None:
        self.night, self.path = night, str(night.root / "notify")
        self.ours = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ours.bind(self.path)
        self.ours.settimeout(0.05)
        self.told: list[str] = []

    def start(self, *args: str):
        setting = {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": "400000"}
        self.told.clear()
        self.night.env |= setting
        try:
            return self.night.popen("start", "--foreground", "--only-open", *args, stderr=-1, stdout=-1)
        finally:
            for name in setting:
                del self.night.env[name]

    def heard(self) -> list[str]:
        end = time.monotonic() + 1
        try:
            while time.monotonic() < end:
                self.told += self.ours.recv(4096).decode().split("\n")
        except TimeoutError:
            pass
        return self.told


@pytest.fixture
def manager(night):
    made = Manager(night)
    yield made
    made.ours.close()


def test_without_an_open_night_the_service_leaves_at_once_and_well(night, manager):
    """READY before the end, or systemd would call it a failure and try again; nothing begins, nothing is left."""
    done = manager.start()
    _, err = done.communicate(timeout=60)
    assert done.returncode == 0
    assert b"no night is open, so there is nothing to take up" in err
    told = manager.heard()
    assert told[0] == "READY=1"
    assert "STOPPING=1" in told
    assert not (night.state / "nights").exists()


def test_an_open_night_is_taken_up_pinged_for_and_left_running(night, manager):
    """READY, then pings as long as passes go well; none while the process is frozen; on TERM it says that it leaves."""
    night.start()
    os.kill(night.daemon_pid(), signal.SIGKILL)
    until(lambda: night.daemon_pid() is None, "the daemon is gone")
    daemon = manager.start()
    try:
        until(lambda: manager.heard().count("WATCHDOG=1") >= 3, "it pings")
        assert manager.told.index("READY=1") <= manager.told.index("WATCHDOG=1")
        until(lambda: any("2 of 2 loops run" in line for line in manager.heard()), "it says how it goes")
        server = night.tmux_pid()
        os.kill(daemon.pid, signal.SIGSTOP)
        until(lambda: _state(daemon.pid) == "T", "it is frozen")
        manager.heard()
        manager.told.clear()
        time.sleep(1.5)  # long enough for several pings
        assert manager.heard() == []
        os.kill(daemon.pid, signal.SIGCONT)
        until(lambda: "WATCHDOG=1" in manager.heard(), "it pings again")
        daemon.terminate()
        assert daemon.wait(60) == 0
        assert "STOPPING=1" in manager.heard()
        assert night.tmux_pid() == server
    finally:
        daemon.kill()
        daemon.communicate()


def test_a_wrong_configuration_ends_with_the_status_that_is_not_restarted(night, manager):
    """Exit 2 with the reason as the status; never READY."""
    night.toml.write_text("[night]\nwidht = 2\n")
    done = manager.start("--config", str(night.toml))
    done.communicate(timeout=60)
    assert done.returncode == 2
    told = manager.heard()
    assert "READY=1" not in told
    assert any(line.startswith("STATUS=") and "widht" in line for line in told)


def fake_systemctl(night, start: str) -> None:
    """Have a systemctl first on PATH that answers, and on `start` does as told."""
    fakes = night.root / "fakes"
    fakes.mkdir()
    (fakes / "systemctl").write_text(f'#!/bin/sh\ncase "$*" in *" start "*) {start} ;; esac\n')
    (fakes / "systemctl").chmod(0o755)
    night.env["PATH"] = f"{fakes}:{night.env['PATH']}"


def test_a_night_begun_for_the_service_is_ready_once_its_loops_run(night, manager):
    """`start --service` writes the night down and leaves; the service runs it, as a first daemon and no second."""
    fake_systemctl(night, "true")
    night.good("service", "install")
    assert "runs under systemd" in night.good("start", "--service", "--width", "1", "--for", "1h")
    assert night.daemon_pid() is None
    daemon = manager.start()
    try:
        until(lambda: "READY=1" in manager.heard(), "it is ready")
        before = manager.told[: manager.told.index("READY=1")]
        assert any("0 of 1 loops run" in line for line in before)
        assert night.status()["night"]["width"] == 1
        assert night.status()["night"]["ends_at"]
        assert not [line for line in night.journal("outcomes") if line["kind"] == "daemon.restarted"]
        night.good("stop")
        assert daemon.wait(60) == 0
    finally:
        daemon.kill()
        daemon.communicate()


def test_a_service_that_cant_start_leaves_a_night_to_take_up(night):
    """What was asked for is kept, and the way on is told."""
    night.env["XDG_CONFIG_HOME"] = str(night.root / "config")
    done = night.ralphd("start", "--service")
    assert done.returncode == 2
    assert "the service is not installed" in done.stderr
    assert not night.state.exists()
    fake_systemctl(night, "echo no such luck; exit 1")
    night.good("service", "install")
    done = night.ralphd("start", "--service", env={"RALPHD_STATE": str(night.root / "other")})
    assert done.returncode == 2
    assert "is for another state folder" in done.stderr
    done = night.ralphd("start", "--service")
    assert done.returncode == 1
    assert "no such luck" in done.stderr
    assert "`ralphd start` takes the night up without systemd" in done.stderr
    said = night.ralphd("start", "--width", "7")
    assert "taking it up again with 2 loops" in said.stderr


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]
