"""The journal on a disk that fills up, fails or is held: said by its right name, and nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mounts import fill, take_inodes, tmpfs
from support.nights import NIGHT, Night

from ralphd.cli.daemonlog import DaemonLog
from ralphd.core.errors import JournalError
from ralphd.core.events import Entry
from ralphd.core.outcomes import Kind
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal, JournalReader
from ralphd.edges.journal_backup import back_up, backup_folder
from ralphd.edges.journal_writer import RETRY_MAX_S, JournalWriter
from ralphd.edges.space import BALLAST_BYTES, Ballast, room

MIGRATIONS = str(Path(__file__).parents[2] / "migrations")
DEADLINE_S = 60.0


def opened(path: str) -> Journal:
    return Journal.open(path, MIGRATIONS, Redactor())


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "disk", size="4m", inodes=200) as at:
        yield at


class Counted:
    """A journal that counts how often it is tried."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.tries = journal, 0

    def append(self, entries: list[Entry]) -> list[Entry]:
        self.tries += 1
        return self.journal.append(entries)

    def close(self) -> None:
        self.journal.close()


def until(condition, what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def many(night: Night, count: int) -> list[Entry]:
    first = len(night.entries)
    for number in range(first + 1, first + count + 1):
        night.began("fix-1", number)
    return night.entries[first:]


def bodies(path: str) -> list[object]:
    with contextlib.closing(JournalReader.open(path)) as reader:
        return [(entry.seq, entry.body) for entry in reader.entries(NIGHT)]


def test_a_full_disk_is_named_nothing_is_lost_and_the_disk_is_not_hammered(disk):
    path, night = str(disk / "journal.db"), Night()
    journal = Counted(opened(path))
    writer = JournalWriter(journal)  # type: ignore[arg-type]
    writer.submit(many(night, 10))
    assert writer.flush(DEADLINE_S)
    filler = fill(disk)
    started, journal.tries = time.monotonic(), 0
    for _ in range(50):
        writer.submit(many(night, 50))
    until(lambda: writer.trouble, "the trouble is told")
    assert writer.trouble_kind is Kind.DISK_FULL
    assert "the disk under" in writer.trouble
    assert not writer.flush(2.0)
    # each pause is twice the last: 0.1, 0.2 … so t seconds hold no more tries than that, however slow the machine
    lasted = time.monotonic() - started
    assert journal.tries <= 7 + lasted / RETRY_MAX_S
    assert len(bodies(path)) == 10, "a reader reads on"
    filler.unlink()
    assert writer.flush(DEADLINE_S)
    assert writer.trouble == ""
    assert writer.close(DEADLINE_S)
    assert bodies(path) == [(entry.seq, entry.body) for entry in night.entries]


def test_no_inodes_is_not_called_a_full_disk(disk):
    path = str(disk / "journal.db")
    opened(path).close()
    many_files = take_inodes(disk)
    found = room(str(disk))
    assert found is not None
    assert found[0] is Kind.INODES
    assert "df -i" in found[1]
    with pytest.raises(JournalError, match="has no inodes left") as caught:
        opened(path)  # there is no -wal now, and none can be made
    assert caught.value.kind == Kind.INODES.value
    shutil.rmtree(many_files)
    assert room(str(disk)) is None
    opened(path).close()


def test_a_journal_that_cannot_even_be_made_says_which_of_the_two_ran_out(disk):
    many_files = take_inodes(disk)
    with pytest.raises(JournalError, match="has no inodes left"):
        opened(str(disk / "journal.db"))
    shutil.rmtree(many_files)
    filler = fill(disk)
    with pytest.raises(JournalError, match="is full"):
        opened(str(disk / "journal.db"))
    filler.unlink()
    opened(str(disk / "journal.db")).close()


def test_what_is_kept_for_need_lets_a_full_disk_take_the_last_decisions(disk):
    path, night = str(disk / "journal.db"), Night()
    ballast = Ballast(str(disk))
    opened(path).close()
    assert ballast.look() is None
    taken = os.stat(ballast.path)
    assert taken.st_blocks * 512 == BALLAST_BYTES == taken.st_size
    writer = JournalWriter(opened(path), ballast.drop)
    filler = fill(disk)
    writer.submit(many(night, 50))
    assert writer.flush(DEADLINE_S)
    assert not writer.trouble
    assert not os.path.exists(ballast.path)
    assert ballast.look() is not None
    assert not os.path.exists(ballast.path)
    filler.unlink()
    assert ballast.look() is None
    assert os.path.exists(ballast.path)
    assert writer.close(DEADLINE_S)


def test_an_input_output_error_is_named_and_nothing_is_lost(tmp_path):
    """A file size limit makes the kernel refuse writes with an error that is not lack of space."""
    path, night = str(tmp_path / "journal.db"), Night()
    writer = JournalWriter(opened(path))
    writer.submit(many(night, 10))
    assert writer.flush(DEADLINE_S)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(path + "-wal").st_size, hard))
    try:
        writer.submit(many(night, 300))
        until(lambda: writer.trouble, "the trouble is told")
        assert writer.trouble_kind is Kind.IO_ERROR
        assert "dmesg" in writer.trouble
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert writer.flush(DEADLINE_S)
    assert writer.close(DEADLINE_S)
    assert bodies(path) == [(entry.seq, entry.body) for entry in night.entries]


def test_a_read_only_disk_is_named(tmp_path):
    import subprocess

    with tmpfs(tmp_path / "disk") as disk:
        path = str(disk / "journal.db")
        opened(path).close()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(JournalError, match=r"[Rr]ead-only"):
            opened(path)
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        opened(path).close()


def test_a_lock_of_another_process_is_named_with_who_to_ask(tmp_path, monkeypatch):
    monkeypatch.setattr("ralphd.edges.journal_db.BUSY_MS", 100)
    monkeypatch.setattr("ralphd.edges.journal_db._CONNECT", {"timeout": 0.1, "check_same_thread": False, "isolation_level": None})  # fmt: skip
    path, night = str(tmp_path / "journal.db"), Night()
    writer = JournalWriter(opened(path))
    thief = sqlite3.connect(path, isolation_level=None)
    thief.execute("BEGIN EXCLUSIVE")
    writer.submit(many(night, 10))
    until(lambda: writer.trouble, "the trouble is told")
    assert writer.trouble_kind is Kind.JOURNAL_ERROR
    assert "locked: another process holds it" in writer.trouble
    thief.execute("COMMIT")
    thief.close()
    assert writer.flush(DEADLINE_S)
    assert writer.close(DEADLINE_S)
    assert bodies(path) == [(entry.seq, entry.body) for entry in night.entries]


def test_a_backup_on_a_full_disk_fails_alone_and_leaves_no_half_file(disk):
    path, night = str(disk / "journal.db"), Night()
    journal = opened(path)
    journal.append(many(night, 50))
    fill(disk)
    with pytest.raises(JournalError, match=r"MiB left|No space"):
        back_up(path, 1796100000.0)
    assert not [name for name in os.listdir(disk) if name == "backups" and os.listdir(backup_folder(path))]
    journal.close()


def test_a_log_on_a_full_disk_stops_nobody(disk):
    log = DaemonLog(str(disk / "daemon.log"), Redactor())
    log.info("before")
    filler = fill(disk)
    for _ in range(200):
        log.info("while it is full", padding="x" * 100)
    filler.unlink()
    log.info("after")
    text = (disk / "daemon.log").read_text()
    assert "event='before'" in text
    assert "event='after'" in text
