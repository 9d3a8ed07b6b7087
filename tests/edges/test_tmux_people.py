"""People at a real terminal: they attach, scroll, type, detach and end things, and ralphd sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest

from ralphd.edges.processes import identity
from ralphd.edges.tmux import Tmux

SLEEP = ["/bin/sleep", "600"]
CAT = ["/bin/sh", "-c", 'stty raw -echo; exec cat >"$0"']


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


class Terminal:
    """A terminal of 100x30 with one program in it; what it draws is thrown away."""

    def __init__(self, argv, environ):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 30, 100, 0, 0))
        self.drawn = bytearray()
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environ
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._drain)
        self._reader.start()

    def _drain(self):
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:  # EIO: nobody has the other end any more
                return
            if not data:
                return
            self.drawn += data

    def type(self, keys):
        os.write(self.master, keys)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGHUP)
        self.process.wait(60)
        self._reader.join(60)
        os.close(self.master)


@pytest.fixture
def attach(tmux):
    terminals = []

    def look(window=None, **environ):
        terminal = Terminal(tmux.attach_argv(window), {**os.environ, "TERM": "xterm-256color", **environ})
        terminals.append(terminal)
        return terminal

    yield look
    for terminal in terminals:
        terminal.close()


def flags(tmux, pane_id):
    pane = tmux.panes()[pane_id]
    return pane.attached, pane.in_mode


def test_an_attached_person_is_seen_scrolls_and_detaches(tmux, attach):
    opened = tmux.open_windows([("a", SLEEP), ("b", SLEEP)], home=SLEEP)
    pids = {pane_id: pane.pid for pane_id, pane in tmux.panes().items()}
    terminal = attach("a")
    wait_for(lambda: flags(tmux, opened["a"]) == (True, False))
    assert flags(tmux, opened["b"]) == (False, False)
    (client,) = tmux.clients()
    assert client.window_name == "a"
    assert client.pid == terminal.process.pid
    terminal.type(b"\x02[")
    wait_for(lambda: flags(tmux, opened["a"]) == (True, True))
    terminal.type(b"q")
    wait_for(lambda: flags(tmux, opened["a"]) == (True, False))
    terminal.type(b"\x02d")  # two keys: of three at once tmux takes the last for pasted text
    assert terminal.process.wait(60) == 0
    wait_for(lambda: flags(tmux, opened["a"]) == (False, False))
    assert tmux.clients() == []
    assert {pane_id: pane.pid for pane_id, pane in tmux.panes().items()} == pids


def test_what_a_person_types_arrives_whole(tmux, attach, tmp_path):
    """50 keys."""
    typed = tmp_path / "typed"
    opened = tmux.open_windows([("a", [*CAT, str(typed)])], home=SLEEP)
    wait_for(typed.exists)
    terminal = attach("a")
    wait_for(lambda: flags(tmux, opened["a"])[0])
    keys = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
    terminal.type(keys)
    wait_for(lambda: len(typed.read_bytes()) >= len(keys))
    assert typed.read_bytes() == keys


def test_attaching_from_inside_another_tmux_works(tmux, attach):
    opened = tmux.open_windows([("a", SLEEP)], home=SLEEP)
    attach("a", TMUX="/tmp/other,1,0", TMUX_PANE="%0")
    wait_for(lambda: flags(tmux, opened["a"])[0])
    assert tmux.panes()[opened["a"]].attached


def test_nothing_of_the_attached_environment_reaches_later_panes(tmux, attach):
    opened = tmux.open_windows([("a", SLEEP)], home=SLEEP)
    attach("a", DISPLAY=":canary", SSH_AUTH_SOCK="/canary")
    wait_for(lambda: flags(tmux, opened["a"])[0])
    later = tmux.open_windows([("b", ["/bin/sleep", "601"])], home=SLEEP)
    pid = tmux.panes()[later["b"]].pid
    wait_for(lambda: b"601" in read(f"/proc/{pid}/cmdline"))
    assert b"canary" not in read(f"/proc/{pid}/environ")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_an_agent_can_not_write_the_clipboard_or_title_of_who_looks(tmux, attach, tmp_path):
    look = tmp_path / "look"
    script = r"until [ -e \"$0\" ]; do sleep 0.05; done; printf '\033]52;c;Y2FuYXJ5\007\033]0;canary-title\007\033Ptmux;\033\033]52;c;Y2FuYXJ5\007\033\\shown'; exec sleep 600"
    opened = tmux.open_windows([("a", ["/bin/sh", "-c", script.replace('\\"', '"'), str(look)])], home=SLEEP)
    terminal = attach("a")
    wait_for(lambda: flags(tmux, opened["a"])[0] and b"[ralphd]" in terminal.drawn)
    look.touch()
    wait_for(lambda: b"shown" in terminal.drawn)
    assert b"Y2FuYXJ5" not in terminal.drawn
    assert b"canary-title" not in terminal.drawn


def test_a_hostile_pane_title_does_not_run_in_the_status_line(tmux, attach, tmp_path):
    touched, done = tmp_path / "touched", tmp_path / "done"
    script = f"printf '\\033]0;#(touch {touched})\\007shown'; : >\"$0\"; exec sleep 600"
    tmux.open_windows([("a", ["/bin/sh", "-c", script, str(done)])], home=SLEEP)
    terminal = attach("a")
    wait_for(lambda: done.exists() and b"shown" in terminal.drawn and b"[ralphd]" in terminal.drawn)
    assert not touched.exists()
    assert b"#(touch" not in terminal.drawn


def test_windows_that_a_person_closes_leave_the_others_alone(tmux):
    opened = tmux.open_windows([(f"loop-{n}", SLEEP) for n in range(16)], home=SLEEP)
    before = tmux.panes()
    closed = [opened[f"loop-{n}"] for n in range(4)]
    for pane_id in closed:
        subprocess.run(["tmux", "-S", tmux.socket, "kill-window", "-t", pane_id], check=True)
    after = tmux.panes()
    assert set(before) - set(after) == set(closed)
    assert all(after[pane_id].pid == before[pane_id].pid for pane_id in after)


def test_a_session_that_a_person_ended_is_made_anew(tmux):
    tmux.open_windows([("a", SLEEP)], home=SLEEP)
    subprocess.run(["tmux", "-S", tmux.socket, "kill-session", "-t", "=ralphd"], check=True)
    opened = tmux.open_windows([("a", SLEEP)], home=SLEEP)
    assert {pane.window_name for pane in tmux.panes().values()} == {"a", "night"}
    assert opened["a"] in tmux.panes()


def test_a_foreign_session_on_the_socket_is_not_ours(tmux):
    tmux.open_windows([("a", SLEEP)], home=SLEEP)
    subprocess.run(["tmux", "-S", tmux.socket, "new-session", "-d", "-s", "ralphd-two", "-n", "b", *SLEEP], check=True)
    assert {pane.window_name for pane in tmux.panes().values()} == {"a", "night"}


def test_a_killed_server_is_seen_at_once_and_its_loops_can_be_opened_again(tmux):
    """What was in it is known by what it is, not by the panes."""
    names = [f"loop-{n}" for n in range(16)]
    opened = tmux.open_windows([(name, SLEEP) for name in names], home=SLEEP)
    who = {name: identity(tmux.panes()[opened[name]].pid) for name in names}
    assert all(who.values())
    os.kill(tmux.server_pid(), signal.SIGKILL)
    wait_for(lambda: not tmux.alive())
    assert tmux.panes() == {}
    again = tmux.open_windows([(name, SLEEP) for name in names], home=SLEEP)
    assert list(again) == names
    assert len(tmux.panes()) == 17
