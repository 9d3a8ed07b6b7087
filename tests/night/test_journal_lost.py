"""A night whose journal is damaged while its daemon is dead: the same night goes on, and the report says what is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.counting import TOML, counting_repository, journaled, told_by_runners, wait_for_all_of
from support.nightbox import NightBox, night_box

from ralphd.core import events, records
from ralphd.core.losses import loss_in
from ralphd.edges.journal import JournalReader
from ralphd.edges.journal_backup import back_up, backups


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    with night_box(tmp_path, counting_repository(tmp_path / "repo")) as box:
        box.configure(TOML)
        yield box


def kill_daemon(box: NightBox) -> None:
    os.kill(box.daemon_pid(), signal.SIGKILL)
    box.wait_until(lambda: not box.owned(), "the daemon is dead")


def overwrite(box: NightBox) -> None:
    """The WAL too: while it holds every page, SQLite doesn't miss the database."""
    for name in ("journal.db", "journal.db-wal"):
        (box.state / name).write_bytes(os.urandom(200_000))


def ids(box: NightBox) -> list[int]:
    with contextlib.closing(sqlite3.connect(f"file:{box.state}/journal.db?mode=ro", uri=True)) as connection:
        return [id_ for (id_,) in connection.execute("SELECT id FROM entry ORDER BY id")]


@pytest.mark.slow
def test_a_night_survives_a_journal_of_garbage_without_any_backup(box: NightBox) -> None:
    box.start()
    box.wait_for(records.TrajectoryEnded, 3)
    night, runners, highest = box.nights()[-1], box.runners(), max(ids(box))
    kill_daemon(box)
    told = told_by_runners(box, night)
    overwrite(box)
    again = box.start()
    assert "could not be used" in again.stdout + again.stderr
    assert night in again.stdout + again.stderr
    assert box.runners() == runners
    assert box.nights() == [night]
    wait_for_all_of(box, night, told)
    assert min(ids(box)) > highest, "an id, and so the serial of an order, would have been given twice"
    (aside,) = [path for path in box.state.glob("journal.db.corrupt-*") if not path.name.endswith(("-wal", "-shm"))]
    assert aside.stat().st_size == 200_000
    losses = [loss_in(entry.body.outcome) for entry in box.journal(events.OutcomeNoted)]
    (loss,) = [loss for loss in losses if loss]
    assert (loss.first_id, loss.set_aside, loss.backup) == (1, str(aside), "")
    assert loss.last_id >= highest
    count = len(box.journal(records.TrajectoryEnded))
    box.wait_for(records.TrajectoryEnded, count + 2)  # they go on
    box.ralphd("pause", "loop-1")  # and they heed: orders of now are newer than those of before
    box.wait_until(lambda: box.rows()["loop-1"]["state"] == "paused", "the loop pauses")
    box.stop("--now")
    report = box.report()
    assert report["outcomes"]["daemon.journal_error"] == 1
    assert [gap["count"] for gap in report["unknown"] if gap["what"] == "journal_lost"] == [loss.last_id]
    assert "the journal was damaged" in box.ralphd("report").stdout


@pytest.mark.slow
def test_a_night_goes_on_from_the_newest_backup_and_what_was_paused_stays_paused(box: NightBox) -> None:
    box.start()
    box.wait_for(records.TrajectoryEnded, 2)
    copy = back_up(str(box.state / "journal.db"), time.time())
    kept = max(ids(box))
    box.ralphd("pause", "loop-1")  # after the backup: only the loop's own order knows
    box.wait_until(lambda: box.rows()["loop-1"]["state"] == "paused", "the loop pauses")
    night, runners = box.nights()[-1], box.runners()
    kill_daemon(box)
    told = told_by_runners(box, night)
    overwrite(box)
    box.start()
    assert box.runners() == runners
    wait_for_all_of(box, night, told)
    assert box.loops()["loop-1"]["state"] == "paused"
    losses = [loss_in(entry.body.outcome) for entry in box.journal(events.OutcomeNoted)]
    (loss,) = [loss for loss in losses if loss]
    assert loss.backup == copy
    assert 1 < loss.first_id <= kept + 1
    open_intents = {e.id for e in box.journal(events.ActionIntended)}
    settled = [e.body.intent for e in box.journal(events.ActionSettled)]
    assert sorted(settled) == sorted(set(settled))
    assert set(settled) <= open_intents


@pytest.mark.slow
def test_a_night_that_ended_is_not_begun_again_by_a_lost_journal(box: NightBox) -> None:
    box.start()
    box.wait_for(records.TrajectoryEnded, 2)
    night = box.nights()[-1]
    early = back_up(str(box.state / "journal.db"), time.time())
    box.stop("--now")
    box.assert_nothing_left()
    told = told_by_runners(box, night)
    newest = backups(str(box.state / "backups"))[0]
    with contextlib.closing(JournalReader.open(newest)) as reader:
        assert [row.why_ended for row in reader.nights()] == ["stopped"], "a night's end has its copy"
    for path in (box.state / "backups").iterdir():
        if str(path) != early:
            path.unlink()
    overwrite(box)
    box.start()
    assert len(box.nights()) == 2
    assert box.nights()[0] == night
    with contextlib.closing(JournalReader.open(str(box.state / "journal.db"))) as reader:
        assert [row.why_ended for row in reader.nights() if row.id == night] == ["stopped"]
    assert told.keys() == journaled(box, night).keys()


@pytest.mark.slow
def test_a_night_goes_on_through_an_upgrade_of_its_journal(box: NightBox) -> None:
    box.start()
    box.wait_for(records.TrajectoryEnded, 2)
    night, runners = box.nights()[-1], box.runners()
    kill_daemon(box)
    told = told_by_runners(box, night)
    with contextlib.closing(sqlite3.connect(box.state / "journal.db")) as connection:  # as the ralphd of before made it
        connection.executescript(
            "ALTER TABLE entry DROP COLUMN checksum; UPDATE alembic_version SET version_num = '0001'"
        )
    box.start()
    assert box.runners() == runners
    wait_for_all_of(box, night, told)
    assert not [entry for entry in box.journal(events.OutcomeNoted) if loss_in(entry.body.outcome)]
    (copy,) = (box.state / "backups").glob("journal-*.db")
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)


def garble(box: NightBox) -> None:
    """In place, so that it stays the file that the daemon has open."""
    for name in ("journal.db", "journal.db-wal"):
        with (box.state / name).open("r+b") as file:
            file.write(os.urandom(os.fstat(file.fileno()).st_size))


def replace_by_another(box: NightBox) -> None:
    with contextlib.closing(sqlite3.connect(box.root / "another.db")) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    os.replace(box.root / "another.db", box.state / "journal.db")


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [garble, replace_by_another])
def test_a_journal_that_is_spoilt_under_its_daemon_costs_no_loop_anything(
    box: NightBox, spoil: Callable[[NightBox], None]
) -> None:
    box.start()
    box.wait_for(records.TrajectoryEnded, 2)
    night, runners, daemon = box.nights()[-1], box.runners(), box.daemon_pid()
    back_up(str(box.state / "journal.db"), time.time())
    before = {loop: len(lines) for loop, lines in told_by_runners(box, night).items()}
    with contextlib.closing(sqlite3.connect(box.state / "journal.db", timeout=60)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # or the log alone would hold every page
    spoil(box)
    box.wait_until(
        lambda: all(len(told_by_runners(box, night)[loop]) > count + 6 for loop, count in before.items()),
        "the loops go on",
    )
    told_so = box.wait_until(lambda: box.glance()["daemon"]["trouble"], "status answers from memory, and says it")
    assert any("journal" in line for line in told_so)
    assert {row["state"] for row in box.status()["loops"]} == {"running"}
    for verb in ("report", "journal"):
        said = box.ralphd(verb, code=None)
        assert "Traceback" not in said.stdout + said.stderr
    assert box.daemon_pid() == daemon
    os.kill(daemon, signal.SIGTERM)
    box.wait_until(lambda: not box.owned(), "the daemon leaves")
    assert "Traceback" not in (box.state / "daemon.log").read_text()
    told = told_by_runners(box, night)
    again = box.start()
    assert night in again.stdout + again.stderr
    assert box.runners() == runners
    wait_for_all_of(box, night, told)
    box.wait_until(lambda: any(loss_in(e.body.outcome) for e in box.journal(events.OutcomeNoted)), "it is told")
    assert list(box.state.glob("journal.db.corrupt-*")), "and what was there is kept"
    box.stop("--now")
    assert box.report()["outcomes"]["daemon.journal_error"] >= 1
