"""A journal on its way from one schema to the next: killed at each step it is whole, and there is no way back."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support.nights import NIGHT, Night
from support.pods import STEPS, add_pods

from ralphd.core.errors import JournalError
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal, JournalReader
from ralphd.edges.journal_backup import backup_folder, backups

MIGRATIONS = Path(__file__).parents[2] / "migrations"
OPEN = """
import sys
from ralphd.core.redact import Redactor
from ralphd.edges import journal
journal.REVISION = "0900"
journal.Journal.open(sys.argv[1], sys.argv[2], Redactor()).close()
"""


@pytest.fixture
def newer(tmp_path: Path) -> str:
    """The migrations of the next ralphd."""
    folder = tmp_path / "newer"
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    add_pods(folder)
    return str(folder)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A journal of today, with a night in it."""
    path = str(tmp_path / "journal.db")
    journal, night = Journal.open(path, str(MIGRATIONS), Redactor()), Night()
    night.started()
    for number in range(1, 50):
        night.began("fix-1", number)
    journal.append(night.entries)
    journal.close()
    return path


def open_elsewhere(path: str, migrations: str, die_at: int = 0) -> int:
    env = {**os.environ, "DIE_AT": str(die_at)}
    return subprocess.run([sys.executable, "-c", OPEN, path, migrations], env=env, check=False).returncode


def ask(path: str, question: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_migration_that_is_killed_twice_at_a_step_is_done_by_the_next_start(path, newer, step):
    before = ask(path, "SELECT id, body FROM entry")
    for _ in range(2):
        assert open_elsewhere(path, newer, die_at=step) == -signal.SIGKILL
    assert open_elsewhere(path, newer) == 0
    assert ask(path, "SELECT version_num FROM alembic_version") == [("0900",)]
    assert ask(path, "SELECT id, body FROM entry") == before
    assert ask(path, "SELECT count(*) FROM entry WHERE pod IS NOT loop") == [(0,)]
    assert ask(path, "SELECT name FROM pod ORDER BY name") == [("",), ("fix-1",)]
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_migration_leaves_a_copy_of_what_was_before(path, newer):
    before = ask(path, "SELECT id, body FROM entry")
    assert open_elsewhere(path, newer) == 0
    (copy,) = backups(backup_folder(path))
    assert ask(copy, "SELECT id, body FROM entry") == before
    assert ask(copy, "SELECT version_num FROM alembic_version") != [("0900",)]


def test_a_new_journal_is_made_without_a_copy_of_nothing(tmp_path):
    Journal.open(str(tmp_path / "journal.db"), str(MIGRATIONS), Redactor()).close()
    assert not (tmp_path / "backups").exists()


def test_a_migration_waits_where_no_copy_can_be_made_first(path, newer, monkeypatch):
    monkeypatch.setattr("ralphd.edges.journal.REVISION", "0900")
    Path(backup_folder(path)).touch()  # a file where the folder would be
    with pytest.raises(JournalError, match="can't back up"):
        Journal.open(path, newer, Redactor())
    assert ask(path, "SELECT name FROM sqlite_master WHERE name = 'pod'") == []


def test_the_way_back_is_refused_with_the_way_out(path, newer):
    assert open_elsewhere(path, newer) == 0
    with pytest.raises(JournalError, match=r"written by a newer ralphd .*'0900'.* use that version, or another state"):
        Journal.open(path, str(MIGRATIONS), Redactor())
    assert ask(path, "SELECT version_num FROM alembic_version") == [("0900",)]
    (copy,) = backups(backup_folder(path))
    with pytest.raises(JournalError, match=backup_folder(path)):  # where the copies of before are
        Journal.open(path, str(MIGRATIONS), Redactor())
    shutil.copy(copy, path)
    Path(path + "-wal").unlink(missing_ok=True)
    Journal.open(path, str(MIGRATIONS), Redactor()).close()


def test_a_journal_from_before_checksums_goes_on_and_what_is_new_has_them(tmp_path):
    path, folder = str(tmp_path / "journal.db"), tmp_path / "first"
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__", "0002*"))
    Journal.open(path, str(folder), Redactor()).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO entry (at, night, loop, generation, trajectory, nonce, type, body) "
            "VALUES (1.0, ?, '', 0, 0, '', 'NightEnded', '{\"why\": \"time\"}')",
            (NIGHT,),
        )
        connection.commit()
    with contextlib.closing(JournalReader.open(path)) as reader:  # a report may be asked for before the next start
        assert len(list(reader.entries(NIGHT))) == 1
    journal = Journal.open(path, str(MIGRATIONS), Redactor())
    journal.append([Night().over()])
    journal.close()
    assert [has for (has,) in ask(path, "SELECT checksum IS NOT NULL FROM entry ORDER BY id")] == [0, 1]
    with contextlib.closing(JournalReader.open(path)) as reader:
        assert len(list(reader.entries(NIGHT))) == 2
        assert not reader.unreadable
