"""Another user of the same machine, as a real other user id: nothing of a state folder can be read, reached or driven."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.needs import missing
from support.nights import Night

from ralphd.core.exchange import Order, Want
from ralphd.core.redact import Redactor
from ralphd.edges.control import ControlServer
from ralphd.edges.journal import Journal
from ralphd.edges.loopfolder import LoopFolders
from ralphd.edges.ownership import open_state, own
from ralphd.edges.tmux import Tmux
from ralphd.edges.tmux_socket import socket_path

MIGRATIONS = str(Path(__file__).parents[2] / "migrations")
# Tries everything that it finds or knows of; prints what it got, which must be nothing.
AS_NOBODY = """
import json, os, socket, subprocess, sys
state, tmux = sys.argv[1:]
os.setgroups([]); os.setgid(65534); os.setuid(65534)
got = []
def attempt(what, do):
    try:
        answer = do()
    except OSError:
        return
    got.append([what, str(answer)[:200]])
def talk(path):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        peer.sendall(b'{"verb": "stop", "now": true}\\n')
        answer = peer.makefile().readline()
        if "belongs to another user" in answer:
            raise PermissionError
        return answer
attempt("list", lambda: os.listdir(state))
for name in ("journal.db", "daemon.lock", "order.json", "nights"):
    path = os.path.join(state, name)
    attempt(f"stat {name}", lambda: os.stat(path))
    attempt(f"read {name}", lambda: open(path, "rb").read())
    attempt(f"write {name}", lambda: open(path, "ab"))
attempt("make", lambda: os.mkdir(os.path.join(state, "theirs")))
attempt("replace", lambda: os.rename(os.path.join(state, "journal.db"), "/tmp/stolen"))
attempt("control", lambda: talk(os.path.join(state, "control.sock")))
for verb in (["list-sessions"], ["kill-server"], ["send-keys", "-t", "a", "rm", "Enter"]):
    done = subprocess.run(["tmux", "-S", tmux, *verb], capture_output=True, text=True)
    if done.returncode == 0:
        got.append([f"tmux {verb[0]}", done.stdout])
print(json.dumps(got))
"""


@pytest.fixture
def state() -> Iterator[Path]:
    """A state folder in use, made under umask 0, in a folder that everybody may enter: that of tmp_path isn't."""
    if os.geteuid() != 0:
        missing("only root can become somebody else")
    state, before = Path("/tmp") / f"ralphd-others-{os.getpid()}", os.umask(0)
    try:
        owned = own(open_state(str(state)), version="1", started_at="now")
        journal = Journal.open(str(state / "journal.db"), MIGRATIONS, Redactor())
        journal.append([Night().started()])
        LoopFolders("").order(str(state), Order(serial=1, want=Want.RUNNING))
        (state / "nights").mkdir(0o700)
        server = ControlServer(state, lambda _, reply: reply({"ok": True}, True))
        tmux = Tmux(socket_path(str(state), {}), environ={**os.environ}, timeout_s=60)
        tmux.open_windows([("a", ["/bin/sleep", "600"])], home=["/bin/sleep", "600"])
    finally:
        os.umask(before)
    try:
        yield state
        assert len(tmux.panes()) == 2, "the server lives on"
    finally:
        tmux.kill_server(wait_s=60)
        server.close()
        journal.close()
        owned.release()
        shutil.rmtree(state)


def tried_by_nobody(state: Path) -> list[list[str]]:
    command = [sys.executable, "-I", "-S", "-c", AS_NOBODY, str(state), socket_path(str(state), {})]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def test_the_folder_keeps_everybody_else_out(state: Path) -> None:
    assert tried_by_nobody(state) == []


def test_each_thing_in_it_keeps_them_out_should_somebody_open_the_folder(state: Path) -> None:
    """As a well-meant `chmod -R` of the home does; names and sizes can be seen then, and nothing else."""
    state.chmod(0o755)
    got = tried_by_nobody(state)
    assert [what for what, _ in got if not what.startswith(("list", "stat"))] == []
    assert {what for what, _ in got} == {
        "list",
        "stat journal.db",
        "stat daemon.lock",
        "stat order.json",
        "stat nights",
    }
