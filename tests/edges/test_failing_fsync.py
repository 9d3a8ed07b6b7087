"""A disk that fails when it is asked to keep what was written: each small file stays what it was, and the next try counts.

The error comes from `os.fsync` itself: a disk that fails is simulated. The runner's own records are tested with it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.nights import NIGHT, Night

from ralphd.cli import memory, reports
from ralphd.cli.place import Place
from ralphd.cli.settings import Settings
from ralphd.core.config import Config
from ralphd.core.errors import JournalError
from ralphd.core.events import NightEnded
from ralphd.core.exchange import Assignment, Order, Want
from ralphd.core.redact import Redactor
from ralphd.core.waiting import Waiting
from ralphd.edges import nightfile
from ralphd.edges.journal import Journal
from ralphd.edges.journal_backup import back_up
from ralphd.edges.loopfolder import LoopFolders
from ralphd.edges.processes import boot_id

MIGRATIONS = str(Path(__file__).parents[2] / "migrations")
Write = Callable[[int], object]


def order(state: Path) -> tuple[Path, Write]:
    folders, folder = LoopFolders(boot_id()), state / "loop"
    (folder / "calls").mkdir(parents=True)
    return folder / "order.json", lambda n: folders.order(str(folder), Order(serial=n, want=Want.PAUSED, why=str(n)))


def assignment(state: Path) -> tuple[Path, Write]:
    folders, folder = LoopFolders(boot_id()), state / "loop"
    told = Assignment(
        night=NIGHT, loop="l1", generation=1, task="main", cli="command", program="/bin/true", folder=str(folder),
        worktree="/w", night_repository="/n", branch="b", base="0" * 40, prompt="/p", preamble=str(folder / "preamble"),
        nonce="n", env={},
    )  # fmt: skip
    return folder / "preamble", lambda n: folders.assign(told, str(n))


def note(state: Path) -> tuple[Path, Write]:
    folders, folder = LoopFolders(boot_id()), state / "loop"
    (folder / "notes").mkdir(parents=True)
    return folder / "notes" / "note", lambda n: folders.note(str(folder), "note", str(n))


def night_file(state: Path) -> tuple[Path, Write]:
    folder = state / NIGHT
    folder.mkdir()

    def write(n: int) -> None:
        night = Night()
        night.started()
        night.loop(f"fix-{n}")
        nightfile.write(str(folder), night.entries, Redactor())

    return folder / nightfile.NAME, write


def schedule(state: Path) -> tuple[Path, Write]:
    place = Place(state=str(state))

    def write(n: int) -> None:
        waiting = Waiting(looked_at=datetime.fromtimestamp(n, UTC))
        memory.keep(place, memory.Memory(settings=Settings(folder=str(state), path=""), waiting=waiting))

    return Path(place.schedule), write


def report(state: Path) -> tuple[Path, Write]:
    place, night = Place(state=str(state)), Night()
    journal = Journal.open(str(state / "journal.db"), MIGRATIONS, Redactor())
    journal.append([night.started(), night.task(), night.loop("fix-1"), night.over()])
    Path(place.night(NIGHT)).mkdir(parents=True)
    known = len(night.entries)

    def write(n: int) -> None:
        night.began("fix-1", n)
        journal.append(night.entries[known:])
        reports.write_report(place, Config(), NIGHT)

    return Path(place.night(NIGHT), "report.json"), write


def fails(fd: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


WRITERS = (order, assignment, note, night_file, schedule, report)


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
def test_what_could_not_be_kept_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Callable[[Path], tuple[Path, Write]]
) -> None:
    path, write = writer(tmp_path)
    write(1)
    before = path.read_bytes()

    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", fails)
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                write(2)
            assert path.read_bytes() == before
    write(3)
    assert path.read_bytes() != before
    assert [found for found in path.parent.iterdir() if "draft" in found.name or found.name.startswith(".")] == []


def test_a_night_s_end_that_could_not_be_kept_leaves_the_night_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = night_file(tmp_path)
    write(1)
    end = Night().over()
    assert isinstance(end.body, NightEnded)
    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="Input/output error"):
            nightfile.close(str(path.parent), end, Redactor())
    found = nightfile.read(str(path.parent))
    assert found is not None
    assert found.ended is None
    nightfile.close(str(path.parent), end, Redactor())
    assert (found := nightfile.read(str(path.parent))) is not None
    assert found.ended is not None


def test_a_backup_that_could_not_be_kept_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.open(str(tmp_path / "journal.db"), MIGRATIONS, Redactor())
    journal.append([Night().started()])
    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", fails)
        with pytest.raises(JournalError, match="can't back up"):
            back_up(str(tmp_path / "journal.db"), 1796100000.0)
    assert not list(tmp_path.glob("backups/journal-*"))
    assert os.path.exists(back_up(str(tmp_path / "journal.db"), 1796100000.0))
    journal.close()
