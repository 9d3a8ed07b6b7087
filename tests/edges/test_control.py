"""The control socket: private from birth, for the same user, deaf to processes inside a loop."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralphd.cli.shipped import LEAN_PYTHON
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
@pytest.mark.parametrize(
    "junk", [b"junk\n", b"[]\n", b"[" * 10_000 + b"\n", b"\xff\n", b"", b"x" * (1 << 20) + b"\n", b"y" * (3 << 20)]
)
def test_junk_is_answered_with_a_refusal_and_stops_nobody(tmp_path: Path, state: Path, junk: bytes) -> None:
    del tmp_path
    if len(str(state)) < 100:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(state / "control.sock"))
            with contextlib.suppress(BrokenPipeError):  # nobody listens to three mebibytes
                peer.sendall(junk)
                peer.shutdown(socket.SHUT_WR)
            assert json.loads(peer.makefile().readline())["ok"] is False
    assert list(ask(state, {"verb": "x"}))[-1]["ok"]


def connected(state: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    folder = os.open(state, os.O_RDONLY)
    peer.connect(f"/proc/self/fd/{folder}/control.sock")
    os.close(folder)
    return peer


def test_the_socket_is_never_open_to_others_not_even_for_a_moment(tmp_path: Path) -> None:
    """Under umask 0, somebody who looks as fast as they can while the socket is bound again and again sees only 0600."""
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            with contextlib.suppress(FileNotFoundError):
                seen.add(stat.S_IMODE(os.lstat(tmp_path / "control.sock").st_mode))

    looker = threading.Thread(target=look)
    looker.start()
    before, held = os.umask(0), len(os.listdir("/proc/self/fd"))
    try:
        for _ in range(100):
            ControlServer(tmp_path, answer).close()
    finally:
        os.umask(before)
        over.set()
        looker.join()
    assert seen == {0o600}
    assert len(os.listdir("/proc/self/fd")) < held + 50  # a daemon of many nights keeps no descriptor of each


AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
peer = socket.socket(socket.AF_UNIX)
try:
    peer.connect(sys.argv[1])
except OSError as error:
    sys.exit(f"refused: {error.strerror}")
try:
    peer.sendall(b'{"verb": "stop"}\\n')
except BrokenPipeError:
    pass
print(peer.makefile().readline())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_stopped_by_the_folder_and_by_the_kernels_word(tmp_path: Path) -> None:
    state = Path("/tmp") / f"ralphd-test-{os.getpid()}"  # what lies above tmp_path is closed to others already
    state.mkdir(mode=0o700)
    asked: list[dict[str, object]] = []
    server = ControlServer(state, lambda request, _: asked.append(request))
    command = [sys.executable, "-I", "-S", "-c", AS_NOBODY, str(state / "control.sock")]
    try:
        shut = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        state.chmod(0o755)
        unwritable = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        (state / "control.sock").chmod(0o666)
        open_ = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    finally:
        server.close()
        shutil.rmtree(state)
    assert "Permission denied" in shut.stderr
    assert "Permission denied" in unwritable.stderr
    assert "belongs to another user" in open_.stdout
    assert asked == []


SERVER = """
import sys
from pathlib import Path
from ralphd.edges.control import ControlServer
server = ControlServer(Path(sys.argv[1]), lambda request, reply: reply({"ok": True}, True))
print("ready", flush=True)
sys.stdin.read()
server.close()
"""
# Stands where a loop's runner does: it adopts what its children leave behind. ASK has no mark in its environment.
STANDS_IN = """
import os, sys, time
root, out, ask, state, way = sys.argv[1:]
sys.path.insert(0, root)
from ralphd.pane.procs import become_subreaper
become_subreaper()
runner = os.getpid()
def go_on():
    os.setsid()
    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT, 0o600), 1)
    os.execve(sys.executable, ["bash", "-c", ask, state], {"PYTHONPATH": root})
if os.fork() == 0:
    if way == "orphaned":
        os.setsid()
        if os.fork():
            os._exit(0)
        while os.getppid() != runner:
            time.sleep(0.01)
    go_on()
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


@contextlib.contextmanager
def serving(state: Path) -> Iterator[None]:
    """A server in a process of its own: what the server's process starts is refused as such."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SERVER, str(state)], stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield
        server.stdin.close()


@pytest.mark.parametrize("way", ["cleared", "orphaned"])
@pytest.mark.parametrize(("name", "served"), [("runner.py", False), ("other.py", True)])
def test_a_process_of_a_loop_that_cleared_its_environment_is_refused(
    tmp_path: Path, name: str, served: bool, way: str
) -> None:
    """In a session of its own, under another name, even with its parents gone: a runner stands above it."""
    repository = Path(__file__).parents[2]
    stands_in = tmp_path / "ralphd" / "pane" / name
    stands_in.parent.mkdir(parents=True)
    stands_in.write_text(STANDS_IN)
    out = tmp_path / "said"
    command = [*LEAN_PYTHON, str(stands_in), str(repository), str(out), ASK, str(tmp_path), way]
    with serving(tmp_path):
        subprocess.run(command, env={"PATH": os.environ["PATH"]}, check=True)
    assert ("'ok': True" in out.read_text()) is served
    assert ("inside a loop" in out.read_text()) is not served


@pytest.mark.usefixtures("server")
def test_what_the_daemon_itself_started_is_refused(state: Path) -> None:
    """A verifier runs what agents committed, and git what they configured."""
    done = subprocess.run([sys.executable, "-c", ASK, str(state)], env={}, capture_output=True, text=True, check=True)
    assert "inside a loop" in done.stdout


def test_neither_a_crowd_nor_the_slow_keep_a_command_waiting(tmp_path: Path) -> None:
    """Two hundred that say nothing, one that sends a byte now and then, one that never reads its huge answer."""
    huge = "x" * (8 << 20)

    def handle(request: dict[str, object], reply: Reply) -> None:
        reply({"ok": True, "text": huge if request.get("huge") else ""}, True)

    server = ControlServer(tmp_path, handle)
    crowd = [connected(tmp_path) for _ in range(200)]
    deaf = connected(tmp_path)
    deaf.sendall(b'{"huge": true}\n')
    slow = connected(tmp_path)
    try:
        for _ in range(20):
            slow.send(b" ")
            began = time.monotonic()
            assert list(ask(tmp_path, {"verb": "status"}, 60))[-1]["ok"]
            assert time.monotonic() - began < 5  # one that waits for any of them takes longer: REQUEST_S, UNREAD_S
        assert threading.active_count() < 50
    finally:
        for peer in (*crowd, deaf, slow):
            peer.close()
        server.close()


def test_a_command_that_waits_is_answered_though_many_came_after_it(tmp_path: Path) -> None:
    waiting: list[Reply] = []
    server = ControlServer(tmp_path, lambda _, reply: waiting.append(reply))
    with contextlib.ExitStack() as peers:
        first = peers.enter_context(connected(tmp_path))
        first.sendall(b'{"verb": "stop"}\n')
        while not waiting:
            time.sleep(0.01)
        for _ in range(200):
            peers.enter_context(connected(tmp_path))
        waiting[0]({"ok": True, "end": "of the night"}, True)
        server.close()  # the daemon leaves at once: what it said last still arrives
        assert json.loads(first.makefile().readline())["end"] == "of the night"


def test_a_lack_of_descriptors_passes(tmp_path: Path) -> None:
    """Where every descriptor is taken a peer waits; it is served once there is one again."""
    script = """
import os, resource, socket, sys, threading, time
from pathlib import Path
from ralphd.edges.control import ControlServer, ask
state = Path(sys.argv[1])
server = ControlServer(state, lambda request, reply: reply({"ok": True}, True))
peer = socket.socket(socket.AF_UNIX)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
while True:
    try:
        taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        break
peer.connect(str(state / "control.sock"))
peer.sendall(b'{"verb": "status"}\\n')
time.sleep(0.5)
before = time.process_time()
time.sleep(1)
print("idle" if time.process_time() - before < 0.5 else "busy")
for fd in taken:
    os.close(fd)
print(peer.makefile().readline())
server.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["idle", '{"ok":', "true}"]
