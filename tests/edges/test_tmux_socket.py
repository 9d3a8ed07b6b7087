"""Where the tmux socket goes, and who listens on it."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from ralphd.core.errors import TmuxError, UsageError
from ralphd.edges import tmux_socket
from ralphd.edges.tmux import Tmux
from ralphd.edges.tmux_socket import peer_pid, socket_path


def test_a_short_state_folder_holds_its_socket():
    assert socket_path("/s", {}) == "/s/tmux.sock"


@pytest.fixture
def runtime(tmp_path_factory):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:  # 0700, and short
        yield folder


def long_state(tmp_path, tail="x"):
    return str(tmp_path / ("long" * 30) / tail)


def test_a_long_state_folder_gets_a_short_stable_socket_of_its_own(tmp_path, runtime):
    environ = {"XDG_RUNTIME_DIR": runtime}
    path = socket_path(long_state(tmp_path), environ)
    assert path == socket_path(long_state(tmp_path), environ)
    assert path != socket_path(long_state(tmp_path, "y"), environ)
    assert path.startswith(runtime + "/ralphd/")
    assert len(path) < 100
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_the_private_folder_is_0700_under_any_umask(tmp_path, runtime, umask):
    before = os.umask(umask)
    try:
        path = socket_path(long_state(tmp_path), {"XDG_RUNTIME_DIR": runtime})
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_a_folder_that_others_can_enter_or_a_link_is_refused(tmp_path, runtime):
    environ = {"XDG_RUNTIME_DIR": runtime}
    os.mkdir(f"{runtime}/ralphd")
    os.chmod(f"{runtime}/ralphd", 0o755)
    with pytest.raises(UsageError, match="yours alone"):
        socket_path(long_state(tmp_path), environ)
    os.rmdir(f"{runtime}/ralphd")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    os.symlink(tmp_path / "elsewhere", f"{runtime}/ralphd")
    with pytest.raises(UsageError, match="yours alone"):
        socket_path(long_state(tmp_path), environ)


def test_a_runtime_folder_that_is_not_private_is_not_used(tmp_path, runtime):
    os.chmod(runtime, 0o777)
    path = socket_path(long_state(tmp_path), {"XDG_RUNTIME_DIR": runtime})
    assert path.startswith(f"/tmp/ralphd-{os.geteuid()}/")


def test_a_server_runs_behind_the_short_socket(tmp_path, runtime):
    path = socket_path(long_state(tmp_path), {"XDG_RUNTIME_DIR": runtime})
    server = Tmux(path, environ=os.environ, timeout_s=30)
    try:
        server.open_windows([("a", ["/bin/sleep", "600"])], home=["/bin/sleep", "600"])
        assert len(server.panes()) == 2
    finally:
        server.kill_server(wait_s=60)


def test_the_listener_is_known_by_the_kernel(runtime):
    path = f"{runtime}/s"
    assert peer_pid(path) is None
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        assert peer_pid(path) is None
        listener.listen(1)
        assert peer_pid(path) == os.getpid()
    assert peer_pid(path) is None


def test_a_full_backlog_is_an_error_in_bounded_time(runtime, monkeypatch):
    monkeypatch.setattr(tmux_socket, "_CONNECT_TIMEOUT_S", 0.05)
    path = f"{runtime}/s"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(path)
        listener.listen(0)
        first.connect(path)
        with pytest.raises(TmuxError, match="can't be reached"):
            peer_pid(path)


def test_a_plain_file_in_the_place_of_the_socket_is_nobody(runtime):
    with open(f"{runtime}/s", "w"):
        pass
    assert peer_pid(f"{runtime}/s") is None
