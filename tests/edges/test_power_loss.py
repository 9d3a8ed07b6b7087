"""The power is cut while the journal, a runner's records and orders are written: what was told as stored is there.

There is no power to cut here: what a disk may hold then is worked out from the system calls of a real writer.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.nights import NIGHT
from support.powercut import Disk, Op, traced

from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal, JournalReader
from ralphd.edges.journal_mend import mend, revisions
from ralphd.edges.loopfolder import standing_order
from ralphd.pane.recorder import Recorder

ROOT = Path(__file__).resolve().parents[2]
MIGRATIONS = str(ROOT / "migrations")
CUTS = int(os.environ.get("RALPHD_TEST_CUTS", "60"))
pytestmark = pytest.mark.slow

# Each acknowledgement stands behind what it tells of: ids of entries, records and orders. Never closed: it is cut off.
WRITES = r"""
import os, sys
from pathlib import Path
from ralphd.core.exchange import Order, Want
from ralphd.core.records import Held
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal
from ralphd.edges.loopfolder import LoopFolders
from ralphd.pane.recorder import Recorder
from support.nights import Night

state, migrations, acks = sys.argv[1:]
told = os.open(acks, os.O_WRONLY | os.O_CREAT, 0o600)
journal = Journal.open(f"{state}/journal.db", migrations, Redactor())
journal._engine.raw_connection().cursor().execute("PRAGMA wal_autocheckpoint=50")  # for 1000: the same, but often
recorder, folders, night = Recorder(f"{state}/loop"), LoopFolders(""), Night()
for batch in range(40):
    known = len(night.entries)
    for number in range(batch * 60 + 1, batch * 60 + (61 if batch % 4 else 3)):
        night.began("fix-1", number)
    stored = journal.append(night.entries[known:])
    os.write(told, f"entry {stored[-1].id}\n".encode())
    recorder.append(Held(kind="", why=str(batch)), at=1.0)
    recorder.sync()
    os.write(told, f"record {recorder.seq}\n".encode())
    folders.order(f"{state}/loop", Order(serial=batch, want=Want.RUNNING, why="w" * 2000))
os._exit(0)
"""


@dataclass(frozen=True)
class Written:
    before: Path
    state: Path
    ops: list[Op]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    root = tmp_path_factory.mktemp("power")
    state, before = root / "state", root / "before"
    (state / "loop" / "calls").mkdir(parents=True)
    Journal.open(str(state / "journal.db"), MIGRATIONS, Redactor()).close()
    Recorder(str(state / "loop")).close()
    shutil.copytree(state, before)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    return Written(before=before, state=state, ops=traced(WRITES, str(state), MIGRATIONS, str(root / "acks"), env=env, folder=state))  # fmt: skip


def cut(written: Written, seed: int, at: Path) -> dict[str, int]:
    """Make what is left of the state after a cut somewhere. Returns the highest id of each sort that had been told."""
    chance = random.Random(seed)
    shutil.rmtree(written.state, ignore_errors=True)
    shutil.copytree(written.before, written.state)
    disk = Disk.holding(written.state)
    for op in written.ops[: chance.randint(1, len(written.ops))]:
        disk.take(op)
    disk.left(chance, at, written.state)
    told = [ack.split() for ack in disk.acks]
    return {kind: max([int(n) for what, n in told if what == kind], default=0) for kind in ("entry", "record")}


def test_the_writer_was_seen_to_sync_and_to_check_point(written: Written) -> None:
    """Or the cuts below show nothing."""
    kinds = {(op.kind, os.path.basename(op.path)) for op in written.ops}
    assert {("sync", "journal.db-wal"), ("sync", "journal.db"), ("sync", "records.jsonl")} <= kinds
    assert len([op for op in written.ops if op.kind == "ack"]) == 80


def test_what_was_told_as_stored_outlives_every_cut(written: Written, tmp_path: Path) -> None:
    for seed in range(CUTS):
        at = tmp_path / str(seed)
        told = cut(written, seed, at)
        path = str(at / "journal.db")
        found = mend(path, revisions(MIGRATIONS), 1796100000.0)
        assert found.loss is None, f"cut {seed}: {found.loss}"
        with contextlib.closing(JournalReader.open(path)) as reader:
            ids = [entry.id for entry in reader.entries(NIGHT)]
            assert reader.unreadable == 0
        assert ids == list(range(1, len(ids) + 1)), f"cut {seed}"
        assert len(ids) >= told["entry"], f"cut {seed}: {told['entry']} entries were told, {len(ids)} are there"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",), f"cut {seed}"
        shutil.rmtree(at)


def test_a_runners_records_and_orders_outlive_every_cut(written: Written, tmp_path: Path) -> None:
    for seed in range(CUTS):
        at = tmp_path / str(seed)
        told = cut(written, seed, at)
        recorder = Recorder(str(at / "loop"))  # what the next runner makes of it
        assert recorder.seq >= told["record"], f"cut {seed}"
        recorder.close()
        lines = (at / "loop" / "records.jsonl").read_bytes().split(b"\n")
        seqs = [json.loads(line)["seq"] for line in lines if line.startswith(b'{"seq"') and line.endswith(b"}")]
        assert set(range(1, told["record"] + 1)) <= set(seqs), f"cut {seed}"
        if (at / "loop" / "order.json").exists():
            assert standing_order(str(at / "loop")) is not None, f"cut {seed}: an order is whole or absent"
        shutil.rmtree(at)
