"""What a person or an agent left in a loop's worktree is never reset over: it stays, or is parked and can be had back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nightbox import NightBox, night_box
from support.repositories import commit, everything, git, head, repository

from ralphd.core import records

# Shows signs of life and does nothing, so that every change in its worktree is the person's.
IDLE = "#!/bin/sh\ncat >/dev/null\nwhile :; do echo .; sleep 0.2; done\n"
CONFIG = '[night]\nwidth = 1\n[agent]\ncli = "command"\nprogram = "./agent"\n'
# What a night and `--bring --to` may add to the person's repository.
OURS = (".git/objects", ".git/refs/ralphd", ".git/refs/heads/mine")


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    repo = repository(tmp_path / "repo")
    (repo / "PROMPT.md").write_text("Go on.\n")
    commit(repo, "Ask")
    (repo / "agent").write_text(IDLE)
    (repo / "agent").chmod(0o755)
    with night_box(tmp_path, repo) as box:
        box.configure(CONFIG)
        yield box


def rescues(box: NightBox, *arguments: str) -> list[dict]:
    return [json.loads(line) for line in box.ralphd("journal", "rescue", "--json", *arguments).stdout.splitlines()]


def sessions(box: NightBox) -> int:
    return len(box.journal(records.AgentStarted, "loop-1"))


def work_of_a_person(box: NightBox) -> str:
    """Commit, change a file, stage another and add a new one in the loop's worktree. Returns the commit."""
    at = box.worktree("loop-1")
    (at / "src" / "a.py").write_text("a = 'a person'\n")
    made = commit(at, "By hand")
    (at / "src" / "a.py").write_text("a = 'unsaved'\n")
    (at / "staged").write_text("staged\n")
    git(at, "add", "staged")
    (at / "new file").write_text("new\n")
    return made


def dirt(box: NightBox) -> str:
    return git(box.worktree("loop-1"), "status", "--porcelain=v1")


def test_a_persons_work_in_a_worktree_outlives_every_start_and_restart(box: NightBox) -> None:
    box.start()
    box.wait_for(records.AgentStarted, loop="loop-1")
    before = everything(box.repo, without=OURS)
    box.ralphd("pause", "--now", "loop-1")
    box.wait_for(records.Held, loop="loop-1")
    made, base = work_of_a_person(box), head(box.repo)
    seen = dirt(box)
    for pid in (box.daemon_pid(), *box.runners().values()):
        os.kill(pid, signal.SIGKILL)
    box.wait_until(lambda: not box.owned(), "the daemon is dead")
    at = box.worktree("loop-1")
    box.start()
    known = sessions(box)
    box.ralphd("resume", "loop-1")
    box.wait_until(lambda: sessions(box) > known, "a session after the resume")
    assert (head(at), dirt(box)) == (made, seen)
    assert rescues(box) == []

    box.ralphd("restart", "--clean", "loop-1")
    (repaired,) = box.wait_for(records.Repaired, loop="loop-1")
    box.wait_until(lambda: sessions(box) > known + 1, "a session after the restart")
    assert (head(at), dirt(box)) == (base, "")
    (line,) = rescues(box)
    assert (line["ref"], line["loop"], line["delivered"]) == (repaired.body.ref, "loop-1", False)
    assert line["why"] == repaired.body.what
    assert "in the night's repository" in box.ralphd("journal", "rescue").stdout

    (got,) = rescues(box, "--bring", "loop-1", "--to", "mine")
    assert (git(box.repo, "rev-parse", line["ref"]), got["commit"]) == (line["commit"], line["commit"])
    assert git(box.repo, "show", "mine:src/a.py") == "a = 'unsaved'"
    assert git(box.repo, "show", "mine:new file") == "new"
    assert git(box.repo, "log", "-3", "--format=%s", "mine").splitlines()[-1] == "By hand"
    assert everything(box.repo, without=OURS) == before
    assert [one["delivered"] for one in rescues(box)] == [True]
    taken = box.ralphd("journal", "rescue", "--bring", line["ref"].rsplit("/", 1)[1], "--to", "mine", code=2)
    assert "exists already" in taken.stderr
    nothing = box.ralphd("journal", "rescue", "--bring", "loop-9", code=3)
    assert line["ref"] in nothing.stderr
    assert box.ralphd("journal", "outcomes", "--bring", "loop-1", code=2).stdout == ""
    box.stop()
    assert [one["delivered"] for one in rescues(box)] == [True]


def test_what_was_parked_can_be_had_after_the_night(box: NightBox) -> None:
    box.start()
    box.wait_for(records.AgentStarted, loop="loop-1")
    box.ralphd("pause", "--now", "loop-1")
    box.wait_for(records.Held, loop="loop-1")
    work_of_a_person(box)
    box.ralphd("restart", "--clean", "loop-1")
    box.wait_for(records.Repaired, loop="loop-1")
    box.stop()
    (line,) = rescues(box)
    assert line["delivered"] is True
    git(box.repo, "update-ref", "-d", line["ref"])
    assert [one["delivered"] for one in rescues(box)] == [False]
    said = box.ralphd("journal", "rescue", "--bring", "loop-1").stdout
    assert f"switch -c rescued-loop-1 {line['ref']}" in said
    assert git(box.repo, "rev-parse", line["ref"]) == line["commit"]
