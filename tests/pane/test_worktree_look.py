"""A worktree's files tell its state, whatever an agent put in their place."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from support.repositories import commit, everything, git, head, linked, night_of, repository

from ralphd.pane.worktree import Place, changed_since, look, prepare, stamp_ns

BRANCH = "ralphd/n1/one"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def place(repo: Path, tmp_path: Path) -> Place:
    night = night_of(repo, tmp_path / "night")
    linked(night, tmp_path / "one")
    return Place(worktree=str(tmp_path / "one"), git_dir=night.git_dir, branch=BRANCH, source=str(repo))


@pytest.fixture
def tree(place: Place) -> Path:
    return Path(place.worktree)


def test_all_is_well(place: Place, repo: Path) -> None:
    facts = look(place, time.time())
    assert (facts.exists, facts.has_files, facts.linked, facts.has_index, facts.at_home) == (True,) * 5
    assert facts.head == facts.tip == head(repo)
    assert (facts.locks, facts.mid_operation) == ((), "")


def test_looking_changes_nothing(place: Place, tree: Path) -> None:
    before = everything(tree), everything(Path(place.git_dir))
    look(place, time.time())
    assert (everything(tree), everything(Path(place.git_dir))) == before


def test_a_tip_in_packed_refs(place: Place, tree: Path) -> None:
    done = commit(tree, "x")
    git(tree, "pack-refs", "--all")
    assert look(place, time.time()).tip == done
    newer = commit(tree, "y")
    assert look(place, time.time()).tip == newer


def test_a_tip_is_no_other_branch_of_a_longer_name(place: Place, tree: Path) -> None:
    git(tree, "branch", "x/ralphd/n1/one")
    git(tree, "branch", "ralphd/n1/one-two")
    git(tree, "pack-refs", "--all")
    git(tree, "update-ref", "-d", f"refs/heads/{BRANCH}")
    assert look(place, time.time()).tip == ""


def test_detached_other_branch_and_no_branch(place: Place, tree: Path, repo: Path) -> None:
    git(tree, "checkout", "-q", "--detach", "HEAD~1")
    facts = look(place, time.time())
    assert (facts.on_branch, facts.at_home, facts.head) == ("", False, git(repo, "rev-parse", "HEAD~1"))
    git(tree, "checkout", "-q", "-b", "other")
    assert look(place, time.time()).on_branch == "refs/heads/other"
    git(tree, "branch", "-D", BRANCH)
    facts = look(place, time.time())
    assert (facts.tip, facts.head) == ("", git(repo, "rev-parse", "HEAD~1"))


def test_locks_with_age_and_owner(place: Place) -> None:
    paths = [f"{place.admin}/index.lock", f"{place.git_dir}/{place.ref}.lock", f"{place.git_dir}/packed-refs.lock"]
    for path in paths:
        Path(path).write_text("12")
        os.utime(path, (1000, 1000))
    locks = look(place, 1060.0).locks
    assert [(lock.path, lock.age_s, lock.size, lock.stale) for lock in locks] == [
        (paths[0], 60.0, 2, True),
        (paths[1], 60.0, 2, True),
        (paths[2], 60.0, 2, False),
    ]


@pytest.mark.parametrize("mark", ["MERGE_HEAD", "rebase-merge", "CHERRY_PICK_HEAD", "BISECT_LOG"])
def test_an_open_operation(place: Place, mark: str) -> None:
    Path(place.admin, mark).mkdir()
    assert look(place, time.time()).mid_operation in {"merge", "rebase", "cherry-pick", "bisect"}


def test_a_gone_worktree_and_an_untied_one(place: Place, tree: Path) -> None:
    (tree / ".git").unlink()
    facts = look(place, time.time())
    assert (facts.exists, facts.linked, facts.has_files) == (True, False, True)
    shutil.rmtree(tree)
    facts = look(place, time.time())
    assert (facts.exists, facts.linked, facts.has_files) == (False, False, False)
    tree.symlink_to("/")
    assert not look(place, time.time()).exists


def test_hostile_files_neither_block_nor_mislead(place: Place, tree: Path, tmp_path: Path) -> None:
    (tree / ".git").unlink()
    os.mkfifo(tree / ".git")
    Path(place.admin, "HEAD").unlink()
    os.mkfifo(Path(place.admin, "HEAD"))
    ref = Path(place.git_dir, place.ref)
    ref.write_text(f"ref: {place.ref}\n")
    facts = look(place, time.time())
    assert (facts.linked, facts.head, facts.tip) == (False, "", "")
    ref.write_text("ref: refs/../../../etc/passwd\n")
    assert look(place, time.time()).tip == ""
    ref.unlink()
    (tmp_path / "commit").write_text("1" * 40 + "\n")
    ref.symlink_to(tmp_path / "commit")
    assert look(place, time.time()).tip == ""


def test_changes_are_seen_and_only_changes(place: Place, tree: Path) -> None:
    since = settled(place)
    assert changed_since(str(tree), since) is False
    (tree / ".git").touch()
    assert changed_since(str(tree), since) is False
    (tree / "src" / "a.py").write_text("new")
    os.utime(tree / "src" / "a.py", (0, 0))  # a file time set back hides nothing
    assert changed_since(str(tree), since) is True
    since = settled(place)
    (tree / "src" / "a.py").unlink()
    assert changed_since(str(tree), since) is True


def test_changes_outside_a_link_are_not_ours_and_a_crowd_is_unknown(place: Place, tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tree / "out").symlink_to(outside)
    since = settled(place) + 1  # the link itself may be of this very tick
    (outside / "f").write_text("x")
    assert changed_since(str(tree), since) is False
    assert changed_since(str(tree), since, limit=3) is None


def settled(place: Place) -> int:
    """Take a stamp, then let the filesystem's clock move on, so that later changes have later times."""
    since = stamp_ns(place)
    while stamp_ns(place) <= since:
        time.sleep(0.001)
    return since


def fresh(place: Place, tmp_path: Path, **options: tuple[str, ...]) -> Place:
    from ralphd.edges.night_repository import NightRepository

    at = str(tmp_path / "two")
    NightRepository(os.path.dirname(place.git_dir)).add_worktree(
        at, "ralphd/n1/two", git(tmp_path / "one", "rev-parse", "HEAD")
    )
    return Place(worktree=at, git_dir=place.git_dir, branch="ralphd/n1/two", source=place.source, **options)


def test_first_checkout_and_never_a_second(place: Place, tmp_path: Path) -> None:
    two = fresh(place, tmp_path)
    assert prepare(two) == ()
    assert git(two.worktree, "status", "--porcelain") == ""
    Path(two.worktree, "src", "a.py").write_text("unsaved")
    done = commit(Path(two.worktree), "by a person")
    Path(two.worktree, "src", "a.py").write_text("unsaved again")
    assert prepare(two) == ()
    assert Path(two.worktree, "src", "a.py").read_text() == "unsaved again"
    assert look(two, time.time()).head == done


def test_a_first_checkout_that_was_cut_off_is_done_again(place: Place, tmp_path: Path) -> None:
    two = fresh(place, tmp_path)
    Path(two.admin, "index.lock").write_text("")
    Path(two.worktree, "src").mkdir()
    Path(two.worktree, "src", "a.py").write_text("a =")
    prepare(two)
    assert git(two.worktree, "status", "--porcelain") == ""


def test_a_lost_index_is_no_reason_to_check_out_again(place: Place, tmp_path: Path) -> None:
    two = fresh(place, tmp_path)
    prepare(two)
    Path(two.worktree, "src", "a.py").write_text("unsaved")
    Path(two.admin, "index").unlink()
    prepare(two)
    assert Path(two.worktree, "src", "a.py").read_text() == "unsaved"


def test_sparse_checkout_of_some_folders(place: Place, tmp_path: Path) -> None:
    before = Path(place.git_dir, "config").read_bytes()
    two = fresh(place, tmp_path, sparse=("src",))
    prepare(two)
    assert sorted(os.listdir(two.worktree)) == [".git", ".gitignore", "src"]
    assert git(two.worktree, "status", "--porcelain") == ""
    assert (tmp_path / "one" / "tests").is_dir()
    assert Path(place.git_dir, "config").read_bytes() == before


def test_ignored_files_are_copied_with_their_modes(place: Place, tmp_path: Path, repo: Path) -> None:
    (repo / ".env").chmod(0o600)
    (repo / "local.log").mkdir()
    (repo / "local.log" / "run").write_text("#!/bin/sh\n")
    (repo / "local.log" / "run").chmod(0o750)
    two = fresh(place, tmp_path, include=(".env", "local.log/"))
    assert prepare(two) == ()
    assert Path(two.worktree, ".env").read_text() == "KEY=1\n"
    assert Path(two.worktree, ".env").stat().st_mode & 0o777 == 0o600
    assert Path(two.worktree, "local.log", "run").stat().st_mode & 0o777 == 0o750
    Path(two.worktree, ".env").write_text("KEY=mine\n")
    prepare(two)
    assert Path(two.worktree, ".env").read_text() == "KEY=mine\n"


@pytest.mark.parametrize(
    "name", ["missing", "../secret", "/etc/passwd", ".git/config", "", "link", "linked/secret", "fifo"]
)
def test_what_cannot_be_copied_is_said(place: Place, tmp_path: Path, repo: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (repo / "link").symlink_to(tmp_path / "secret")
    (repo / "linked").symlink_to(tmp_path)
    os.mkfifo(repo / "fifo")
    two = fresh(place, tmp_path, include=(name,))
    (note,) = prepare(two)
    assert repr(name) in note
    assert "left out" in note
    assert sorted(os.listdir(two.worktree)) == [".git", ".gitignore", "src", "tests"]


def test_copying_does_not_write_through_a_link_of_the_agent(place: Place, tmp_path: Path, repo: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo / "conf").mkdir()
    (repo / "conf" / "x.log").write_text("x")
    two = fresh(place, tmp_path, include=("conf/x.log",))
    Path(two.worktree, "conf").symlink_to(outside)
    (note,) = prepare(two)
    assert "leads out" in note
    assert os.listdir(outside) == []
