"""A newer ralphd takes over a night of an older one, journal and running loops alike; the older one then stays away."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cast import cast
from support.invariants import assert_each_record_once, assert_one_outcome_each
from support.nightbox import NightBox
from support.pods import STEPS, add_pods

import ralphd
from ralphd.core import events, records
from ralphd.edges import journal_schema
from ralphd.edges.processes import identity

pytestmark = pytest.mark.slow

WIDTH = 16
TOML = '[agent]\ncli = "command"\nprogram = "PROGRAM"\n[[task]]\nname = "n"\n'
AGENT = "cat >/dev/null; echo $RALPHD_TRAJECTORY >n; git add n && commit count; sleep 4\n"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    loops = {f"loop-{number}": AGENT for number in range(1, WIDTH + 1)}
    with cast(tmp_path, loops, TOML, {}) as box:
        yield box


def version(root: Path, name: str) -> Path:
    """The code of a ralphd that calls itself ``name``."""
    ours = Path(ralphd.__file__).parents[1]
    for folder in ("ralphd", "prompts", "migrations"):
        shutil.copytree(ours / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    init = root / "ralphd" / "__init__.py"
    init.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{name}"', init.read_text()))
    return root


def newer_version(root: Path) -> Path:
    made = version(root, "9.0.0")
    add_pods(made / "migrations")
    schema = made / "ralphd" / "edges" / "journal_schema.py"
    schema.write_text(schema.read_text().replace(f'REVISION = "{journal_schema.REVISION}"', 'REVISION = "0900"'))
    return made


def ask(box: NightBox, *questions: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(box.state / "journal.db")) as connection:
        rows = [row for question in questions for row in connection.execute(question).fetchall()]
        connection.commit()
    return rows


def leave(box: NightBox) -> None:
    os.kill(box.daemon_pid(), signal.SIGTERM)
    box.wait_until(lambda: not box.owned(), "the daemon has gone")


def test_a_night_of_sixteen_loops_is_upgraded_under_way_and_the_way_back_refused(box: NightBox, tmp_path: Path) -> None:
    older, newer = version(tmp_path / "older", "0.0.1"), newer_version(tmp_path / "newer")
    box.env["PYTHONPATH"] = str(older)
    box.start("--width", str(WIDTH), "--for", "2h")
    box.wait_for(records.TrajectoryEnded, WIDTH)
    runners = box.runners()
    who = {loop: identity(pid) for loop, pid in runners.items()}
    leave(box)
    ask(box, "ALTER TABLE entry DROP COLUMN checksum", "UPDATE alembic_version SET version_num = '0001'")

    box.env["PYTHONPATH"] = str(newer)
    for step in range(1, STEPS + 1):
        box.env["DIE_AT"] = str(step)
        assert box.start(code=None).returncode != 0
        box.wait_until(lambda: not box.owned(), f"it died at step {step}")
        assert ask(box, "SELECT version_num FROM alembic_version") == [("0001",)]
    del box.env["DIE_AT"]
    assert f"{WIDTH} of {WIDTH} loops run" in box.start().stdout
    assert ask(box, "SELECT version_num FROM alembic_version", "PRAGMA integrity_check") == [("0900",), ("ok",)]
    assert box.status()["daemon"]["version"] == "9.0.0"
    box.wait_for(records.TrajectoryEnded, len(box.journal(records.TrajectoryEnded)) + WIDTH)

    leave(box)
    box.env["PYTHONPATH"] = str(older)
    refused = box.start(code=None)
    assert refused.returncode != 0
    assert "written by a newer ralphd" in refused.stdout + refused.stderr
    assert {loop: identity(pid) for loop, pid in box.runners().items()} == who, "no runner was restarted"
    assert ask(box, "SELECT version_num FROM alembic_version") == [("0900",)]

    box.env["PYTHONPATH"] = str(newer)
    box.start()
    assert box.runners() == runners
    box.stop()
    written = {loop: [record["seq"] for record in box.records(loop)] for loop in runners}
    assert_one_outcome_each(box.journal(), at_rest=True)
    assert_each_record_once(box.journal(), written, whole=True)
    spawned = [entry.loop for entry in box.journal(events.ActionIntended) if entry.body.type == "SpawnRunner"]
    assert sorted(spawned) == sorted(runners)
    assert {entry.body.version for entry in box.journal(records.RunnerStarted)} == {"0.0.1"}
