"""The sd_notify protocol, against real sockets."""

from __future__ import annotations

import os
import socket
import time

import pytest

from ralphd.edges.systemd import forget, notifier, watchdog_interval


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    """A manager's end: the value of NOTIFY_SOCKET and the socket behind it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@ralphd-test-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.bind(name.replace("@", "\0", 1) if request.param == "abstract" else name)
        ours.settimeout(10)
        yield name, ours


def test_one_message_holds_every_assignment(manager):
    """What is told at once arrives at once, one assignment a line."""
    address, ours = manager
    assert notifier({"NOTIFY_SOCKET": address}).tell(READY=1, STATUS="2 of 2 loops run, naïve")
    assert ours.recv(4096).decode() == "READY=1\nSTATUS=2 of 2 loops run, naïve"


def test_a_value_cant_smuggle_an_assignment_in(manager):
    """A line break in a status ends it: else the rest would be read as an assignment."""
    address, ours = manager
    assert notifier({"NOTIFY_SOCKET": address}).tell(STATUS="all well\nWATCHDOG=1")
    assert ours.recv(4096) == b"STATUS=all well"


@pytest.mark.parametrize("address", ["", "@", "relative", "vsock:1:2"])
def test_without_a_usable_address_nothing_is_told(address):
    """No manager, or one that speaks some other way: telling is no failure."""
    assert not notifier({"NOTIFY_SOCKET": address}).tell(READY=1)
    assert not notifier({}).tell(READY=1)


def test_a_manager_that_is_gone_is_no_trouble(tmp_path):
    """Nobody behind the address, or a plain file: False, no exception."""
    assert not notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).tell(READY=1)
    (tmp_path / "file").write_text("")
    assert not notifier({"NOTIFY_SOCKET": str(tmp_path / "file")}).tell(READY=1)
    assert not notifier({"NOTIFY_SOCKET": "/" + "x" * 300}).tell(READY=1)


def test_a_manager_that_hangs_holds_nobody(manager):
    """A full queue that nobody empties: telling gives up in about a second instead of blocking."""
    address, _ours = manager
    news = notifier({"NOTIFY_SOCKET": address})
    assert any(not news.tell(STATUS="x" * 1000) for _ in range(10_000))


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),  # inherited: another process is meant
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "²"}, None),
    ],
)
def test_the_watchdogs_interval(environ, seconds):
    """Seconds, when it is us who is watched; anything else means that nobody watches."""
    assert watchdog_interval(environ) == seconds


def test_children_dont_inherit_the_managers_address():
    """An agent or a verifier that found it could say READY or WATCHDOG in the daemon's name."""
    environ = {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "PATH": "/bin"}
    forget(environ)
    assert environ == {"PATH": "/bin"}
