"""A loop plants every way that git has to run a program: none of it runs outside the loops, and what was changed is named."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cast import cast
from support.nightbox import NightBox
from support.payloads import ancestors, plant
from support.repositories import git

from ralphd.core import events, records

TOML = """\
[night]
width = 2
[agent]
cli = "command"
program = "PROGRAM"
[[task]]
name = "main"
[task.verify]
command = "cat n"
score = 'regex:(\\d+)'
protect = ["kept"]
"""
# Everyday git first, for the payloads to run in; then a commit by plumbing that no filter of theirs can empty.
COUNTS = """
cat >/dev/null
echo "$RALPHD_TRAJECTORY" >n; echo "* filter=x diff=x" >.gitattributes
git status >/dev/null; commit everyday
blob=$(echo "$RALPHD_TRAJECTORY" | git hash-object -w --stdin)
git update-index --add --cacheinfo "100644,$blob,n"
git update-ref HEAD "$(git commit-tree -p HEAD -m count "$(git write-tree)")"
sleep 1
"""
pytestmark = pytest.mark.slow


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    with cast(tmp_path, {"loop-1": COUNTS, "loop-2": COUNTS}, TOML, {"n": "0\n", "kept": "kept\n"}) as box:
        yield box


def foreign(box: NightBox) -> str:
    noted = [entry.body.outcome for entry in box.journal(events.OutcomeNoted)]
    return " ".join(outcome.evidence[0].what for outcome in noted if outcome.kind == "git.foreign_change")


def judged(box: NightBox) -> int:
    return len(box.journal(events.VerdictGiven))


def test_nothing_planted_runs_outside_the_loops(box: NightBox, tmp_path: Path) -> None:
    box.start("--for", "1h")
    box.wait_for(events.VerdictGiven, 2)
    night = next((box.state / "nights").glob("*/repositories/main/repo.git"))
    runners, daemons = set(box.runners().values()), {box.daemon_pid()}
    ran = plant(night, tmp_path)
    plant(night.with_name("control.git"), tmp_path)  # where the daemon reads the night repository
    box.wait_until(lambda: "config" in foreign(box) and "hooks/" in foreign(box), "the change is noted")

    def live() -> bool:
        """What a loop's own configuration says counts at least until somebody looks: plant until it was run."""
        for loop in ("loop-1", "loop-2"):
            own = night / "worktrees" / loop / "config.worktree"
            git(night, "config", "-f", str(own), "core.fsmonitor", str(tmp_path / "payload"))
        return bool(ancestors(ran))

    box.wait_until(live, "the payloads are live in the loops, or this test shows nothing")
    box.wait_until(lambda: "worktrees/loop-1/config.worktree" in foreign(box), "that is noted, too")
    known = judged(box)
    box.wait_until(lambda: judged(box) >= known + 2, "two verdicts after the planting")
    box.ralphd("restart", "--clean", "loop-1")
    box.wait_for(records.Prepared, 2, loop="loop-1")
    os.kill(box.daemon_pid(), signal.SIGKILL)
    box.wait_until(lambda: not box.owned(), "the daemon is dead")
    box.start()
    daemons.add(box.daemon_pid())
    known = judged(box)
    box.wait_until(lambda: judged(box) > known, "a verdict after the new start")
    runners |= set(box.runners().values())
    box.stop()
    plant(night.with_name("control.git"), tmp_path)
    for verb in (
        ("report",), ("journal", "rescue"), ("journal", "rescue", "--bring", "loop-1"), ("doctor",), ("take", "loop-1"),
    ):  # fmt: skip
        box.ralphd(*verb, code=None)
    assert [call for call, above in ancestors(ran) if above & daemons or not above & runners] == []
    named = foreign(box)
    for file in ("config", "config.worktree", "hooks/post-checkout", "info/attributes", "control.git/config"):
        assert file in named
