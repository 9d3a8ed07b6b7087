"""The person's repository is understood, and stays byte for byte what it was."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from support.repositories import commit, everything, git, repository

from ralphd.core.errors import GitError, UsageError
from ralphd.edges import git as git_edge
from ralphd.edges.checkout import deliver, describe_repo, resolve_base
from ralphd.edges.git import Git
from ralphd.edges.night_repository import NightRepository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def test_describes_a_clean_checkout_from_any_folder_in_it(repo: Path) -> None:
    seen = describe_repo(str(repo / "src"))
    assert seen.toplevel == str(repo)
    assert seen.git_dir == seen.common_dir == str(repo / ".git")
    assert seen.head == git(repo, "rev-parse", "HEAD")
    assert (seen.branch, seen.dirty, seen.mid_operation) == ("main", False, "")
    assert (seen.shallow, seen.partial, seen.has_submodules) == (False, False, False)


def test_looking_changes_no_byte(repo: Path) -> None:
    """Not even the index, which `git status` refreshes where file times moved."""
    (repo / "src" / "a.py").write_text("a = 3\n")
    (repo / "new file").write_text("x")
    (repo / "x.log").write_text("ignored")
    time.sleep(0.01)
    os.utime(repo / "tests" / "test_a.py")
    before = everything(repo)
    seen = describe_repo(str(repo))
    resolve_base(seen, "HEAD")
    assert seen.uncommitted == 2
    assert everything(repo) == before


def test_what_the_repository_configures_to_run_does_not_run(repo: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    git(repo, "config", "core.fsmonitor", f"touch {ran}; false")
    git(repo, "config", "filter.evil.clean", f"touch {ran}; cat")
    (repo / ".gitattributes").write_text("* filter=evil\n")
    (repo / "src" / "a.py").write_text("a = 3\n")
    assert describe_repo(str(repo)).uncommitted == 2
    assert not ran.exists()


def test_no_commit_yet(tmp_path: Path) -> None:
    at = tmp_path / "new"
    at.mkdir()
    git(at, "init", "-q", "-b", "trunk")
    (at / "a").write_text("a")
    seen = describe_repo(str(at))
    assert (seen.head, seen.branch, seen.uncommitted) == (None, "trunk", 1)
    with pytest.raises(UsageError, match="has no commit yet"):
        resolve_base(seen, "HEAD")


def test_no_repository_and_no_folder_are_said(tmp_path: Path, repo: Path) -> None:
    with pytest.raises(UsageError, match="is not in a git repository"):
        describe_repo(str(tmp_path))
    with pytest.raises(UsageError, match="no such folder"):
        describe_repo(str(tmp_path / "none"))
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    with pytest.raises(UsageError, match="bare"):
        describe_repo(str(tmp_path / "bare.git"))


@pytest.mark.parametrize("rev", ["nope", "--all", "-n1", "HEAD:src/a.py", "", "HEAD\nHEAD", "HEAD^{tree}"])
def test_a_base_that_is_no_commit_is_refused_by_name(repo: Path, rev: str) -> None:
    with pytest.raises(UsageError, match="names no commit"):
        resolve_base(describe_repo(str(repo)), rev)


def test_a_base_may_be_any_name_of_a_commit(repo: Path) -> None:
    git(repo, "tag", "-a", "v1", "-m", "one", "HEAD~1")
    seen = describe_repo(str(repo))
    assert resolve_base(seen, "v1") == resolve_base(seen, "HEAD~1") == git(repo, "rev-parse", "HEAD~1")


def test_a_linked_worktree_has_its_own_head(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"), "HEAD~1")
    seen = describe_repo(str(tmp_path / "linked"))
    assert seen.common_dir == str(repo / ".git")
    assert (seen.branch, seen.head) == (None, git(repo, "rev-parse", "HEAD~1"))


def test_open_merge_shallow_and_submodules_are_seen(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "-q", "-b", "other", "HEAD~1")
    (repo / "src" / "a.py").write_text("a = 9\n")
    commit(repo, "other")
    git(repo, "merge", "main", check=False)
    (repo / ".gitmodules").write_text("")
    seen = describe_repo(str(repo))
    assert (seen.mid_operation, seen.has_submodules) == ("merge", True)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    assert describe_repo(str(tmp_path / "shallow")).shallow


def test_inherited_git_variables_mislead_nobody(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere.index"))
    assert describe_repo(str(repo)).toplevel == str(repo)


def _night(repo: Path, tmp_path: Path) -> NightRepository:
    seen = describe_repo(str(repo))
    night, _ = NightRepository.create(seen, str(tmp_path / "night"), seen.head or "")
    return night


def _work(night: NightRepository, tmp_path: Path, loop: str, base: str) -> str:
    at = tmp_path / loop
    night.add_worktree(str(at), f"ralphd/n1/{loop}", base)
    git(at, "reset", "-q", "--hard")
    (at / "result").write_text(loop)
    return commit(at, f"work of {loop}")


def test_results_arrive_and_nothing_else_moves(repo: Path, tmp_path: Path) -> None:
    (repo / "src" / "a.py").write_text("dirty\n")
    night = _night(repo, tmp_path)
    seen = describe_repo(str(repo))
    before = everything(repo, without=(".git/objects", ".git/refs/ralphd"))
    done = _work(night, tmp_path, "one", seen.head or "")
    rescued = _work(night, tmp_path, "two", seen.head or "")
    git(night.git_dir, "update-ref", "refs/ralphd/rescue/n1/two/1", rescued)
    git(night.git_dir, "tag", "unwanted", done)
    ran = tmp_path / "ran"
    for side in (repo / ".git", Path(night.git_dir)):
        for hook in ("reference-transaction", "post-update"):
            (side / "hooks").mkdir(exist_ok=True)
            (side / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
            (side / "hooks" / hook).chmod(0o755)
    before = everything(repo, without=(".git/objects", ".git/refs/ralphd"))
    for _ in range(2):
        deliver(seen, night.control, "n1")
    assert git(repo, "rev-parse", "refs/ralphd/n1/one") == done
    assert git(repo, "rev-parse", "refs/ralphd/rescue/n1/two/1") == rescued
    assert everything(repo, without=(".git/objects", ".git/refs/ralphd")) == before
    assert git(repo, "tag") == ""
    assert not ran.exists()


def test_results_reach_a_shallow_clone(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    shallow = tmp_path / "shallow"
    night = _night(shallow, tmp_path)
    before = everything(shallow, without=(".git/objects", ".git/refs/ralphd"))
    seen = describe_repo(str(shallow))
    done = _work(night, tmp_path, "one", seen.head or "")
    deliver(seen, night.control, "n1")
    assert git(shallow, "rev-parse", "refs/ralphd/n1/one") == done
    assert everything(shallow, without=(".git/objects", ".git/refs/ralphd")) == before


def test_a_damaged_branch_keeps_no_other_from_arriving(repo: Path, tmp_path: Path) -> None:
    night = _night(repo, tmp_path)
    seen = describe_repo(str(repo))
    done = _work(night, tmp_path, "one", seen.head or "")
    _work(night, tmp_path, "two", seen.head or "")
    blob = git(night.git_dir, "rev-parse", "ralphd/n1/two:result")
    Path(night.git_dir, "objects", blob[:2], blob[2:]).unlink()
    (lost,) = deliver(seen, night.control, "n1")
    assert lost.startswith("refs/heads/ralphd/n1/two: ")
    assert git(repo, "rev-parse", "refs/ralphd/n1/one") == done
    assert git(repo, "for-each-ref", "refs/ralphd/n1/two") == ""


def test_nothing_to_deliver_is_fine(repo: Path, tmp_path: Path) -> None:
    night = _night(repo, tmp_path)
    assert deliver(describe_repo(str(repo)), night.control, "n1") == ()
    assert git(repo, "for-each-ref", "refs/ralphd") == ""


def test_results_reach_a_partial_clone(repo: Path, tmp_path: Path) -> None:
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{repo}", "partial")
    partial = tmp_path / "partial"
    night = _night(partial, tmp_path)
    done = _work(night, tmp_path, "one", describe_repo(str(partial)).head or "")
    assert deliver(describe_repo(str(partial)), night.control, "n1") == ()
    assert git(partial, "rev-parse", "refs/ralphd/n1/one") == done


def test_a_failed_command_is_one_clear_line(repo: Path) -> None:
    with pytest.raises(GitError, match=r"git cat-file failed in .*: fatal: "):
        Git(git_dir=str(repo / ".git"))("cat-file", "commit", "HEAD:src")


def test_a_flood_and_a_hang_end(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "big").write_bytes(b"x" * 100_000)
    commit(repo, "big")
    with pytest.raises(GitError, match="did not answer in time"):
        Git(git_dir=str(repo / ".git"), seconds=-1)("cat-file", "blob", "HEAD:big")
    monkeypatch.setattr(git_edge, "OUTPUT_LIMIT_BYTES", 1000)
    with pytest.raises(GitError, match="printed more than"):
        Git(git_dir=str(repo / ".git"))("cat-file", "blob", "HEAD:big")


def test_no_git_at_all_is_said(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="install git"):
        describe_repo(str(repo))


def test_a_repository_of_another_user_is_read(repo: Path) -> None:
    if os.getuid():
        pytest.skip("only root can give a repository away")
    subprocess.run(["chown", "-R", "65534:65534", str(repo)], check=True)
    assert describe_repo(str(repo)).branch == "main"


@pytest.mark.parametrize(("version", "extension"), [(1, "refStorage"), (1, "ofTheFuture"), (2, "")])
def test_a_repository_that_this_git_cannot_read_is_refused_with_the_way_out(
    repo: Path, version: int, extension: str
) -> None:
    """As one with reftable is by git before 2.45; a newer one is told of another extension."""
    config = repo / ".git" / "config"
    text = config.read_text().replace("repositoryformatversion = 0", f"repositoryformatversion = {version}")
    config.write_text(text + (f"[extensions]\n\t{extension} = sometable\n" if extension else ""))
    with pytest.raises(UsageError, match="update git") as refused:
        describe_repo(str(repo))
    assert "\n" not in str(refused.value)
