"""Somebody else puts a commit on top of a loop's branch, and empties git's logs: it never counts for the loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cast import cast
from support.repositories import commit, git

from ralphd.core import events, records

TOML = """\
[night]
width = 1
[agent]
cli = "command"
program = "PROGRAM"
[[task]]
name = "loop"
[task.verify]
command = "cat score"
score = 'regex:(\\d+)'
"""
# The first session commits a score; the second is at work until the test lets it end.
PART = """
cat >/dev/null
if ! from 2; then echo 1 >score; commit one; exit; fi
if from 3; then echo "$RALPHD_TRAJECTORY" >"on"; commit "on $RALPHD_TRAJECTORY"; alive; fi
until [ -e "$HOME/go" ]; do echo .; sleep 0.2; done
echo own >own; commit own
"""

EXPIRE = ("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")


def a_better_score(bare: Path, parent: str, worktree: Path) -> str:
    git(bare, "worktree", "add", "-q", "--detach", str(worktree), parent)
    (worktree / "score").write_text("99\n")
    return commit(worktree, "theirs")


@pytest.mark.slow
def test_a_commit_of_somebody_elses_is_taken_off_the_branch_and_never_judged(tmp_path: Path) -> None:
    with cast(tmp_path, {"loop-1": PART}, TOML, {"score": "0\n"}) as box:
        box.start("--for", "1h")
        box.wait_for(records.TrajectoryStarted, 2)
        box.wait_until(lambda: box.loops()["loop-1"]["best_score"] == 1, "its own commit is judged")
        (bare,) = (box.state / "nights").glob("*/repositories/*/repo.git")
        branch = f"refs/heads/{box.loops()['loop-1']['branch']}"
        known = git(bare, "rev-parse", branch)
        theirs = a_better_score(bare, known, box.root / "other")
        git(bare, *EXPIRE)
        git(bare, "update-ref", branch, theirs)
        git(bare, *EXPIRE)
        (noted,) = box.wait_for(events.OutcomeNoted)
        assert (noted.body.outcome.kind, noted.body.outcome.detail["loop"]) == ("git.foreign_change", "loop-1")
        box.wait_until(lambda: git(bare, "rev-parse", branch) == known, "it is back where its loop left it")
        (box.home / "go").touch()
        box.wait_for(records.TrajectoryEnded, 2)
        box.wait_for(records.TrajectoryStarted, 3)
        box.stop("--now")
        subjects = git(box.repo, "log", "--format=%s", f"refs/ralphd/{box.nights()[-1]}/loop-1").splitlines()
        assert "theirs" not in subjects
        assert "own" in subjects
        assert theirs not in {entry.body.verdict.commit for entry in box.journal(events.VerdictGiven)}
        assert box.report()["tasks"][0]["best"]["score"] == 1
        (line,) = [json.loads(line) for line in box.ralphd("journal", "rescue", "--json").stdout.splitlines()]
        assert git(bare, "rev-parse", line["ref"]) == theirs
