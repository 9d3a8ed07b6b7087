"""A night whose disk fills up, whose inodes run out, whose journal is held: it says so, answers, and loses nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cast import cast
from support.counting import TOML, counting_repository, journaled, told_by_runners, wait_for_all_of
from support.mounts import fill, take_inodes, tmpfs
from support.nightbox import NightBox, night_box

from ralphd.core import events, records
from ralphd.core.outcomes import Kind

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
LOCKED_S = float(os.environ.get("RALPHD_TEST_LOCKED_S", "0"))
WORKTREES = """\
[night]
width = 2
[agent]
cli = "command"
program = "PROGRAM"
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    """Its state lies on a disk of its own."""
    with contextlib.ExitStack() as stack:
        box = stack.enter_context(night_box(tmp_path, counting_repository(tmp_path / "repo")))
        stack.enter_context(tmpfs(box.state, size="50m", inodes=4000))
        box.configure(TOML)
        yield box
        box.stop("--now")  # while its disk is there
        box.assert_nothing_left()


def trouble(box: NightBox) -> str:
    return " | ".join(box.status()["daemon"]["trouble"])


def noted(box: NightBox, kind: Kind) -> list[str]:
    bodies = [entry.body for entry in box.journal(events.OutcomeNoted)]
    return [body.outcome.evidence[0].what for body in bodies if body.outcome.kind is kind]


def after(box: NightBox, spoil: Callable[[], Path], words: str, mend: Callable[[Path], object], kind: Kind) -> None:
    """Spoil a running night's disk, see it said, mend it, and see that nothing is missing and the night goes on."""
    box.start()
    box.wait_for(records.TrajectoryEnded, 2)
    night, daemon, runners = box.nights()[-1], box.daemon_pid(), box.runners()
    spoilt, began = spoil(), time.monotonic()
    box.wait_until(lambda: words in trouble(box), "the trouble is told by a daemon that answers")
    told_s, log = time.monotonic() - began, (box.state / "daemon.log").read_text()
    mend(spoilt)
    began = time.monotonic()
    box.wait_until(lambda: noted(box, kind), "what it was is recorded once it is over")
    box.wait_until(lambda: words not in trouble(box), "the trouble is gone")
    told = told_by_runners(box, night)
    wait_for_all_of(box, night, told)
    print(f"{kind.value} told after {told_s:.1f} s, over {time.monotonic() - began:.1f} s after there was room")
    for loop, lines in journaled(box, night).items():
        assert sorted(lines) == list(range(1, len(lines) + 1)), f"a record of {loop} is missing"
    assert (box.daemon_pid(), box.runners()) == (daemon, runners)
    ended = len(box.journal(records.TrajectoryEnded))
    box.wait_for(records.TrajectoryEnded, ended + 2)
    assert "Traceback" not in log
    with contextlib.closing(sqlite3.connect(box.state / "journal.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_full_disk(box: NightBox) -> None:
    after(box, lambda: fill(box.state), "is full", os.unlink, Kind.DISK_FULL)
    assert not noted(box, Kind.INODES)


def test_no_inodes_left(box: NightBox) -> None:
    after(box, lambda: take_inodes(box.state), "has no inodes left", shutil.rmtree, Kind.INODES)
    assert not noted(box, Kind.DISK_FULL)


def test_a_journal_that_another_process_holds(box: NightBox) -> None:
    """RALPHD_TEST_LOCKED_S asks for so many seconds of it; else it lasts until the trouble was told."""
    box.start()
    box.wait_for(records.TrajectoryEnded, 2)
    night, daemon = box.nights()[-1], box.daemon_pid()
    thief = sqlite3.connect(box.state / "journal.db", isolation_level=None)
    thief.execute("BEGIN EXCLUSIVE")
    until = time.monotonic() + LOCKED_S
    before = len(told_by_runners(box, night)["loop-1"])
    box.wait_until(lambda: "locked: another process holds it" in trouble(box), "status answers from memory and says so")
    box.wait_until(lambda: len(told_by_runners(box, night)["loop-1"]) > before + 3, "the loops go on meanwhile")
    while time.monotonic() < until:
        assert "locked" in trouble(box)
        assert {row["state"] for row in box.loops().values()} == {"running"}
    told = told_by_runners(box, night)
    thief.execute("COMMIT")
    thief.close()
    wait_for_all_of(box, night, told)
    box.wait_until(lambda: noted(box, Kind.JOURNAL_ERROR), "it is recorded")
    assert (box.daemon_pid(), box.nights()) == (daemon, [night])


FILLS = """
cat >/dev/null
if [ ! -e "$HOME/room" ]; then
    until ! dd if=/dev/zero of="fill-$(date +%s%N)" bs=1M count=8 2>/dev/null; do :; done
    touch "$HOME/full"
fi
echo "$RALPHD_TRAJECTORY" >n && commit "Count to $RALPHD_TRAJECTORY"
sleep 0.3
"""


def test_a_full_disk_of_the_worktrees_alone(tmp_path: Path) -> None:
    """It is told, loops stop making it worse, the state folder stays sound, and all goes on once there is room."""
    with contextlib.ExitStack() as stack:
        box = stack.enter_context(cast(tmp_path, {"loop-1": FILLS, "loop-2": "cat >/dev/null; alive"}, WORKTREES, {}))
        box.state.mkdir(mode=0o700)
        stack.enter_context(tmpfs(box.state / "worktrees", size="50m"))
        box.start("--for", "1h")
        daemon = box.daemon_pid()
        box.wait_until((box.home / "full").exists, "an agent has filled the disk")
        box.wait_until(lambda: "paused" in {row["state"] for row in box.rows().values()}, "the night is narrower")
        assert box.daemon_pid() == daemon
        halves = [path for path in (box.state / "nights").rglob("*") if path.name.endswith((".draft", ".new"))]
        assert halves == []
        assert "Traceback" not in box.log()
        (box.home / "room").touch()
        for path in box.worktree("loop-1").glob("fill-*"):
            path.unlink()
        box.wait_until(lambda: noted(box, Kind.DISK_LOW), "what it was is recorded once it is over")
        assert f"{box.state}/worktrees has" in noted(box, Kind.DISK_LOW)[0]
        box.ralphd("scale", "2")  # ralphd itself would wait ten minutes before it trusts the disk again
        box.wait_until(lambda: {row["state"] for row in box.rows().values()} == {"running"}, "all run again")
        known = len(box.journal(records.TrajectoryEnded, "loop-1"))
        box.wait_for(records.TrajectoryEnded, known + 2, "loop-1")
        assert box.outcomes("loop-1")[-1] == "done.next"
        box.stop("--now")
        box.assert_nothing_left()
