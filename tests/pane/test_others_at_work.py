"""Somebody else's git is at work in a loop's worktree between two sessions: it is waited for, not worked over."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paneloop import until
from support.repositories import ENV, commit, git, head, linked, night_of, repository

from ralphd.core.outcomes import Kind
from ralphd.core.records import Prepared, Repaired
from ralphd.pane import ground
from ralphd.pane.ground import Ground, NotReady
from ralphd.pane.worktree import Place, look

# An editor that a person leaves open until the test says that they are done.
EDITOR = """#!/bin/sh
touch "$HOME/editing"
until [ -e "$HOME/done" ]; do sleep 0.05; done
[ "${1##*/}" = COMMIT_EDITMSG ] && echo "by a person" >"$1"
exit 0
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    repo = repository(tmp_path / "repo")
    night = night_of(repo, tmp_path / "night")
    tree = linked(night, tmp_path / "one")
    commit(tree, "work")
    commit(tree, "more work")
    (tmp_path / "editor").write_text(EDITOR)
    (tmp_path / "editor").chmod(0o755)
    return Place(worktree=str(tree), git_dir=night.git_dir, branch="ralphd/n1/one", source=str(repo))


@pytest.fixture
def told() -> list[Prepared | Repaired]:
    return []


@pytest.fixture
def here(place: Place) -> Ground:
    return Ground(place=place, reset_to="", generation=1, known_tip=head(Path(place.worktree)), prepared=1)


@pytest.fixture(
    params=[["commit", "-qam", "", "--edit", "--allow-empty-message"], ["rebase", "-qi", "HEAD~1"]],
    ids=lambda verb: verb[0],
)
def person(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """They have changed a file, and are at the editor that git opened for them."""
    if request.param[0] == "commit":
        Path(place.worktree, "src", "a.py").write_text("a = 'by a person'\n")
    env = {**ENV, "HOME": str(tmp_path), "GIT_EDITOR": str(tmp_path / "editor")}
    busy = subprocess.Popen(["git", *request.param], cwd=place.worktree, env=env, stderr=subprocess.DEVNULL)
    until((tmp_path / "editing").exists, "the editor is open")
    yield busy
    (tmp_path / "done").touch()
    busy.wait()


def refused(here: Ground, told: list[Prepared | Repaired]) -> bool:
    with pytest.raises(NotReady, match="somebody's git is at work") as caught:
        here.ready(told.append)
    return caught.value.outcome.kind is Kind.GIT_LOCKED


def wrong_with(place: Place) -> list[str]:
    facts = look(place, time.time())
    return [lock.path for lock in facts.locks] + [facts.mid_operation] * bool(facts.mid_operation)


def test_it_is_waited_for(
    here: Ground, place: Place, told: list[Prepared | Repaired], person: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    before = wrong_with(place)
    assert before, "there is something that would be mended"
    assert refused(here, told)
    assert refused(here, told)
    assert wrong_with(place) == before
    (tmp_path / "done").touch()
    assert person.wait() == 0, "what they did was done"
    tip = here.ready(told.append)
    assert told == []
    assert tip == git(place.worktree, "rev-parse", "HEAD")
    assert git(place.worktree, "status", "--porcelain") == ""


def test_it_is_not_waited_for_all_night(
    here: Ground,
    told: list[Prepared | Repaired],
    person: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert refused(here, told)
    monkeypatch.setattr(ground, "OTHERS_PATIENCE_S", 0.0)
    assert here.ready(told.append)
    assert told
    assert person.poll() is None


def test_a_git_that_works_elsewhere_is_no_reason_to_wait(
    here: Ground, place: Place, told: list[Prepared | Repaired], tmp_path: Path
) -> None:
    (tmp_path / "one-more").mkdir()
    Path(place.admin, "index.lock").touch()
    elsewhere = subprocess.Popen(["git", "cat-file", "--batch"], cwd=tmp_path / "repo", stdin=subprocess.PIPE)
    try:
        assert here.ready(told.append)
    finally:
        elsewhere.communicate()
    assert not os.path.exists(f"{place.admin}/index.lock")
