from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.nights import NIGHT, START, Night, a_good_night

from ralphd.core import events, records
from ralphd.core.errors import JournalError, NothingRunning
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal, JournalReader

MIGRATIONS = str(Path(__file__).parents[2] / "migrations")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "journal.db")


def opened(path, redact=None):
    return Journal.open(path, MIGRATIONS, redact or Redactor())


@pytest.fixture
def journal(path):
    journal = opened(path)
    yield journal
    journal.close()


@pytest.fixture
def reader(journal, path):
    reader = JournalReader.open(path)
    yield reader
    reader.close()


def test_what_was_appended_is_read_back_in_order_with_the_ids_that_append_told(journal, reader):
    told = journal.append(a_good_night().entries)
    assert list(reader.entries(NIGHT)) == told
    assert [entry.id for entry in told] == sorted({entry.id for entry in told})


def test_a_runner_record_ingested_twice_is_stored_once(journal, reader):
    night = Night()
    first, second = night.began("fix-1", 1), night.ended("fix-1", 1)
    assert len(journal.append([first, first])) == 1
    assert [entry.body for entry in journal.append([first, second])] == [second.body]
    assert journal.append([first, second]) == []
    assert len(list(reader.entries(NIGHT))) == 2


def test_the_same_record_number_of_another_loop_or_night_is_another_record(journal, reader):
    night = Night()
    night.began("fix-1", 1)
    night.began("fix-2", 1)
    other = Night("2026-11-30-b")
    other.began("fix-1", 1)
    assert len(journal.append(night.entries + other.entries)) == 3
    assert reader.last_seq(NIGHT) == {"fix-1": 1, "fix-2": 1}


def test_what_the_daemon_says_is_never_a_duplicate(journal, reader):
    entry = Night().over()
    journal.append([entry, entry])
    assert len(list(reader.entries(NIGHT))) == 2


def test_ids_are_never_used_again(journal, path):
    last = journal.append(a_good_night().entries)[-1].id
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM entry WHERE id = ?", (last,))
    other.close()
    assert journal.append([Night().over()])[0].id > last


def test_an_append_that_fails_stores_nothing_and_may_be_made_again(journal, reader, path):
    blocker = sqlite3.connect(path)
    blocker.executescript(
        "CREATE TRIGGER no BEFORE INSERT ON entry WHEN NEW.loop = 'fix-2' BEGIN SELECT RAISE(ABORT, 'no space'); END"
    )
    entries = a_good_night().entries
    with pytest.raises(JournalError, match=r"can't write the journal .*no space"):
        journal.append(entries)
    assert list(reader.entries(NIGHT)) == []
    blocker.executescript("DROP TRIGGER no")
    blocker.close()
    assert len(journal.append(entries)) == len(entries)


def test_a_journal_that_was_moved_away_is_missed_at_once_and_goes_on_when_it_is_back(journal, reader, path):
    os.rename(path, path + ".away")
    with pytest.raises(JournalError, match="was moved, deleted or replaced"):
        journal.append([Night().started()])
    Path(path).touch()
    with pytest.raises(JournalError, match="was moved, deleted or replaced"):
        journal.append([Night().started()])
    os.rename(path + ".away", path)
    journal.append([Night().started()])
    assert len(list(reader.entries(NIGHT))) == 1


LOOKS = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM entry').fetchone())"


@pytest.mark.parametrize("gone", [("-wal",), ("-shm",), ("-wal", "-shm")])
@pytest.mark.parametrize("read", [False, True])
def test_a_log_that_is_deleted_beside_it_takes_nothing_along(path, tmp_path, gone, read):
    """SQLite itself would go on writing to a file without a name."""
    journal, night = opened(path), Night()
    journal.append([night.started()])
    for round_ in range(3):
        for name in gone:
            os.unlink(path + name)
        if read:  # somebody looks before anything more is written
            command = [sys.executable, "-m", "sqlite3", path, "SELECT count(*) FROM entry"]
            subprocess.run(command, capture_output=True, check=False)
        night.began("fix-1", round_ + 1)
        journal.append(night.entries[-1:])
    left = tmp_path / "left by a crash"
    left.mkdir()
    for name in ("", "-wal", "-shm"):
        shutil.copy(path + name, left / f"journal.db{name}")
    with contextlib.closing(JournalReader.open(str(left / "journal.db"))) as reader:
        assert [entry.body for entry in reader.entries(NIGHT)] == [entry.body for entry in night.entries]
    with contextlib.closing(sqlite3.connect(left / "journal.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    journal.close()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_the_file_is_the_owners_alone_under_any_umask(path, umask):
    before = os.umask(umask)
    try:
        journal = opened(path)
        journal.append([Night().over()])
        modes = {name: stat.S_IMODE(os.stat(path + name).st_mode) for name in ("", "-wal", "-shm")}
        journal.close()
    finally:
        os.umask(before)
    assert modes == {"": 0o600, "-wal": 0o600, "-shm": 0o600}


def test_the_file_is_never_open_to_others_not_even_for_a_moment(path, monkeypatch):
    seen = []
    fchmod = os.fchmod
    monkeypatch.setattr(
        os, "fchmod", lambda fd, mode: (seen.append(stat.S_IMODE(os.fstat(fd).st_mode)), fchmod(fd, mode))
    )
    before = os.umask(0)
    try:
        opened(path).close()
    finally:
        os.umask(before)
    assert seen == [0o600]


def test_a_file_that_others_could_read_is_closed_to_them(path):
    opened(path).close()
    os.chmod(path, 0o644)
    opened(path).close()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_sqlite_writes_ahead_and_waits_for_the_disk(journal):
    with journal._engine.connect() as connection:
        pragma = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
        }
    assert pragma == {"journal_mode": "wal", "synchronous": 2}


def test_a_database_of_somebody_else_is_refused_and_left_alone(path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE customers (name)")
    other.close()
    with pytest.raises(JournalError, match="not a journal of ralphd"):
        opened(path)
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]
    other.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(path):
    Path(path).write_text("shopping list\n" * 100)
    with pytest.raises(JournalError, match="not a database"):
        opened(path)
    assert Path(path).read_text() == "shopping list\n" * 100


@pytest.mark.parametrize("make", [lambda path: os.symlink("/dev/null", path), os.mkfifo, os.mkdir])
def test_what_is_no_plain_file_is_refused(path, make):
    make(path)
    with pytest.raises(JournalError, match="journal"):
        opened(path)


def test_a_journal_of_a_newer_ralphd_is_refused_with_the_reason(path):
    opened(path).close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE alembic_version SET version_num = '0999'")
    other.close()
    with pytest.raises(JournalError, match=r"written by a newer ralphd .*'0999'"):
        opened(path)


def test_opening_again_keeps_everything_and_migrates_from_any_folder(path, tmp_path, monkeypatch):
    journal = opened(path)
    journal.append(a_good_night().entries)
    journal.close()
    monkeypatch.chdir(tmp_path)
    again = opened(path)
    assert again.append(a_good_night().entries)[0].body == a_good_night().entries[0].body
    again.close()


def test_the_code_names_the_newest_revision(journal):
    from ralphd.edges.journal_db import revision
    from ralphd.edges.journal_schema import REVISION

    assert revision(journal._engine, "") == REVISION
    newest = max(name for name in os.listdir(f"{MIGRATIONS}/versions") if name.endswith(".py"))
    assert newest.startswith(f"{REVISION}_")


def test_a_journal_that_is_up_to_date_costs_no_alembic(path):
    opened(path).close()
    code = (
        "import sys; from ralphd.edges.journal import Journal; from ralphd.core.redact import Redactor;"
        f"Journal.open({path!r}, {MIGRATIONS!r}, Redactor()).close(); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_migrations_are_found_in_a_folder_of_any_name(path, tmp_path):
    odd = tmp_path / "a b%c:d"
    shutil.copytree(MIGRATIONS, odd)
    Journal.open(path, str(odd), Redactor()).close()
    reader = JournalReader.open(path)
    assert reader.nights() == []
    reader.close()


def test_a_folder_without_migrations_is_named(path, tmp_path):
    with pytest.raises(JournalError, match="up to date"):
        Journal.open(path, str(tmp_path / "nowhere"), Redactor())


def test_the_migrated_schema_is_the_one_the_code_writes(journal):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from ralphd.edges.journal_schema import ENTRY

    with journal._engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = [d for d in compare_metadata(context, ENTRY.metadata) if d[0] != "remove_index"]
    assert differences == []


def test_secrets_are_not_in_the_file(path):
    canary = "canary-7731-value"
    night = Night()
    evidence = (Evidence(what=f"export KEY={canary} sk-ant-api03-abcdefgh12345678", file="/state/x.log"),)
    night.ended("fix-1", 1, Kind.AUTH, evidence=evidence)
    night.say(events.NightStarted(width=1, ends_at=None, version="1", config={"env": {"FOO": canary}}))
    journal = opened(path, Redactor([canary]))
    journal.append(night.entries)
    journal.close()
    assert b"/state/x.log" in Path(path).read_bytes()
    assert canary.encode() not in Path(path).read_bytes()
    assert b"sk-ant-api03" not in Path(path).read_bytes()


def test_names_and_places_that_recovery_needs_survive_redaction(path):
    night = a_good_night()
    journal = opened(path, Redactor(["/state/", "ralphd", "worktrees"]))
    journal.append(night.entries)
    journal.close()
    reader = JournalReader.open(path)
    loops = [entry.body for entry in reader.entries(NIGHT, types={"LoopAdded", "TaskAdded"})]
    assert loops == [entry.body for entry in night.entries if type(entry.body).__name__ in {"LoopAdded", "TaskAdded"}]
    reader.close()


@pytest.mark.parametrize("text", ["\ud83d", "nul \0 byte", "\x1b[31m", "a" * 100_000, "\u202e", "🦊"])
def test_any_text_of_an_agent_is_stored_and_comes_back(journal, reader, text):
    told = journal.append([Night().ended("fix-1", 1, Kind.EXITED, evidence=(Evidence(what=text),))])
    assert list(reader.entries(NIGHT)) == told


def test_a_body_that_is_no_json_becomes_a_note_and_holds_nothing_up(journal, reader):
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"x": deep}
    night = Night()
    night.say(records.ToolEnded(outcome=Outcome(kind=Kind.TOOL_DENIED, detail=deep)), "fix-1", 1)
    night.say(records.ToolEnded(outcome=Outcome(kind=Kind.TOOL_DENIED, detail={"x": float("nan")})), "fix-1", 1)
    night.over()
    assert len(journal.append(night.entries)) == 3
    note, nan, _ = reader.entries(NIGHT)
    assert note.body.outcome.kind is Kind.JOURNAL_ERROR
    assert "ToolEnded could not be stored" in note.body.outcome.evidence[0].what
    assert nan.body.outcome.detail == {"x": None}


def test_figures_out_of_range_are_stored_as_the_nearest(journal, reader):
    entry = Night().ended("fix-1", 1)
    assert len(journal.append([replace(entry, at=float("nan"), generation=1 << 80, trajectory=-1)])) == 1
    (found,) = reader.entries(NIGHT)
    assert (found.at, found.generation, found.trajectory) == (0.0, (1 << 31) - 1, 0)


def test_reading_where_no_journal_is_says_so_and_makes_none(path):
    with pytest.raises(NothingRunning, match=r"no night was recorded yet.*journal\.db"):
        JournalReader.open(path)
    assert not os.path.exists(path)


def test_reading_an_empty_file_says_that_nothing_was_recorded(path):
    Path(path).touch()
    with pytest.raises(NothingRunning, match="no night was recorded yet"):
        JournalReader.open(path)


def test_a_reader_can_not_write(journal, path):
    from sqlalchemy.exc import OperationalError

    reader = JournalReader.open(path)
    for wish in ("ON", "OFF"):
        with reader._engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA query_only={wish}")
            with pytest.raises(OperationalError, match="readonly"):
                connection.exec_driver_sql("DELETE FROM entry")
    reader.close()


def test_a_reader_sees_what_is_committed_while_the_writer_goes_on(journal, reader):
    night = Night()
    journal.append([night.started()])
    assert len(list(reader.entries(NIGHT))) == 1
    journal.append([night.over()])
    assert len(list(reader.entries(NIGHT))) == 2


def test_reading_goes_on_after_an_id_and_picks_types(journal, reader):
    told = journal.append(a_good_night().entries)
    assert list(reader.entries(NIGHT, after_id=told[4].id)) == told[5:]
    assert {type(entry.body) for entry in reader.entries(NIGHT, types={"VerdictGiven"})} == {events.VerdictGiven}
    assert list(reader.entries("2026-01-01-a")) == []


def test_more_than_a_page_is_read_whole(journal, reader, monkeypatch):
    monkeypatch.setattr("ralphd.edges.journal.PAGE", 3)
    told = journal.append(a_good_night().entries)
    assert list(reader.entries(NIGHT)) == told


def test_nights_have_their_start_and_their_end(journal, reader):
    first, second = Night("2026-11-30-a"), Night("2026-11-30-b")
    first.started()
    first.over("goal")
    second.now += 3600
    second.started()
    second.loop("fix-1")
    journal.append(first.entries + second.entries)
    told = [(night.id, night.started_at, night.ended_at, night.last_at, night.why_ended) for night in reader.nights()]
    assert told == [
        ("2026-11-30-a", START, START + 60, START + 60, "goal"),
        ("2026-11-30-b", START + 3600, None, START + 3660, ""),
    ]


def test_a_night_that_was_taken_up_again_has_its_first_start_and_no_end(journal, reader):
    night = Night()
    night.started()
    night.over()
    night.started()
    journal.append(night.entries)
    (row,) = reader.nights()
    assert (row.started_at, row.ended_at) == (START, None)


def test_outcomes_are_what_counts_for_one_and_the_claims_that_were_settled(journal, reader):
    journal.append(a_good_night().entries)
    kinds = [entry.body.outcome.kind for entry in reader.outcomes(NIGHT, "fix-1")]
    assert kinds == [Kind.NEXT, Kind.TOOL_TIMEOUT, Kind.STALE_LOCK, Kind.NEXT, Kind.FINISHED]
    assert len(list(reader.outcomes(NIGHT))) == 8


def test_rows_of_a_newer_ralphd_are_counted_and_left_out(journal, reader, path):
    journal.append([Night().started(), Night().over()])
    with sqlite3.connect(path) as other:
        other.execute("UPDATE entry SET type = 'Dreamt', checksum = NULL WHERE type = 'NightStarted'")
    other.close()
    assert [type(entry.body) for entry in reader.entries(NIGHT)] == [events.NightEnded]
    assert reader.unreadable == 1
    assert "no such entry type 'Dreamt'" in reader.unreadable_why[0]


def test_a_row_that_is_not_what_was_written_is_counted_and_left_out(journal, reader, path):
    journal.append([Night().started(), Night().over()])
    with sqlite3.connect(path) as other:
        other.execute("UPDATE entry SET at = at + 1 WHERE type = 'NightStarted'")
    other.close()
    assert [type(entry.body) for entry in reader.entries(NIGHT)] == [events.NightEnded]
    assert "checksum is wrong" in reader.unreadable_why[0]


def test_postgresql_without_its_driver_is_refused_with_the_way_out_and_without_the_password():
    with pytest.raises(JournalError, match="psycopg") as caught:
        opened("postgresql://ann:hunter22@db/ralphd")
    assert "hunter22" not in str(caught.value)


def test_a_url_that_is_none_is_refused():
    for url in ("nosuch://x", "://"):
        with pytest.raises(JournalError, match="no journal that ralphd can open"):
            opened(url)


def test_the_statements_are_those_postgresql_takes():
    from sqlalchemy import insert
    from sqlalchemy.dialects import postgresql

    from ralphd.edges.journal_schema import ENTRY

    text = str(insert(ENTRY).returning(ENTRY.c.id).compile(dialect=postgresql.dialect()))
    assert text.startswith("INSERT INTO entry")
    assert text.endswith("RETURNING entry.id")


# Does one thing with a journal whose index was cut in this very process, as SQLite never would survive it.
CUTS = """
import os, sys
from pathlib import Path
from support.nights import NIGHT, Night
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal, JournalReader
from ralphd.edges.journal_backup import back_up
path, migrations, size, what = sys.argv[1:]
journal, night = Journal.open(path, migrations, Redactor()), Night()
journal.append([night.started()])
reader = JournalReader.open(path)
assert len(list(reader.entries(NIGHT))) == 1
def cut():
    os.truncate(path + "-shm", int(size))
cut()
night.began("fix-1", 1)
if what == "append":
    for _ in range(3):
        night.ended("fix-1", 1)
        journal.append(night.entries[1:])
        cut()
    journal.append([night.over()])
    journal.append(night.entries[1:])
elif what == "read":
    assert len(list(reader.entries(NIGHT))) == 1
elif what == "open":
    assert len(list(JournalReader.open(path).entries(NIGHT))) == 1
elif what == "back up":
    back_up(path, 1e9)
elif what == "unlink":
    os.unlink(path + "-wal")
    journal.append([night.over()])
    cut()
    journal.append([night.over()])
journal.close()
"""


@pytest.mark.parametrize(
    ("what", "size"),
    [("append", 0), ("append", 4096), ("read", 0), ("open", 0), ("back up", 0), ("unlink", 0), ("close", 0)],
)
def test_an_index_that_somebody_shortens_ends_nobody(path, what, size):
    """It is mapped: without a mend the kernel ends whoever looks next, with SIGBUS."""
    argv = [sys.executable, "-c", CUTS, path, MIGRATIONS, str(size), what]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with contextlib.closing(JournalReader.open(path)) as reader:
        assert len(list(reader.entries(NIGHT))) == {"append": 7, "unlink": 3}.get(what, 1)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_reader_elsewhere_outlives_an_index_that_was_shortened_while_it_read(journal, path):
    """As `report` and the dashboard are: no daemon may be there to mend it."""
    night = Night()
    journal.append([night.started()])
    code = f"""
import os, sys
from support.nights import NIGHT
from ralphd.edges.journal import JournalReader
reader = JournalReader.open({path!r})
for _ in range(3):
    os.truncate({path!r} + "-shm", 0)
    assert len(list(reader.entries(NIGHT))) == 1
reader.close()
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(journal.append([night.over()])) == 1
