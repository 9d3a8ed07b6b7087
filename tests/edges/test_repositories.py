"""What a night gave reaches the person's repository, whatever became of single branches."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.repositories import commit, everything, git, head, linked, repository

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


def test_a_history_that_an_agent_cut_where_it_is_whole_keeps_no_result_from_arriving(
    task: Task, repo: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", str(repo), "upstream")
    commit(tmp_path / "upstream", "third")
    before = everything(repo, without=(".git/objects", ".git/refs/ralphd"))
    work(task, tmp_path / "one")
    git(tmp_path / "one", "fetch", "-q", "--depth=1", f"file://{tmp_path / 'upstream'}", "main")
    git(tmp_path / "one", "reset", "-q", "--hard", "FETCH_HEAD")
    one, two = commit(tmp_path / "one", "on top"), work(task, tmp_path / "two")
    assert git(tmp_path / "one", "log", "--format=%s") == "on top\nthird"
    assert NightRepositories().deliver(task, "n1", {"one": one, "two": two}) == ()
    assert git(repo, "log", "--format=%s", "refs/ralphd/n1/one") == "on top\nthird\nsecond\nfirst"
    assert git(repo, "rev-parse", "refs/ralphd/n1/two") == two
    assert everything(repo, without=(".git/objects", ".git/refs/ralphd")) == before


@pytest.mark.parametrize("spoilt", ["rubbish\n", "1" * 40 + "\n", ""])
def test_a_spoilt_list_of_cuts_keeps_no_result_from_arriving(
    task: Task, repo: Path, tmp_path: Path, spoilt: str
) -> None:
    one = work(task, tmp_path / "one")
    Path(task.night_repository, "repo.git", "shallow").write_text(spoilt)
    assert NightRepositories().deliver(task, "n1", {"one": one}) == ()
    assert git(repo, "rev-parse", "refs/ralphd/n1/one") == one


def test_work_on_top_of_a_history_that_is_cut_is_told_and_the_others_arrive(
    task: Task, repo: Path, tmp_path: Path
) -> None:
    other = repository(tmp_path / "other")
    for message in ("elsewhere", "and on"):
        commit(other, message)
    work(task, tmp_path / "one")
    git(tmp_path / "one", "fetch", "-q", "--depth=1", f"file://{other}", "main")
    git(tmp_path / "one", "reset", "-q", "--hard", "FETCH_HEAD")
    commit(tmp_path / "one", "on top")
    two = work(task, tmp_path / "two")
    told = NightRepositories().deliver(task, "n1", {"two": two})
    assert [line.partition(": ")[0] for line in told] == ["refs/heads/ralphd/n1/one"]
    assert git(repo, "rev-parse", "refs/ralphd/n1/two") == two
    assert not (repo / ".git" / "shallow").exists()


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
