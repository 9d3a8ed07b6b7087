"""The control socket: private from birth, for the same user, deaf to processes inside a loop."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralphd.core.errors import NothingRunning
from ralphd.edges.control import ControlServer, Reply, ask


def answer(request: dict[str, object], reply: Reply) -> None:
    reply({"progress": "working"}, False)
    reply({"ok": True, "echo": request}, True)


@pytest.fixture(params=["short", "x" * 200])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    state = tmp_path / request.param
    state.mkdir(mode=0o700)
    yield state
    assert not (state / "control.sock").exists()


@pytest.fixture
def server(state: Path) -> Iterator[ControlServer]:
    before = os.umask(0)
    server = ControlServer(state, answer)
    os.umask(before)
    yield server
    server.close()


@pytest.mark.usefixtures("server")
def test_a_request_is_answered_line_by_line(state: Path) -> None:
    replies = list(ask(state, {"verb": "status", "text": "é\n"}))
    assert replies == [{"progress": "working"}, {"ok": True, "echo": {"verb": "status", "text": "é\n"}}]


@pytest.mark.usefixtures("server")
def test_the_socket_is_private_under_any_umask(state: Path) -> None:
    assert stat.S_IMODE((state / "control.sock").stat().st_mode) == 0o600


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(NothingRunning, match="ralphd start"):
        list(ask(tmp_path, {"verb": "status"}))


def test_a_dead_daemons_socket_is_replaced(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "control.sock"))
    left.close()
    server = ControlServer(tmp_path, answer)
    assert list(ask(tmp_path, {"verb": "x"}))[-1]["ok"]
    server.close()


ASK = """
import sys; from pathlib import Path
from ralphd.edges.control import ask
print(list(ask(Path(sys.argv[1]), {"verb": "stop"})))
"""


@pytest.mark.usefixtures("server")
def test_a_process_inside_a_loop_is_refused(state: Path) -> None:
    env = {**os.environ, "RALPHD_NONCE": "abc"}
    done = subprocess.run([sys.executable, "-c", ASK, str(state)], env=env, capture_output=True, text=True, check=True)
    assert "inside a loop" in done.stdout
    assert "'ok': True" not in done.stdout


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("junk", [b"junk\n", b"[]\n", b"[" * 10_000 + b"\n", b"\xff\n", b""])
def test_junk_is_answered_with_a_refusal_and_stops_nobody(tmp_path: Path, state: Path, junk: bytes) -> None:
    del tmp_path
    if len(str(state)) < 100:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(state / "control.sock"))
            peer.sendall(junk)
            peer.shutdown(socket.SHUT_WR)
            assert json.loads(peer.makefile().readline())["ok"] is False
    assert list(ask(state, {"verb": "x"}))[-1]["ok"]
