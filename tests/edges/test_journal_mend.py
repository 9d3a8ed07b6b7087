"""A journal file damaged in every way: it is never used silently, never deleted, and what can be had back is had back."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import stat
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.nights import NIGHT, Night

from ralphd.core.errors import JournalError
from ralphd.core.events import Entry
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal, JournalReader
from ralphd.edges.journal_backup import KEEP, back_up, backup_folder, backups
from ralphd.edges.journal_health import examine
from ralphd.edges.journal_mark import read_mark
from ralphd.edges.journal_mend import Mended, mend, revisions
from ralphd.edges.journal_salvage import _in_order, gapless, salvage

MIGRATIONS = str(Path(__file__).parents[2] / "migrations")
NOW = 1796100000.0
PARTS = ("", "-wal", "-shm")


@dataclass(frozen=True)
class Dead:
    """The files of a daemon that was killed: a journal partly in its WAL, with a backup of a while before."""

    folder: Path
    entries: list[Entry]
    in_backup: int

    def copy(self, to: Path) -> str:
        shutil.copytree(self.folder, to)
        return str(to / "journal.db")


@pytest.fixture(scope="module")
def dead(tmp_path_factory) -> Dead:
    live, left = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("left")
    path = str(live / "journal.db")
    journal, night = opened(path), Night()
    night.started()
    night.task()
    night.loop("fix-1")
    for number in range(1, 400):
        night.began("fix-1", number)
        night.ended("fix-1", number)
    stored = journal.append(night.entries[:600])
    checkpoint(path)
    back_up(path, NOW - 900, NIGHT)
    stored += journal.append(night.entries[600:700])
    checkpoint(path)
    stored += journal.append(night.entries[700:])
    shutil.copytree(live, left, dirs_exist_ok=True)  # as kill -9 leaves it: the WAL is there
    journal.close()
    return Dead(folder=left, entries=stored, in_backup=600)


def checkpoint(path: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def opened(path: str) -> Journal:
    return Journal.open(path, MIGRATIONS, Redactor())


def mended(path: str) -> Mended:
    return mend(path, revisions(MIGRATIONS), NOW)


def entries(path: str) -> list[Entry]:
    with contextlib.closing(JournalReader.open(path)) as reader:
        return list(reader.entries(NIGHT))


def set_aside(path: str) -> list[str]:
    return sorted(str(one) for one in Path(path).parent.glob("journal.db.corrupt-*"))


def flip(path: str, count: int, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(Path(path).read_bytes())
    for _ in range(count):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    Path(path).write_bytes(data)


def truncate(path: str, seed: int) -> None:
    os.truncate(path, random.Random(seed).randrange(1, os.stat(path).st_size))


def randomise(path: str, seed: int) -> None:
    Path(path).write_bytes(random.Random(seed).randbytes(50_000))


MORE = int(os.environ.get("RALPHD_TEST_DAMAGES", "1"))  # 6: more than five hundred of them
DAMAGES = {
    **{f"{n} bits of the database, {seed}": (lambda p, n=n, s=seed: flip(p, n, s)) for n in (1, 100, 10_000) for seed in range(12 * MORE)},
    **{f"{n} bits of the WAL, {seed}": (lambda p, n=n, s=seed: flip(p + "-wal", n, s)) for n in (1, 100, 10_000) for seed in range(6 * MORE)},
    **{f"database cut, {seed}": (lambda p, s=seed: truncate(p, s)) for seed in range(12 * MORE)},
    **{f"WAL cut, {seed}": (lambda p, s=seed: truncate(p + "-wal", s)) for seed in range(8 * MORE)},
    **{f"database random, {seed}": (lambda p, s=seed: randomise(p, s)) for seed in range(6 * MORE)},
    **{f"WAL random, {seed}": (lambda p, s=seed: randomise(p + "-wal", s)) for seed in range(4 * MORE)},
    **{f"both random, {seed}": (lambda p, s=seed: (randomise(p, s), randomise(p + "-wal", s))) for seed in range(4 * MORE)},
    **{f"shm random, {seed}": (lambda p, s=seed: randomise(p + "-shm", s)) for seed in range(2 * MORE)},
    "database empty": lambda p: os.truncate(p, 0),
    "WAL empty": lambda p: os.truncate(p + "-wal", 0),
    "both empty": lambda p: (os.truncate(p, 0), os.truncate(p + "-wal", 0)),
    "WAL deleted": lambda p: os.unlink(p + "-wal"),
    "WAL and shm deleted": lambda p: (os.unlink(p + "-wal"), os.unlink(p + "-shm")),
    "database deleted": os.unlink,
    "all deleted": lambda p: [os.unlink(p + part) for part in PARTS],
    "a page of zeros": lambda p: zero(p, 8192, 4096),
    "the header": lambda p: zero(p, 0, 100),
}  # fmt: skip


def zero(path: str, at: int, count: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes(count))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_journal_is_never_used_silently(dead, tmp_path, damage):
    path = dead.copy(tmp_path / "state")
    DAMAGES[damage](path)
    before = {part: Path(path + part).read_bytes() for part in ("", "-wal") if os.path.exists(path + part)}
    found = mended(path)
    journal = opened(path)
    rows = (
        salvage(found.loss.set_aside, found.loss.first_id, found.loss.last_id)
        if found.loss and found.loss.set_aside
        else []
    )
    saved = journal.refill(rows, found.beyond, NOW) if found.loss else 0
    with journal._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    kept = {entry.id: entry for entry in entries(path)}
    missing = [entry for entry in dead.entries if kept.get(entry.id) != entry]
    if found.loss is None:
        assert not missing, f"{len(missing)} entries are lost or changed, and nobody says so"
    else:
        assert found.loss.last_id == dead.entries[-1].id
        assert all(entry.id >= found.loss.first_id for entry in missing)
        assert len(missing) == replace(found.loss, saved=saved).count
        assert all(kept[id_] in dead.entries for id_ in kept)
        assert len(kept) >= dead.in_backup  # at most one backup's interval is gone
        if damage.startswith("1 bits of the database"):
            assert len(missing) <= 60, "what one flipped bit costs is a page at most"
        assert found.beyond > found.loss.last_id
        for part in before if found.loss.set_aside else ():
            assert Path(found.loss.set_aside + part).read_bytes() == before[part], "what was set aside is as it was"
    fresh = journal.append([Night().over()], beyond=found.beyond)
    assert fresh[0].id > dead.entries[-1].id
    journal.close()
    assert mended(path).loss is None, "it is mended once"


def test_a_sound_journal_is_left_as_it_is(dead, tmp_path):
    path = dead.copy(tmp_path / "state")
    assert mended(path).loss is None
    assert entries(path) == dead.entries
    assert set_aside(path) == []


def test_where_no_journal_ever_was_nothing_is_missed(tmp_path):
    path = str(tmp_path / "journal.db")
    assert mended(path).loss is None
    Path(path).touch()  # a start that was killed before it made the tables
    assert mended(path).loss is None
    opened(path).close()
    assert mended(path).loss is None


def test_a_row_whose_id_is_damaged_is_left_out():
    """No checksum holds an id; the rows lie in its order."""
    for ids, kept in (
        ([1, 2, 900, 4, 5], [1, 2, 4, 5]),
        ([1, 2, 0, 4, 5], [1, 4, 5]),
        ([900, 2, 3], [2, 3]),
        ([1], [1]),
        ([], []),
    ):
        assert [row[0] for row in _in_order([(id_,) for id_ in ids])] == kept


def test_records_behind_a_missing_one_are_left_to_their_own_file():
    rows = [{"night": "n", "loop": "a", "seq": seq} for seq in (3, 4, None, 6, 7, None)]
    rows.append({"night": "n", "loop": "b", "seq": 1})
    kept = [(row["loop"], row["seq"]) for row in gapless(rows, {("n", "a"): 2})]
    assert kept == [("a", 3), ("a", 4), ("a", None), ("a", None), ("b", 1)]


def test_the_newest_sound_backup_is_taken(dead, tmp_path):
    path = dead.copy(tmp_path / "state")
    (good,) = backups(backup_folder(path))
    newer = good.replace("journal-2", "journal-3")
    randomise(newer, 1)
    randomise(path, 2)
    Path(path + "-wal").unlink()
    found = mended(path)
    assert found.loss is not None
    assert found.loss.backup == good
    assert found.loss.first_id == dead.in_backup + 1
    assert os.path.exists(newer)


@pytest.mark.parametrize("steps", range(1, 8))
def test_mending_that_is_killed_at_any_step_is_done_by_the_next(dead, tmp_path, monkeypatch, steps):
    """The steps are renames: die instead of the n-th, twice, then go through."""
    path = dead.copy(tmp_path / "state")
    randomise(path, 1)
    randomise(path + "-wal", 1)
    rename = os.rename
    for _ in range(2):
        left = [steps]

        def dying(source, target, left=left):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            rename(source, target)

        monkeypatch.setattr(os, "rename", dying)
        with contextlib.suppress(KeyboardInterrupt):
            mended(path)
        monkeypatch.setattr(os, "rename", rename)
    found = mended(path)
    assert found.loss is not None
    assert found.loss.first_id == dead.in_backup + 1
    assert entries(path) == dead.entries[: dead.in_backup]
    aside = [Path(name).read_bytes() for name in set_aside(path)]
    assert random.Random(1).randbytes(50_000) in aside


def test_a_journal_of_a_newer_ralphd_is_left_alone_and_its_backup_is_not_taken(dead, tmp_path):
    path = dead.copy(tmp_path / "state")
    for one in (path, *backups(backup_folder(path))):
        with contextlib.closing(sqlite3.connect(one)) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '0999'")
            connection.commit()
    assert mended(path).loss is None
    with pytest.raises(JournalError, match=r"newer ralphd .*another state folder; copies from before"):
        opened(path)
    assert set_aside(path) == []
    randomise(path, 1)
    Path(path + "-wal").unlink(missing_ok=True)
    found = mended(path)
    assert found.loss is not None
    assert found.loss.backup == ""


def test_a_locked_journal_is_not_called_damaged(dead, tmp_path, monkeypatch):
    path = dead.copy(tmp_path / "state")
    thief = sqlite3.connect(path, isolation_level=None)
    thief.execute("PRAGMA locking_mode=EXCLUSIVE")
    thief.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr("ralphd.edges.journal_health.BUSY_S", 0.1)
    with pytest.raises(JournalError, match="locked"):
        mended(path)
    thief.execute("COMMIT")
    thief.close()
    assert set_aside(path) == []
    assert mended(path).loss is None


@pytest.mark.parametrize("make", [lambda path: os.symlink("/dev/null", path), os.mkfifo, os.mkdir])
def test_what_is_no_plain_file_is_refused_and_left(tmp_path, make):
    path = str(tmp_path / "journal.db")
    make(path)
    with pytest.raises(JournalError, match="not a plain file"):
        mended(path)
    assert os.listdir(tmp_path) == ["journal.db"]


def test_somebody_elses_database_is_set_aside_whole(tmp_path):
    path = str(tmp_path / "journal.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE customers (name TEXT); INSERT INTO customers VALUES ('Ada')")
    found = mended(path)
    assert found.loss is not None
    assert "not a journal of ralphd" in found.loss.why
    with contextlib.closing(sqlite3.connect(found.loss.set_aside)) as connection:
        assert connection.execute("SELECT name FROM customers").fetchall() == [("Ada",)]


def test_a_check_that_takes_too_long_is_cut_short_and_says_so(dead, tmp_path, monkeypatch):
    monkeypatch.setattr("ralphd.edges.journal_health._STEPS", 100)
    health = examine(dead.copy(tmp_path / "state"), patience_s=0.0)
    assert health.cut_short
    assert not health.bad


def test_a_mark_that_cannot_be_ours_is_not_believed(dead, tmp_path):
    path = dead.copy(tmp_path / "state")
    for text in ("nonsense", f"{1 << 60:020d} 1.0\n", "-5 1.0", ""):
        Path(f"{path}.mark").write_text(text)
        assert read_mark(path) is None
        assert mended(path).loss is None


# Backups


def test_of_two_backups_of_one_second_the_later_one_is_the_newer(tmp_path):
    path = str(tmp_path / "journal.db")
    journal, night = opened(path), Night()
    journal.append([night.began("fix-1", 1)])
    early = back_up(path, NOW)
    late = back_up(path, NOW + 0.5, NIGHT)
    os.utime(late, ns=(os.stat(early).st_atime_ns, os.stat(early).st_mtime_ns + 1_000_000))
    assert backups(backup_folder(path)) == [late, early]
    os.utime(late, ns=(os.stat(early).st_atime_ns, os.stat(early).st_mtime_ns - 1_000_000))
    assert backups(backup_folder(path)) == [early, late]


def test_a_backup_is_whole_private_and_made_while_the_journal_is_written(tmp_path):
    path = str(tmp_path / "journal.db")
    journal, night = opened(path), Night()
    before = os.umask(0)
    try:
        for number in range(1, 6):
            journal.append([night.began("fix-1", number)])
            copy = back_up(path, NOW + number, NIGHT)
    finally:
        os.umask(before)
    assert entries(copy) == entries(path)
    assert stat.S_IMODE(os.stat(copy).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(backup_folder(path)).st_mode) == 0o700
    journal.close()


def test_the_newest_backups_are_kept_and_one_of_each_night(tmp_path):
    path = str(tmp_path / "journal.db")
    opened(path).close()
    made = [back_up(path, NOW + 1000 * n, f"2026-11-{10 + n // 3:02d}-a") for n in range(18)]
    left = backups(backup_folder(path))
    assert left[:KEEP] == made[-1 : -KEEP - 1 : -1]
    assert left[KEEP:] == [made[11], made[8], made[5], made[2]]  # the last of each night before


def test_a_backup_that_does_not_fit_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    path = str(tmp_path / "journal.db")
    opened(path).close()
    monkeypatch.setattr("ralphd.edges.journal_backup.SPARE_BYTES", 1 << 60)
    with pytest.raises(JournalError, match="MiB left, too few"):
        back_up(path, NOW)
    assert os.listdir(backup_folder(path)) == []


def test_a_backup_of_a_damaged_journal_is_refused_and_keeps_the_good_ones(dead, tmp_path):
    path = dead.copy(tmp_path / "state")
    good = backups(backup_folder(path))
    randomise(path, 1)
    Path(path + "-wal").unlink()
    with pytest.raises(JournalError, match="can't back up"):
        back_up(path, NOW)
    assert backups(backup_folder(path)) == good


def test_what_a_killed_backup_left_is_cleared_away(dead, tmp_path):
    path = dead.copy(tmp_path / "state")
    draft = Path(backup_folder(path)) / ".journal-20261201T000000Z.db.draft"
    draft.touch()
    back_up(path, NOW)
    assert not draft.exists()
