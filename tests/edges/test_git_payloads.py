"""Whatever a loop plants in the night repository, the daemon's git runs none of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.payloads import plant
from support.repositories import ENV, commit, git, head, linked, night_of, repository

from ralphd.edges.checkout import deliver, describe_repo
from ralphd.edges.git import Git
from ralphd.edges.night_repository import NightRepository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def night(repo: Path, tmp_path: Path) -> NightRepository:
    return night_of(repo, tmp_path / "night")


def test_nothing_planted_in_the_night_repository_ever_runs(night: NightRepository, tmp_path: Path, repo: Path) -> None:
    at, base = linked(night, tmp_path / "one"), head(repo)
    (at / "src" / "a.py").write_text("work")
    (at / ".gitattributes").write_text("* filter=x diff=x\n")
    done = commit(at, "x")
    ran = plant(Path(night.git_dir), tmp_path)
    subprocess.run(["git", "status"], cwd=at, env=ENV, capture_output=True, check=False)
    assert ran.exists(), "the payloads must be live, or this test shows nothing"
    ran.unlink()
    night.add_worktree(str(tmp_path / "two"), "ralphd/n1/two", base)
    night.heads("ralphd/n1/")
    night.changed_paths(base, done)
    night.is_ancestor(base, done)
    night.commits_between(base, done)
    night.tree_of(done)
    night.subject_of(done)
    night.fingerprint()
    deliver(describe_repo(str(repo)), night.control, "n1")
    assert git(repo, "rev-parse", "refs/ralphd/n1/one") == done
    assert not ran.exists(), ran.read_text()


def test_the_daemon_does_not_even_read_what_was_planted(night: NightRepository, tmp_path: Path) -> None:
    plant(Path(night.git_dir), tmp_path)
    seen = Git(git_dir=night.control).text("config", "--list")
    assert "alias.rev-parse" in Git(git_dir=night.git_dir).text("config", "--list")
    assert str(tmp_path / "payload") not in seen
    assert night._git.git_dir == night.control
