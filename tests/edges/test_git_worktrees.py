"""Worktrees of loops: tied at any width, from any leftovers, without losing work."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.repositories import ENV, commit, everything, git, head, linked, night_of, repository

from ralphd.core.errors import UsageError
from ralphd.edges.foreign_refs import moved_by_others
from ralphd.edges.git import Git
from ralphd.edges.night_repository import NightRepository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def night(repo: Path, tmp_path: Path) -> NightRepository:
    return night_of(repo, tmp_path / "night")


def test_sixteen_worktrees_at_once(night: NightRepository, tmp_path: Path, repo: Path) -> None:
    base = head(repo)

    def add(n: int) -> str:
        return NightRepository(night.at).add_worktree(str(tmp_path / f"w{n}"), f"ralphd/n1/w{n}", base).head

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(add, range(16))) == [base] * 16
    assert len(git(night.git_dir, "worktree", "list").splitlines()) == 17
    assert len(night.heads("ralphd/n1")) == 16
    for n in range(16):
        assert git(tmp_path / f"w{n}", "rev-parse", "--abbrev-ref", "HEAD") == f"ralphd/n1/w{n}"


def test_many_in_one_go(night: NightRepository, tmp_path: Path, repo: Path) -> None:
    kept = commit(linked(night, tmp_path / "w1", "w1"), "earlier work")
    wanted = [(str(tmp_path / f"w{n}"), f"ralphd/n1/w{n}") for n in range(100)]
    made = night.add_worktrees(wanted, head(repo))
    assert [(tie.worktree, tie.branch) for tie in made] == wanted
    assert [tie.head for tie in made] == [head(repo), kept, *[head(repo)] * 98]
    assert len(night.heads("ralphd/n1")) == 100
    assert head(tmp_path / "w99") == head(repo)


MOVES = {
    "by others": ("git update-ref refs/heads/ralphd/n1/one {theirs}", True),
    "by others, with a lock of a commit": (
        ": >{admin}/index.lock; git update-ref refs/heads/ralphd/n1/one {theirs}",
        False,
    ),
    "by others, its index a pipe": (
        "rm {admin}/index; mkfifo {admin}/index; git update-ref refs/heads/ralphd/n1/one {theirs}",
        False,
    ),
    "by others, its index of garbage": (
        "echo DIRC >{admin}/index; git update-ref refs/heads/ralphd/n1/one {theirs}",
        False,
    ),
    "by its own merge": ("cd {at}; git merge -q --ff-only {theirs}", False),
    "by its own commit": ("cd {at}; echo b >b; git add b; git commit -qm own", False),
}


@pytest.mark.parametrize("emptied", ["after", "before", "deleted"])
@pytest.mark.parametrize("move", MOVES)
def test_a_branch_that_somebody_else_moved_on_is_known_though_its_logs_were_emptied(
    night: NightRepository, tmp_path: Path, repo: Path, move: str, emptied: str
) -> None:
    """Git's logs tell who moved it; without them the index of its worktree does."""
    at, others = linked(night, tmp_path / "one"), linked(night, tmp_path / "two", "two")
    known, admin = head(at), Path(night.git_dir) / "worktrees" / "one"
    (others / "theirs").write_text("theirs\n")
    theirs = commit(others, "theirs")
    script, foreign = MOVES[move]
    expire = ("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    if emptied == "before":
        git(night.git_dir, *expire)
    command = script.format(theirs=theirs, admin=admin, at=at)
    subprocess.run(["sh", "-ec", command], cwd=night.git_dir, env=ENV, check=True, capture_output=True)
    if emptied == "after":
        git(night.git_dir, *expire)
    elif emptied == "deleted":
        shutil.rmtree(Path(night.git_dir) / "logs")
        shutil.rmtree(admin / "logs")
    found = git(night.git_dir, "rev-parse", "refs/heads/ralphd/n1/one")
    assert moved_by_others(Git(git_dir=night.control), night.git_dir, "ralphd/n1/one", known, found) == foreign


def test_two_loops_on_one_branch_are_refused_before_anything_is_made(
    night: NightRepository, tmp_path: Path, repo: Path
) -> None:
    wanted = [(str(tmp_path / name), "ralphd/n1/same") for name in ("one", "two")]
    with pytest.raises(UsageError, match="ralphd/n1/same was given to two loops"):
        night.add_worktrees(wanted, head(repo))
    assert night.heads("ralphd/n1") == {}
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize("folder", ["none", "empty", "foreign", "linked", "symlink"])
@pytest.mark.parametrize("left", [(), ("admin",), ("branch",), ("admin", "branch")])
def test_worktrees_converge_from_any_leftovers(
    night: NightRepository, tmp_path: Path, repo: Path, folder: str, left: tuple[str, ...]
) -> None:
    """Commits of a leftover branch and files of a leftover folder are still there, and the worktree works."""
    at, base = tmp_path / "one", head(repo)
    linked(night, at)
    kept = commit(at, "earlier work")
    (at / "unsaved").write_text("precious")
    if folder != "linked":
        shutil.rmtree(at)
    if folder in ("empty", "foreign"):
        at.mkdir()
    if folder == "foreign":
        (at / "unsaved").write_text("precious")
    if folder == "symlink":
        at.symlink_to(repo)
    if "admin" not in left:
        shutil.rmtree(Path(night.git_dir, "worktrees", "one"))
    if "branch" not in left:
        git(night.git_dir, "update-ref", "-d", "refs/heads/ralphd/n1/one")
    before = everything(repo)
    for _ in range(3):
        made = night.add_worktree(str(at), "ralphd/n1/one", base)
        assert made.head == (kept if "branch" in left else base)
    assert git(at, "symbolic-ref", "HEAD") == "refs/heads/ralphd/n1/one"
    git(at, "reset", "-q", "--mixed")
    assert git(at, "rev-parse", "HEAD") == made.head
    unsaved = [path.read_text() for path in tmp_path.glob("one*/unsaved") if not path.parent.is_symlink()]
    assert unsaved == (["precious"] if folder in ("linked", "foreign") else [])
    assert everything(repo) == before
    assert len(git(night.git_dir, "worktree", "list").splitlines()) == 2


@pytest.mark.parametrize("branch", ["main", "ralphd/n1/-x/y", "ralphd/../x", "ralphd/n1/A", "ralphd/n1/x\n", "-d"])
def test_a_branch_outside_the_loops_is_refused(night: NightRepository, tmp_path: Path, branch: str) -> None:
    with pytest.raises(UsageError, match="no branch of a loop"):
        night.add_worktree(str(tmp_path / "w"), branch, "HEAD")


def test_a_worktree_is_an_ordinary_one_to_git(night: NightRepository, tmp_path: Path) -> None:
    at = linked(night, tmp_path / "one")
    assert git(at, "rev-parse", "--is-bare-repository", "--is-inside-work-tree").split() == ["false", "true"]
    assert git(at, "status", "--porcelain=v1", "--branch") == "## ralphd/n1/one"
    assert git(at, "worktree", "prune", "--dry-run", "--verbose") == ""
    git(at, "checkout", "-q", "-b", "scratch")
    git(at, "checkout", "-q", "ralphd/n1/one")


def test_deleting_one_worktree_harms_no_other(night: NightRepository, tmp_path: Path, repo: Path) -> None:
    at, other = linked(night, tmp_path / "one"), linked(night, tmp_path / "two", "two")
    done = commit(at, "x")
    shutil.rmtree(at)
    git(night.git_dir, "worktree", "prune")
    shutil.rmtree(night.git_dir + "/objects", ignore_errors=True)
    assert git(repo, "fsck", "--strict") == ""
    assert other.exists()
    assert done


def test_a_deleted_branch_is_made_again_where_it_was_last(night: NightRepository, tmp_path: Path, repo: Path) -> None:
    at = linked(night, tmp_path / "one")
    done, base, branch = commit(at, "x"), head(repo), "ralphd/n1/one"
    for known, start in ((done, done), ("f" * 40, base), ("", base)):
        git(Path(night.git_dir), "update-ref", "-d", f"refs/heads/{branch}")
        (linked_again,) = night.add_worktrees([(str(at), branch)], base, {branch: known})
        assert linked_again.head == start == git(Path(night.git_dir), "rev-parse", branch)
