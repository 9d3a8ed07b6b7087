"""The state folder is private, and exactly one daemon owns it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys

import pytest

from ralphd.core.errors import StateOwned, UsageError
from ralphd.edges.ownership import LOCK_NAME, filesystem_of, open_state, own, state_folder


def take(state):
    return own(str(state), version="1", started_at="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RALPHD_STATE": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/s"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/ralphd"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/ralphd"),
        ({"RALPHD_STATE": "", "HOME": "/h"}, "/h/.local/state/ralphd"),
    ],
)
def test_where_state_lies(environ, expected):
    assert state_folder(environ) == expected


def test_a_relative_state_folder_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert state_folder({"RALPHD_STATE": "-s"}) == str(tmp_path / "-s")


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_a_home_the_way_out_is_named(environ):
    with pytest.raises(UsageError, match=r"HOME is not set.*RALPHD_STATE"):
        state_folder(environ)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
def test_modes_are_exact_under_any_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        state = open_state(str(tmp_path / "odd 🐪\n'$(x)"))
        take(state).release()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(state).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(os.path.join(state, LOCK_NAME)).st_mode) == 0o600


def test_missing_folders_above_are_made(tmp_path):
    before = os.umask(0)
    try:
        assert open_state(str(tmp_path / "a/b/c")) == str(tmp_path / "a/b/c")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / part).stat().st_mode) for part in ("a", "a/b", "a/b/c")] == [0o700] * 3


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_can_write_is_refused(tmp_path, mode):
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(mode)
    with pytest.raises(UsageError, match=r"written by others.*chmod 700"):
        open_state(str(tmp_path / "s"))


def test_a_folder_of_somebody_else_is_refused(tmp_path, monkeypatch):
    (tmp_path / "s").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(UsageError, match="belongs to user"):
        open_state(str(tmp_path / "s"))


def test_a_network_disk_is_refused(tmp_path):
    with pytest.raises(UsageError, match="lies on nfs4"):
        open_state(str(tmp_path / "s"), filesystem=lambda _: "nfs4")


def test_a_file_or_an_impossible_place_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a folder"):
        open_state(str(tmp_path / "file"))
    with pytest.raises(UsageError, match="can't be made"):
        open_state(str(tmp_path / "file" / "below"))
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
    with pytest.raises(UsageError):
        open_state(str(tmp_path / "dangling"))


def test_the_filesystem_is_told_by_the_mount_table(tmp_path):
    device = os.stat(tmp_path).st_dev
    table = tmp_path / "mountinfo"
    numbers = f"{os.major(device)}:{os.minor(device)}"
    table.write_text(f"1 0 9999:1 / / rw - ext4 /dev/x rw\n2 1 {numbers} / /a\\040b rw master:1 - nfs4 server:/x rw\n")
    assert filesystem_of(str(tmp_path), str(table)) == "nfs4"
    assert filesystem_of(str(tmp_path), str(tmp_path / "none")) == ""
    assert filesystem_of("/proc") == "proc"


def test_a_second_owner_is_told_who_the_first_is(tmp_path):
    first = take(tmp_path)
    with pytest.raises(StateOwned, match=rf"pid {os.getpid()}, since 2026.*owns") as refused:
        take(tmp_path)
    assert refused.value.exit_code == 75
    first.release()
    take(tmp_path).release()


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"[]", b'{"pid": 1}', b'{"pid":"x","started_at":1}', b"\xff" * 9999, b"9" * 9999]
)
def test_stale_or_broken_content_never_stands_in_the_way(tmp_path, content):
    """Also the pid of a live stranger (1) is only words."""
    (tmp_path / LOCK_NAME).write_bytes(content)
    owned = take(tmp_path)
    assert json.loads((tmp_path / LOCK_NAME).read_text())["pid"] == os.getpid()
    (tmp_path / LOCK_NAME).write_bytes(content)
    with pytest.raises(StateOwned, match="another ralphd owns"):
        take(tmp_path)
    owned.release()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_a_lock_that_is_not_a_plain_file_is_refused_without_waiting(tmp_path, kind):
    path = tmp_path / LOCK_NAME
    victim = tmp_path / "victim"
    victim.write_text("precious")
    {"link": lambda: os.symlink(victim, path), "fifo": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]()
    with pytest.raises(UsageError, match=r"daemon\.lock"):
        take(tmp_path)
    assert victim.read_text() == "precious"


# Each line it reads is a try; a winner holds the state until the next line.
OWN = """
import sys
from ralphd.core.errors import StateOwned
from ralphd.edges.ownership import own
for line in sys.stdin:
    try:
        owned = own(sys.argv[1], version="1", started_at="now")
    except StateOwned as error:
        print(error.exit_code, flush=True)
        continue
    print("won", flush=True)
    if not sys.stdin.readline():
        break
    owned.release()
    print("left", flush=True)
"""


def daemons(state, count):
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", OWN, str(state)]
    return [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) for _ in range(count)]


def tell(process, text):
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def test_of_twenty_simultaneous_starts_exactly_one_wins_each_time(tmp_path):
    started = daemons(tmp_path, 20)
    try:
        for _ in range(50):
            for process in started:
                tell(process, "go")
            said = [process.stdout.readline() for process in started]
            assert sorted(said) == ["75\n"] * 19 + ["won\n"]
            winner = started[said.index("won\n")]
            assert json.loads((tmp_path / LOCK_NAME).read_text())["pid"] == winner.pid
            tell(winner, "leave")
            assert winner.stdout.readline() == "left\n"
    finally:
        for process in started:
            process.communicate()


def test_a_killed_owner_leaves_the_state_free(tmp_path):
    (owner,) = daemons(tmp_path, 1)
    owner.stdin.write("go\n")
    owner.stdin.flush()
    owner.stdout.readline()
    with pytest.raises(StateOwned, match=f"pid {owner.pid}"):
        take(tmp_path)
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    take(tmp_path).release()


def test_what_the_owner_starts_does_not_hold_the_state(tmp_path):
    owned = take(tmp_path)
    os.set_inheritable(owned.descriptor, True)  # the worst case: as between a fork and its exec, but for good
    child = subprocess.Popen(["/bin/sleep", "600"], close_fds=False)
    try:
        owned.release()
        again = take(tmp_path)
        assert again.state == owned.state
        again.release()
    finally:
        child.kill()
        child.wait()
