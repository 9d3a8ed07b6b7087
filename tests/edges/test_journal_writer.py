from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.nights import NIGHT, Night, a_good_night

from ralphd.core.errors import JournalError
from ralphd.core.redact import Redactor
from ralphd.edges import journal_writer
from ralphd.edges.journal import Journal, JournalReader
from ralphd.edges.journal_writer import JournalWriter

MIGRATIONS = str(Path(__file__).parents[2] / "migrations")
DEADLINE_S = 60.0


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "journal.db")


@pytest.fixture
def writer(path, monkeypatch):
    monkeypatch.setattr(journal_writer, "RETRY_MAX_S", 0.1)
    writer = JournalWriter(Journal.open(path, MIGRATIONS, Redactor()))
    yield writer
    assert writer.close(DEADLINE_S)


def stored(path):
    reader = JournalReader.open(path)
    entries = list(reader.entries(NIGHT))
    reader.close()
    return entries


def until(condition):
    """Wait for ``condition``, generously."""
    tick = threading.Event()
    for _ in range(int(DEADLINE_S / 0.01)):
        if condition():
            return
        tick.wait(0.01)
    raise AssertionError("never happened")


def test_each_submission_is_told_its_own_entries_after_the_commit(writer, path):
    night, told = Night(), []
    for number in range(1, 6):
        writer.submit([night.began("fix-1", number), night.over()], lambda own: told.append((own, len(stored(path)))))
    assert writer.flush(DEADLINE_S)
    assert [entry for own, _ in told for entry in own] == stored(path)
    assert [len(own) for own, _ in told] == [2] * 5
    assert all(on_disk >= own[-1].id for own, on_disk in told)


def test_duplicates_are_told_to_nobody(writer):
    night, told = Night(), []
    first, second = night.began("fix-1", 1), night.ended("fix-1", 1)
    writer.submit([first], told.append)
    writer.submit([first, second], told.append)
    writer.submit([first, second], told.append)
    assert writer.flush(DEADLINE_S)
    assert [[entry.body for entry in own] for own in told] == [[first.body], [second.body], []]


def test_a_locked_journal_is_named_and_everything_is_written_in_order_once_it_is_free(path, monkeypatch):
    monkeypatch.setattr(journal_writer, "RETRY_MAX_S", 0.1)
    monkeypatch.setitem(__import__("ralphd.edges.journal_db", fromlist=["x"])._CONNECT, "timeout", 0.05)
    writer = JournalWriter(Journal.open(path, MIGRATIONS, Redactor()))
    thief = sqlite3.connect(path, isolation_level=None)
    thief.execute("BEGIN IMMEDIATE")
    entries = a_good_night().entries
    for entry in entries:
        writer.submit([entry])
    until(lambda: "locked" in writer.trouble)
    assert writer.backlog == len(entries)
    assert not writer.flush(0.2)
    thief.execute("COMMIT")
    thief.close()
    assert writer.flush(DEADLINE_S)
    assert writer.trouble == ""
    assert writer.close(DEADLINE_S)
    assert [entry.body for entry in stored(path)] == [entry.body for entry in entries]


def test_a_full_disk_loses_nothing_and_doubles_nothing(writer, path):
    writer.submit([Night().started()])
    assert writer.flush(DEADLINE_S)
    with writer._journal._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
    entries = [entry for _ in range(40) for entry in a_good_night().entries if not entry.seq]
    writer.submit(entries)
    until(lambda: "full" in writer.trouble)
    with writer._journal._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    assert writer.flush(DEADLINE_S)
    assert [entry.body for entry in stored(path)[1:]] == [entry.body for entry in entries]


def test_a_callback_that_fails_stops_nothing_and_is_named(writer, path):
    def fail(_entries):
        raise RuntimeError("boom")

    writer.submit([Night().started()], fail)
    assert writer.flush(DEADLINE_S)
    assert "boom" in writer.trouble
    writer.submit([Night().over()])
    assert writer.flush(DEADLINE_S)
    assert len(stored(path)) == 2


def test_many_threads_lose_nothing(writer, path):
    def work(loop):
        night = Night()
        for number in range(1, 21):
            writer.submit([night.began(loop, number)])

    threads = [threading.Thread(target=work, args=(f"fix-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writer.flush(DEADLINE_S)
    for n in range(4):
        assert [entry.seq for entry in stored(path) if entry.loop == f"fix-{n}"] == list(range(1, 21))


def test_what_waits_goes_into_one_commit(path, monkeypatch):
    journal = Journal.open(path, MIGRATIONS, Redactor())
    sizes, gate, append = [], threading.Event(), journal.append

    def slow(entries):
        gate.wait(DEADLINE_S)
        sizes.append(len(entries))
        return append(entries)

    monkeypatch.setattr(journal, "append", slow)
    writer = JournalWriter(journal)
    for _ in range(50):
        writer.submit([Night().over()])
    gate.set()
    assert writer.close(DEADLINE_S)
    assert sum(sizes) == 50
    assert len(sizes) <= 2


def test_nothing_can_be_submitted_after_the_end(path):
    writer = JournalWriter(Journal.open(path, MIGRATIONS, Redactor()))
    assert writer.close(DEADLINE_S)
    with pytest.raises(JournalError, match="closed"):
        writer.submit([Night().over()])


VICTIM = """
import sys
sys.path[:0] = [{tests!r}]
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal
from ralphd.edges.journal_writer import JournalWriter
from support.nights import Night

writer, night, number = JournalWriter(Journal.open({path!r}, {migrations!r}, Redactor())), Night(), 0
while True:
    number += 1
    writer.submit([night.began("fix-1", number)], lambda own: print(own[0].id, flush=True))
    writer.flush()
"""


def test_what_was_told_is_there_after_a_kill(path):
    code = VICTIM.format(tests=str(Path(__file__).parents[1]), path=path, migrations=MIGRATIONS)
    victim = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    told = [int(victim.stdout.readline()) for _ in range(20)]
    victim.send_signal(signal.SIGKILL)
    told += [int(line) for line in victim.stdout.read().splitlines()]
    victim.wait()
    victim.stdout.close()
    found = [entry.id for entry in stored(path)]
    assert found[: len(told)] == told
    again = Journal.open(path, MIGRATIONS, Redactor())
    assert again.append([Night().over()])[0].id > found[-1]
    again.close()
