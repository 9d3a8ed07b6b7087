"""The index beside the journal is cut off under a running night: no night is lost, and whoever looks gets an answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.counting import TOML, counting_repository, told_by_runners, wait_for_all_of
from support.nightbox import NightBox, night_box

from ralphd.core import records


@pytest.mark.slow
def test_an_index_that_is_cut_off_under_its_daemon_costs_nothing(tmp_path: Path) -> None:
    """By a clean-up of somebody's, say: `: >journal.db-shm`. SQLite has it mapped.

    A daemon that is in the middle of a write at that moment can't be helped: it dies, and the next one adopts its loops.
    """
    with night_box(tmp_path, counting_repository(tmp_path / "repo")) as box:
        box.configure(TOML)
        box.start()
        box.wait_for(records.TrajectoryEnded, 2)
        night, runners = box.nights()[-1], box.runners()
        for verb in ("status", "report", "journal"):
            ended = len(box.journal(records.TrajectoryEnded))
            os.truncate(box.state / "journal.db-shm", 0)
            said = box.ralphd(verb, code=None)
            assert said.returncode in {0, 3}, said.stderr
            assert "Traceback" not in said.stderr
            box.wait_until(lambda ended=ended: went_on(box, ended), "the night goes on")
        told = told_by_runners(box, night)
        wait_for_all_of(box, night, told)
        assert (box.nights(), box.runners()) == ([night], runners)
        box.stop()
        assert "daemon.journal_error" not in box.report()["outcomes"]


def went_on(box: NightBox, ended: int) -> bool:
    if not box.owned():
        box.start()
    return len(box.journal(records.TrajectoryEnded)) >= ended + 2
