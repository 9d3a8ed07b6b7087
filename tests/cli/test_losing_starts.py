"""Many starts at once on a state that somebody owns: each leaves with its own exit code, and all it wrote is a log."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.counting import TOML, counting_repository
from support.nightbox import NightBox
from support.nights import a_good_night
from support.repositories import everything

from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal
from ralphd.edges.ownership import open_state, own

MIGRATIONS = str(Path(__file__).parents[2] / "migrations")


@pytest.mark.slow
def test_losers_leave_the_journal_and_everything_else_as_it_was(tmp_path: Path) -> None:
    box = NightBox(tmp_path, tmp_path / "state", counting_repository(tmp_path / "repo"))
    box.configure(TOML)
    with contextlib.closing(
        Journal.open(f"{open_state(str(box.state))}/journal.db", MIGRATIONS, Redactor())
    ) as journal:
        journal.append(a_good_night().entries)
    owned = own(str(box.state), version="1", started_at="now")
    told = ("daemon.lock", "daemon.log")
    before = everything(box.state, without=told), everything(box.repo)
    spent_s = -used_by_children_s()
    try:
        command = [sys.executable, "-P", "-m", "ralphd", "start"]
        starts = [
            subprocess.Popen(command, cwd=box.repo, env=box.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(20)
        ]  # fmt: skip
        said = [start.communicate()[1] for start in starts]
        spent_s += used_by_children_s()
    finally:
        owned.release()
    assert [start.returncode for start in starts] == [75] * 20
    assert all(len(words.splitlines()) == 1 and "owns" in words for words in said), said
    assert (everything(box.state, without=told), everything(box.repo)) == before
    assert spent_s / 20 < 2.0, "each leaves within 2 s on a machine that has nothing else to do"


def used_by_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
