"""What lives on after a stop, and who else is hurt by it?"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cast import play, stranger
from support.loop_of_calls import lives
from support.nightbox import NightBox, night_box, until
from support.repositories import commit, git, repository

from ralphd.core import records

TOML = """\
[night]
width = 2
[agent]
cli = "command"
program = "PROGRAM"
[[task]]
name = "main"
"""
# Deaf to every signal that can be ignored; its children are in sessions of their own, under other names, without a mark
# in their environment, some of them with nobody left who started them.
STUBBORN = """
trap '' TERM INT HUP QUIT
cat >/dev/null
mine=$HOME/hidden-$RALPHD_LOOP
(env -i setsid bash -c 'trap "" TERM INT HUP; echo $$ >'"$mine"'-1; exec -a claude sleep 99999' </dev/null >/dev/null 2>&1 &)
(env -i setsid bash -c '(trap "" TERM; echo $BASHPID >'"$mine"'-2; exec -a "[kworker/0:1]" sleep 99999) &' </dev/null >/dev/null 2>&1 &)
env -i setsid bash -c 'nohup bash -c "echo \\$\\$ >'"$mine"'-3; exec -a ralphd sleep 99999" &' </dev/null >/dev/null 2>&1
echo $$ >"$mine-0"
while :; do echo .; sleep 0.5; done
"""
pytestmark = pytest.mark.slow


def hidden(box: NightBox) -> list[int]:
    paths = [box.home / f"hidden-loop-{loop}-{n}" for loop in (1, 2) for n in range(4)]
    texts = [path.read_text().strip() for path in paths if path.exists()]
    return [int(text) for text in texts if text]


def prepared(root: Path) -> Path:
    repo = repository(root / "repo")
    (repo / "PROMPT.md").write_text("Go on.\n")
    commit(repo, "Ask")
    program = play(root / "cast", {"loop-1": STUBBORN, "loop-2": STUBBORN})
    (repo / "ralphd.toml").write_text(TOML.replace("PROGRAM", str(program)))
    return repo


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    with night_box(tmp_path, prepared(tmp_path)) as box:
        yield box


def running(box: NightBox) -> list[int]:
    """Start a night and return its agents and what they hid, once all of it runs."""
    box.start("--for", "1h")
    box.wait_until(lambda: len(hidden(box)) == 8, "two agents have hidden three processes each")
    pids = hidden(box)
    assert all(map(lives, pids))
    return pids


def test_each_of_two_nights_ends_its_own_and_nobody_else(box: NightBox, tmp_path: Path) -> None:
    """From one repository, by two homes, under the same names; beside them strangers who bear those names, too."""
    (tmp_path / "second").mkdir()
    people = [
        stranger("bash", "-c", f"exec -a {name} sleep 99999", RALPHD_NIGHT="x", RALPHD_LOOP="loop-1")
        for name in ("claude", "ralphd", "opencode")
    ]
    try:
        with night_box(tmp_path / "second", box.repo) as second:
            first_pids, second_pids = running(box), running(second)
            assert box.nights() == second.nights()
            assert not set(first_pids) & set(second_pids)
            box.stop("--now")
            box.assert_nothing_left()
            assert [pid for pid in first_pids if lives(pid)] == []
            assert all(map(lives, second_pids))
            assert {row["state"] for row in second.loops().values()} == {"running"}
            second.stop()
            second.assert_nothing_left()
            assert [pid for pid in second_pids if lives(pid)] == []
        assert [person.poll() for person in people] == [None] * 3
    finally:
        for person in people:
            person.kill()
            person.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_an_interrupted_stop_began_is_carried_through(box: NightBox, number: int) -> None:
    """Whoever stops and then loses patience has stopped the night all the same."""
    pids = running(box)
    import sys

    stopping = subprocess.Popen(
        [sys.executable, "-P", "-m", "ralphd", "stop"], cwd=box.repo, env=box.env, stderr=subprocess.PIPE
    )
    assert stopping.stderr is not None
    stopping.stderr.readline()  # "ending 2 running loops": the daemon has heard it
    stopping.send_signal(number)
    stopping.communicate()
    box.assert_nothing_left()
    assert [pid for pid in pids if lives(pid)] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_stop_on_a_full_disk_ends_everything(box: NightBox) -> None:
    """The state lies on a disk of its own that is full to the last byte: nothing can be written, all can be ended."""
    box.state.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m,mode=0700", "tmpfs", str(box.state)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted: {mounted.stderr.decode()}")
    try:
        pids = running(box)
        with (box.state / "filler").open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
        assert shutil.disk_usage(box.state).free == 0
        stopping = subprocess.Popen(
            [sys.executable, "-P", "-m", "ralphd", "stop", "--now"],
            cwd=box.repo,
            env=box.env,
            stderr=subprocess.DEVNULL,
        )
        box.wait_until(lambda: not any(map(lives, pids)), "no agent and nothing of theirs lives", 180)
        (box.state / "filler").unlink()  # only now can the end be written down, and the daemon goes
        stopping.wait(120)
        box.assert_nothing_left()
        assert box.report()["loops"]
    finally:
        box.clean_up()
        subprocess.run(["umount", "-l", str(box.state)], check=False)


def test_a_person_at_work_in_a_worktree_is_neither_driven_nor_ended(box: NightBox) -> None:
    """Seen: a hook that was left in the folder drove every session that anybody opened there.

    ralphd lays nothing into a worktree that could, and knows its own processes by what they are, not by where.
    """
    box.start("--for", "1h")
    box.wait_until(lambda: len(hidden(box)) == 8, "the agents are at work")
    at, names = box.worktree("loop-1"), set(os.listdir(box.repo)) - {"ralphd.toml", ".env"}
    person = stranger("bash", "-c", 'cd "$AT" && exec -a claude sleep 99999', AT=str(at), RALPHD_LOOP="loop-1")
    try:
        until(lambda: os.readlink(f"/proc/{person.pid}/cwd") == str(at), "they are in the worktree")
        assert set(os.listdir(at)) == names
        assert git(at, "config", "--get-regexp", "hook|fsmonitor", check=False) == ""
        (admin,) = (box.state / "nights").glob("*/repositories/*/repo.git/hooks")
        assert os.listdir(admin) == []
        box.ralphd("restart", "--clean", "loop-1")
        box.wait_for(records.Prepared, 2, loop="loop-1")
        box.stop("--now")
        box.assert_nothing_left()
        assert person.poll() is None
    finally:
        person.kill()
        person.wait()
