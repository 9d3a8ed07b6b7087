"""A night whose disk fills up, whose inodes run out, whose journal is held: it says so, answers, and loses nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.counting import TOML, counting_repository, journaled, told_by_runners, wait_for_all_of
from support.mounts import fill, take_inodes, tmpfs
from support.nightbox import NightBox, night_box

from ralphd.core import events, records
from ralphd.core.outcomes import Kind

pytestmark = pytest.mark.slow


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
    spoilt = spoil()
    box.wait_until(lambda: words in trouble(box), "the trouble is told by a daemon that answers")
    log = (box.state / "daemon.log").read_text()
    mend(spoilt)
    box.wait_until(lambda: noted(box, kind), "what it was is recorded once it is over")
    box.wait_until(lambda: words not in trouble(box), "the trouble is gone")
    told = told_by_runners(box, night)
    wait_for_all_of(box, night, told)
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
    box.start()
    box.wait_for(records.TrajectoryEnded, 2)
    night = box.nights()[-1]
    thief = sqlite3.connect(box.state / "journal.db", isolation_level=None)
    thief.execute("BEGIN EXCLUSIVE")
    before = len(told_by_runners(box, night)["loop-1"])
    box.wait_until(lambda: "locked: another process holds it" in trouble(box), "status answers from memory and says so")
    box.wait_until(lambda: len(told_by_runners(box, night)["loop-1"]) > before + 3, "the loops go on meanwhile")
    told = told_by_runners(box, night)
    thief.execute("COMMIT")
    thief.close()
    wait_for_all_of(box, night, told)
    box.wait_until(lambda: noted(box, Kind.JOURNAL_ERROR), "it is recorded")
