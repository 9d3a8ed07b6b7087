"""The index beside the journal is cut off under a running night: its daemon lives, and whoever looks gets an answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.counting import TOML, counting_repository, told_by_runners, wait_for_all_of
from support.nightbox import night_box

from ralphd.core import records


@pytest.mark.slow
def test_an_index_that_is_cut_off_under_its_daemon_costs_nothing(tmp_path: Path) -> None:
    """By a clean-up of somebody's, say: `: >journal.db-shm`. SQLite has it mapped."""
    with night_box(tmp_path, counting_repository(tmp_path / "repo")) as box:
        box.configure(TOML)
        box.start()
        box.wait_for(records.TrajectoryEnded, 2)
        night, daemon, runners = box.nights()[-1], box.daemon_pid(), box.runners()
        for verb in ("status", "report", "journal"):
            ended = len(box.journal(records.TrajectoryEnded))
            os.truncate(box.state / "journal.db-shm", 0)
            box.ralphd(verb)
            os.truncate(box.state / "journal.db-shm", 0)
            box.wait_for(records.TrajectoryEnded, ended + 2)
        wait_for_all_of(box, night, told_by_runners(box, night))
        assert (box.daemon_pid(), box.runners()) == (daemon, runners)
        assert box.owned()
        os.truncate(box.state / "journal.db-shm", 0)
        box.stop()
        assert "daemon.journal_error" not in box.report()["outcomes"]
