"""Every session of a night ends at the same moment: each is told once, at little cost, and each loop goes on."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest
from support.adopting import used_s
from support.invariants import assert_each_record_once, assert_one_outcome_each
from support.nightbox import NightBox, night_box
from support.repositories import commit, repository

from ralphd.core import events, records

EXITS = int(os.environ.get("RALPHD_TEST_EXITS", "24"))
CPU_S = 60.0  # of 512 sessions: a minute of a processor
# The first session of each loop waits at a pipe that one opening of its other end frees for all; the later ones stay.
AGENT = """#!/bin/sh
cat >/dev/null
if [ "$RALPHD_TRAJECTORY" -gt 1 ]; then exec sleep 100000; fi
: >"$HOME/waiting/$RALPHD_LOOP"
read -r word <"$HOME/gate"
exit 0
"""
TOML = f"""
[night]
width = {EXITS}
[agent]
cli = "command"
program = "./agent"
"""


@pytest.mark.slow
@pytest.mark.timeout(max(300, 4 * EXITS))
def test_sessions_that_end_at_once_are_told_once_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RALPHD_TEST_EXITS asks for so many; 512 is the goal, within 15 s on a machine that has nothing else to do."""
    repo = repository(tmp_path / "repo")
    (repo / "PROMPT.md").write_text("Wait.\n")
    (repo / "agent").write_text(AGENT)
    (repo / "agent").chmod(0o755)
    commit(repo, "Ask")
    with night_box(tmp_path, repo) as box:
        box.configure(TOML)
        (box.home / "waiting").mkdir()
        os.mkfifo(box.home / "gate")
        box.start("--for", "2h")
        box.wait_until(lambda: len(list((box.home / "waiting").iterdir())) == EXITS, "all wait", 30 + 2 * EXITS)
        runners, before_s, began = box.runners(), used_s(box.daemon_pid()), time.monotonic()
        box.wait_until(lambda: freed(box) and stored(box, "TrajectoryEnded") == EXITS, "all are told", 60 + EXITS)
        took_s, spent_s = time.monotonic() - began, used_s(box.daemon_pid()) - before_s
        box.wait_until(lambda: stored(box, "TrajectoryStarted") == 2 * EXITS, "each loop goes on", 60 + EXITS)
        with capsys.disabled():
            print(f"\n{EXITS} sessions that ended at once: told after {took_s:.1f} s, {spent_s:.1f} s of a processor")
        assert spent_s < CPU_S
        assert box.runners() == runners
        ended = Counter(entry.loop for entry in box.journal(records.TrajectoryEnded))
        assert ended == dict.fromkeys(runners, 1)
        assert set(box.outcomes()) == {"done.noop"}
        assert {row["state"] for row in box.loops().values()} == {"running"}
        assert len(box.journal(events.LoopAdded)) == EXITS
        box.stop("--now")
        entries = box.journal()
        assert_one_outcome_each(entries, at_rest=True)
        assert_each_record_once(
            entries, {loop: [line["seq"] for line in box.records(loop)] for loop in runners}, whole=True
        )


def freed(box: NightBox) -> bool:
    """Open the gate for a moment. Who was not quite there yet is freed the next time."""
    with contextlib.suppress(OSError):  # nobody waits any more
        os.close(os.open(box.home / "gate", os.O_WRONLY | os.O_NONBLOCK))
    return True


def stored(box: NightBox, body: str) -> int:
    """How many such entries the journal has, counted cheaply: the daemon is what should be busy."""
    with contextlib.closing(sqlite3.connect(f"file:{box.state}/journal.db?mode=ro", uri=True)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM entry WHERE type = ?", (body,)).fetchone()
    return int(count)
