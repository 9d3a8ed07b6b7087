"""What a night gave reaches the person's repository, whatever became of single branches."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.repositories import commit, git, head, linked, repository

from ralphd.core.model import Task, Verifier
from ralphd.edges.checkout import describe_repo
from ralphd.edges.night_repository import NightRepository
from ralphd.edges.repositories import NightRepositories


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def task(repo: Path, tmp_path: Path) -> Task:
    at = str(tmp_path / "night")
    NightRepository.create(describe_repo(str(repo)), at, head(repo))
    return Task(
        name="t", repository=str(repo), night_repository=at, prompt="PROMPT.md", base=head(repo), verifier=Verifier()
    )


def work(task: Task, at: Path) -> str:
    linked(NightRepository(task.night_repository), at, at.name)
    (at / "result").write_text(at.name)
    return commit(at, "work")


def test_a_branch_that_its_loop_renamed_keeps_no_result_from_arriving(task: Task, repo: Path, tmp_path: Path) -> None:
    one, two = work(task, tmp_path / "one"), work(task, tmp_path / "two")
    later = commit(tmp_path / "one", "more")
    git(tmp_path / "one", "branch", "-m", "other")
    assert NightRepositories().deliver(task, "n1", {"one": one, "two": two}, {"one": later}) == ()
    assert git(repo, "rev-parse", "refs/ralphd/n1/one") == later
    assert git(repo, "rev-parse", "refs/ralphd/n1/two") == two
    assert git(repo, "for-each-ref", "refs/ralphd/rescue") == ""


def test_a_branch_that_is_gone_is_made_at_the_best_commit_where_nothing_else_is_known(
    task: Task, repo: Path, tmp_path: Path
) -> None:
    one = work(task, tmp_path / "one")
    git(tmp_path / "one", "branch", "-m", "other")
    assert NightRepositories().deliver(task, "n1", {"one": one}, {"one": "1" * 40}) == ()
    assert git(repo, "rev-parse", "refs/ralphd/n1/one") == one


def test_a_best_commit_that_is_lost_is_told_and_the_others_arrive(task: Task, repo: Path, tmp_path: Path) -> None:
    two = work(task, tmp_path / "two")
    told = NightRepositories().deliver(task, "n1", {"one": "1" * 40, "two": two})
    assert [line.partition(":")[0] for line in told] == ["111111111111, the best of one"]
    assert git(repo, "rev-parse", "refs/ralphd/n1/two") == two


def test_a_best_commit_that_its_branch_left_behind_is_kept(task: Task, repo: Path, tmp_path: Path) -> None:
    one = work(task, tmp_path / "one")
    git(tmp_path / "one", "reset", "-q", "--hard", "HEAD~1")
    assert NightRepositories().deliver(task, "n1", {"one": one}) == ()
    assert git(repo, "rev-parse", "refs/ralphd/rescue/n1/best-one") == one
