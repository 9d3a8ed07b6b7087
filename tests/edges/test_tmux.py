"""The private tmux server, tried on real tmux behind private sockets."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from ralphd.core.errors import TmuxError, UsageError
from ralphd.edges.processes import identity, with_environ
from ralphd.edges.tmux import Tmux, clean_environment
from ralphd.edges.tmux_script import quote
from ralphd.edges.tmux_socket import peer_pid, socket_path

SLEEP = ["/bin/sleep", "600"]


def wait_for(condition, deadline_s=60.0):
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(0.02)
    raise AssertionError("waited in vain")


@pytest.fixture
def tmux(tmp_path):
    server = Tmux(str(tmp_path / "t.sock"), environ=os.environ, timeout_s=30)
    yield server
    server.kill_server(wait_s=60)
    assert server.server_pid() is None


def open_(tmux, **windows):
    return tmux.open_windows(list(windows.items()), home=SLEEP)


def text_of(path):
    return path.read_text() if path.exists() else ""


def test_windows_open_in_one_session_with_their_home(tmux):
    opened = open_(tmux, a=SLEEP, b=SLEEP)
    panes = tmux.panes()
    assert {panes[pane_id].window_name for pane_id in opened.values()} == {"a", "b"}
    assert sorted(pane.window_name for pane in panes.values()) == ["a", "b", "night"]
    assert all(pane.pid > 0 and not pane.dead and not pane.attached and not pane.in_mode for pane in panes.values())


def test_windows_join_the_session_that_is_there(tmux):
    open_(tmux, a=SLEEP)
    pid = tmux.server_pid()
    open_(tmux, b=SLEEP)
    assert tmux.server_pid() == pid
    assert sorted(pane.window_name for pane in tmux.panes().values()) == ["a", "b", "night"]


def test_a_closed_home_window_is_opened_again(tmux):
    open_(tmux, a=SLEEP)
    home = next(pane.pane_id for pane in tmux.panes().values() if pane.window_name == "night")
    tmux.kill_pane(home)
    open_(tmux, b=SLEEP)
    assert sorted(pane.window_name for pane in tmux.panes().values()) == ["a", "b", "night"]


def test_an_open_name_is_refused_or_reused_as_it_is(tmux):
    first = open_(tmux, a=SLEEP)
    with pytest.raises(TmuxError, match="a is open already"):
        open_(tmux, a=SLEEP)
    again = tmux.open_windows([("a", SLEEP), ("b", SLEEP)], home=SLEEP, reuse=True)
    assert again["a"] == first["a"]
    assert len(tmux.panes()) == 3


@pytest.mark.parametrize("name", ["", "A", "#(touch x)", "a b", "a" * 41, "a\nb", "night", "=a"])
def test_a_name_that_tmux_could_expand_is_refused(tmux, name):
    with pytest.raises(TmuxError, match="can't name a window"):
        tmux.open_windows([(name, SLEEP)], home=SLEEP)
    assert tmux.server_pid() is None


def test_a_name_asked_for_twice_is_refused(tmux):
    with pytest.raises(TmuxError, match="asked for twice"):
        tmux.open_windows([("a", SLEEP), ("a", SLEEP)], home=SLEEP)


HOSTILE = [
    "sp ace",
    "new\nline",
    "new\n   indented",
    "new\n  # comment",
    "it's",
    'say "hi"',
    "#(touch x)",
    "#{pane_id}",
    "semi;colon",
    ";",
    "\\;",
    "$HOME ${HOME} $(touch x) `touch x`",
    "~/x",
    "🐪",
    "-leading",
    "--",
    "{brace",
    "}",
    "%if",
    "back\\slash\\101",
    "tab\there",
    "\x01\x1b]0;title\x07",
    "",
    "a=b",
    os.fsdecode(b"not-utf8-\xff\xfe"),
]
TELL = "import json,os,sys; p=sys.argv[1]; open(p+'~','w').write(json.dumps([*sys.argv[2:], os.getcwd()])); os.rename(p+'~',p)"


def test_arguments_arrive_byte_for_byte(tmux, tmp_path):
    told = tmp_path / "told"
    open_(tmux, a=[sys.executable, "-c", TELL, str(told), *HOSTILE])
    assert json.loads(wait_for(lambda: text_of(told))) == [*HOSTILE, "/"]


@pytest.mark.parametrize("name", [name for name in HOSTILE if name and "/" not in name])
def test_programs_in_odd_folders_start_with_and_without_arguments(tmux, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    program = folder / "-program"
    program.write_text(f'#!/bin/sh\n: >"{tmp_path}/ran-$#"\nexec sleep 600\n')
    program.chmod(0o755)
    open_(tmux, alone=[str(program)], more=[str(program), "-x", "y"])
    wait_for(lambda: (tmp_path / "ran-0").exists() and (tmp_path / "ran-2").exists())
    assert not (tmp_path / "x").exists()


def test_a_program_that_is_not_absolute_or_holds_nul_is_refused(tmux):
    with pytest.raises(TmuxError, match="absolute"):
        open_(tmux, a=["sleep", "1"])
    with pytest.raises(TmuxError, match="NUL"):
        quote("a\0b")


@pytest.fixture
def short_folder():
    """A folder with an odd name that still fits into a socket address; pytest's own are too long."""
    with tempfile.TemporaryDirectory(prefix="-s #(touch x)🐪\n'\";$HOME ") as folder:
        yield Path(folder)


def test_state_folder_with_an_odd_name_holds_the_socket(short_folder):
    folder = short_folder
    server = Tmux(socket_path(str(folder), os.environ), environ=os.environ, timeout_s=30)
    try:
        server.open_windows([("a", SLEEP)], home=SLEEP)
        assert len(server.panes()) == 2
        assert stat.S_ISSOCK((folder / "tmux.sock").stat().st_mode)
    finally:
        server.kill_server(wait_s=60)


def test_panes_start_without_secrets_or_a_surrounding_tmux(tmp_path):
    environ = {**os.environ, "ANTHROPIC_API_KEY": "sk-canary", "TMUX": "/x,1,0", "TMUX_PANE": "%9"}
    server = Tmux(str(tmp_path / "t.sock"), environ=environ, timeout_s=30)
    try:
        opened = server.open_windows([("a", ["/bin/sleep", "601"])], home=SLEEP)
        pid = server.panes()[opened["a"]].pid
        wait_for(lambda: b"sleep" in cmdline(pid))
        for process in (pid, server.server_pid()):
            seen = Path(f"/proc/{process}/environ").read_bytes()
            assert b"canary" not in seen
            assert b"/x,1,0" not in seen
            assert b"PATH=" in seen
    finally:
        server.kill_server(wait_s=60)
    assert "ANTHROPIC_API_KEY" not in clean_environment(environ)


def test_stopping_fix_never_touches_fix_two(tmux):
    """A bare target is a prefix."""
    opened = tmux.open_windows([("fix", SLEEP), ("fix-two", SLEEP)], home=SLEEP)
    assert tmux.kill_pane(opened["fix"]) is True
    assert tmux.kill_pane(opened["fix"]) is False
    assert opened["fix-two"] in tmux.panes()
    failed = subprocess.run([*tmux.attach_argv("fix"), ";", "detach"], capture_output=True, text=True, check=False)
    assert "can't find window" in failed.stderr
    with pytest.raises(TmuxError, match="not a pane id"):
        tmux.kill_pane("fix")


def test_titles_and_escapes_do_not_change_who_a_pane_is(tmux, tmp_path):
    """An agent names itself over the terminal."""
    done = tmp_path / "done"
    script = r"printf '\033]0;night %%0 evil\007\033]2;b\007\033kb\033\\'; : >\"$0\"; exec sleep 600".replace(
        '\\"', '"'
    )
    opened = tmux.open_windows([("a", ["/bin/sh", "-c", script, str(done)]), ("b", SLEEP)], home=SLEEP)
    wait_for(done.exists)
    panes = wait_for(lambda: tmux.panes() if tmux.capture(opened["a"], 5) is not None else None)
    assert panes[opened["a"]].window_name == "a"
    assert panes[opened["b"]].window_name == "b"


def test_capture_gives_the_last_lines(tmux, tmp_path):
    script = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; done; exec sleep 600"
    opened = open_(tmux, a=["/bin/sh", "-c", script])
    lines = wait_for(lambda: [got for got in [tmux.capture(opened["a"], 400)] if any("line 300" in x for x in got)])[0]
    assert "line 1" in lines
    assert len(tmux.capture(opened["a"], 3)) == 3


def test_without_a_server_there_is_nothing_and_no_error(tmux):
    assert tmux.panes() == {}
    assert tmux.clients() == []
    assert tmux.server_pid() is None
    assert not tmux.alive()
    assert tmux.kill_pane("%1") is False
    tmux.kill_server(wait_s=1)


def test_a_stale_socket_is_no_server_and_no_obstacle(tmux):
    open_(tmux, a=SLEEP)
    pid = tmux.server_pid()
    watched = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([watched], [], [], 60)[0]
    os.close(watched)
    assert os.path.exists(tmux.socket)
    assert tmux.server_pid() is None
    assert tmux.panes() == {}
    assert set(open_(tmux, a=SLEEP)) == {"a"}


def test_a_new_server_starts_right_after_kill_server(tmux):
    """Tmux itself fails here every few times."""
    for _ in range(20):
        assert set(open_(tmux, a=SLEEP)) == {"a"}
        tmux.kill_server(wait_s=60)
        assert tmux.server_pid() is None


def test_a_server_that_somebody_else_is_ending_is_waited_out(tmux):
    """With the kill from outside: nobody waited for it."""
    open_(tmux, a=SLEEP)
    for _ in range(60):
        ended = tmux.server_pid()
        subprocess.run(["tmux", "-S", tmux.socket, "kill-server"], check=False, capture_output=True)
        assert set(tmux.open_windows([("a", SLEEP)], home=SLEEP, reuse=True)) == {"a"}
        assert tmux.server_pid() not in (None, ended)


def test_a_server_that_hangs_is_made_to_end(tmux):
    open_(tmux, a=SLEEP)
    pid = tmux.server_pid()
    watched = os.pidfd_open(pid)
    os.kill(pid, signal.SIGSTOP)
    Tmux(tmux.socket, environ=os.environ, timeout_s=0.3).kill_server(wait_s=0.3)
    assert select.select([watched], [], [], 0)[0]
    os.close(watched)
    assert set(open_(tmux, a=SLEEP)) == {"a"}


def test_a_removed_socket_comes_back_with_everything_in_it(tmux):
    opened = open_(tmux, a=SLEEP)
    server = identity(tmux.server_pid())
    os.unlink(tmux.socket)
    assert tmux.panes() == {}
    assert tmux.bring_socket_back(server, wait_s=60) is True
    assert opened["a"] in tmux.panes()
    tmux.kill_server(wait_s=60)
    assert tmux.bring_socket_back(server, wait_s=60) is False


def test_a_socket_that_may_not_be_used_is_an_error_not_an_empty_night(tmp_path):
    """That it can't be told never reads as that nothing runs."""
    (tmp_path / "tmux").write_text("#!/bin/sh\necho 'error connecting to /s (Permission denied)' >&2\nexit 1\n")
    (tmp_path / "tmux").chmod(0o755)
    server = Tmux(str(tmp_path / "t.sock"), environ={"PATH": f"{tmp_path}:/bin:/usr/bin"}, timeout_s=30)
    for call in (server.panes, server.clients, lambda: server.kill_pane("%1")):
        with pytest.raises(TmuxError, match="Permission denied"):
            call()


def test_no_windows_at_all_still_make_the_home(tmux):
    assert open_(tmux) == {}
    assert [pane.window_name for pane in tmux.panes().values()] == ["night"]
    assert open_(tmux) == {}


def refusing_tmux(tmp_path, opened=""):
    """Stands in for a machine out of processes: opens what it is told to, and complains of the rest."""
    tell = f"echo '{opened}'; " if opened else ""
    refuse = f"{tell}echo 'create window failed: fork failed' >&2; exit 1"
    (tmp_path / "tmux").write_text(f'#!/bin/sh\ncase "$*" in *source-file*) {refuse};; esac\n')
    (tmp_path / "tmux").chmod(0o755)
    return Tmux(str(tmp_path / "t.sock"), environ={"PATH": f"{tmp_path}:/bin:/usr/bin"}, timeout_s=30)


def test_windows_that_tmux_refuses_are_missing_in_the_answer(tmp_path):
    server = refusing_tmux(tmp_path, opened="%1 a")
    assert open_(server, a=SLEEP, b=SLEEP) == {"a": "%1"}


def test_when_tmux_refuses_every_window_its_reason_is_told(tmp_path):
    with pytest.raises(TmuxError, match="opened no window: create window failed: fork failed"):
        open_(refusing_tmux(tmp_path), a=SLEEP)


def test_sixty_four_windows_open_at_once(tmux):
    names = [f"loop-{n}" for n in range(64)]
    opened = tmux.open_windows([(name, SLEEP) for name in names], home=SLEEP)
    panes = tmux.panes()
    assert [panes[opened[name]].window_name for name in names] == names


def slow_tmux(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tmux").write_text(f"#!/bin/sh\nMARK='{tmp_path}' sleep 1500\n")
    (folder / "tmux").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def test_a_slow_tmux_is_an_error_in_bounded_time_and_leaves_nothing(tmp_path):
    server = Tmux(str(tmp_path / "t.sock"), environ=slow_tmux(tmp_path), timeout_s=0.3)
    calls = (
        server.version,
        server.panes,
        server.clients,
        lambda: server.kill_pane("%1"),
        lambda: server.capture("%1", 5),
    )
    for call in calls:
        with pytest.raises(TmuxError, match=r"didn't answer within 0\.3 s"):
            call()
    with pytest.raises(TmuxError, match="didn't answer"):
        server.open_windows([("a", SLEEP)], home=SLEEP)
    wait_for(lambda: not with_environ(f"MARK={tmp_path}".encode()))


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def test_a_stopped_server_is_alive_known_by_pid_and_answers_nothing(tmux):
    """Wedged is not gone."""
    open_(tmux, a=SLEEP)
    pid = tmux.server_pid()
    hasty = Tmux(tmux.socket, environ=os.environ, timeout_s=0.3)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert hasty.server_pid() == pid
        with pytest.raises(TmuxError, match="didn't answer"):
            hasty.panes()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert len(tmux.panes()) == 2


@pytest.mark.parametrize(
    ("says", "good"),
    [("tmux 3.1c", False), ("tmux 2.9a", False), ("tmux 3.2", True), ("tmux next-3.5", True), ("tmux master", True)],
)
def test_an_old_tmux_is_refused_with_its_version(tmp_path, says, good):
    (tmp_path / "tmux").write_text(f"#!/bin/sh\necho '{says}'\n")
    (tmp_path / "tmux").chmod(0o755)
    server = Tmux(str(tmp_path / "t.sock"), environ={"PATH": f"{tmp_path}:/bin:/usr/bin"})
    if good:
        assert server.check() == says
        return
    with pytest.raises(UsageError, match=rf"{says} is too old.*3\.2"):
        server.check()


def test_no_tmux_says_how_to_get_it(tmp_path):
    server = Tmux(str(tmp_path / "t.sock"), environ={"PATH": str(tmp_path)})
    for call in (server.check, server.version, server.attach_argv):
        with pytest.raises(UsageError, match="apt install tmux"):
            call()
    for call in (server.panes, server.clients, lambda: open_(server, a=SLEEP)):
        with pytest.raises(TmuxError, match="apt install tmux"):  # the daemon lives on
            call()


def test_libtmux_objects_work_through_the_bounded_server(tmux):
    open_(tmux, a=SLEEP)
    assert [session.name for session in tmux._server().sessions] == ["ralphd"]


GHOST = """
import os, socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(9)
child = os.fork()
if child:
    print(child, flush=True)
    os._exit(0)
sys.stdin.read()
"""


def test_a_socket_that_only_a_child_of_a_dead_server_holds_is_no_server(short_folder):
    path = str(short_folder / "s")
    ghost = subprocess.Popen([sys.executable, "-c", GHOST, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert int(ghost.stdout.readline()) > 0
        ghost.wait()
        assert peer_pid(path) == ghost.pid
        assert Tmux(path, environ=os.environ).server_pid() is None
    finally:
        ghost.stdin.close()
        ghost.stdout.close()
