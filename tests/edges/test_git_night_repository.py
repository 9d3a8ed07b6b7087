"""The night repository: made from any checkout, safe from what loops do to it, and converging."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support.repositories import commit, everything, git, head, linked, repository

from ralphd.core.errors import UsageError
from ralphd.edges.checkout import deliver, describe_repo
from ralphd.edges.night_repository import Base, NightRepository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def create(repo: Path, at: Path, **options: bool) -> tuple[NightRepository, Base]:
    seen = describe_repo(str(repo))
    return NightRepository.create(seen, str(at), seen.head or "", **options)


@pytest.fixture
def night(repo: Path, tmp_path: Path) -> NightRepository:
    return create(repo, tmp_path / "night")[0]


def test_a_clone_of_hard_links_that_leaves_the_source_alone(repo: Path, tmp_path: Path) -> None:
    git(repo, "tag", "v1", "HEAD~1")
    git(repo, "remote", "add", "origin", "https://example.org/x")
    (repo / ".git" / "info" / "exclude").write_text("secret/\n")
    before = everything(repo)
    night, base = create(repo, tmp_path / "night")
    assert replace(base, guarded="") == Base(commit=head(repo), uncommitted=0, included=False)
    assert everything(repo) == before
    assert git(night.git_dir, "for-each-ref", "--format=%(refname)").split() == ["refs/ralphd/base", "refs/tags/v1"]
    assert git(night.git_dir, "remote") == ""
    assert git(night.git_dir, "config", "gc.auto") == "0"
    assert Path(night.git_dir, "info", "exclude").read_text() == "secret/\n"
    assert git(night.git_dir, "fsck", "--strict") == ""
    blob = git(repo, "rev-parse", "HEAD:src/a.py")
    ours, theirs = (Path(side, "objects", blob[:2], blob[2:]).stat() for side in (night.git_dir, repo / ".git"))
    assert ours.st_ino == theirs.st_ino


@pytest.mark.parametrize("name", ["with space", "new\nline", "quo\"te'", "-rf", "emoji 🦊", "co:lon", "back\\slash"])
def test_any_folder_name_works(tmp_path: Path, name: str) -> None:
    repo = repository(tmp_path / name / name)
    night, base = create(repo, tmp_path / name / "state" / "night")
    at = linked(night, tmp_path / name / "work" / "one")
    (at / "b").write_text("b")
    done = commit(at, "b")
    assert night.heads("ralphd/n1/")["ralphd/n1/one"].commit == done
    deliver(describe_repo(str(repo)), night.control, "n1")
    assert git(repo, "rev-parse", "refs/ralphd/n1/one") == done
    assert base.commit == head(repo)


def test_from_a_shallow_clone(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
    night, base = create(tmp_path / "shallow", tmp_path / "night")
    at = linked(night, tmp_path / "one")
    commit(at, "more")
    assert night.commits_between(base.commit, git(at, "rev-parse", "HEAD")) == 1
    assert git(at, "log", "--format=%s") == "more\nsecond"


def test_from_a_linked_worktree_at_a_commit_of_no_branch(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    lost = commit(tmp_path / "linked", "on no branch")
    night, base = create(tmp_path / "linked", tmp_path / "night")
    assert base.commit == lost
    assert head(linked(night, tmp_path / "one")) == lost


def test_from_a_clone_that_borrows_its_objects(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--shared", str(repo), "borrower")
    night, _ = create(tmp_path / "borrower", tmp_path / "night")
    assert (linked(night, tmp_path / "one") / "src" / "a.py").read_text() == "a = 2\n"


def test_from_a_partial_clone_only_if_its_files_are_there(repo: Path, tmp_path: Path) -> None:
    git(repo, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{repo}", "partial")
    night, _ = create(tmp_path / "partial", tmp_path / "night")
    assert (linked(night, tmp_path / "one") / "src" / "a.py").exists()
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{repo}", "empty")
    with pytest.raises(UsageError, match="partial clone and 3 files"):
        create(tmp_path / "empty", tmp_path / "night2")
    assert not (tmp_path / "night2").exists()
    assert not (tmp_path / "night2.building").exists()


def test_sha256_repositories(tmp_path: Path) -> None:
    at = tmp_path / "repo"
    at.mkdir()
    git(at, "init", "-q", "--object-format=sha256")
    (at / "a").write_text("a")
    commit(at, "a")
    night, base = create(at, tmp_path / "night")
    assert len(base.commit) == 64
    assert (linked(night, tmp_path / "one") / "a").exists()


def test_from_a_repository_of_another_user(repo: Path, tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("only root can give a repository away")
    subprocess.run(["chown", "-R", "65534:65534", str(repo)], check=True)
    night, _ = create(repo, tmp_path / "night")
    assert (linked(night, tmp_path / "one") / "src").is_dir()


def test_uncommitted_changes_are_left_out_and_counted(repo: Path, tmp_path: Path) -> None:
    (repo / "src" / "a.py").write_text("changed")
    (repo / "new").write_text("new")
    night, base = create(repo, tmp_path / "night")
    assert replace(base, guarded="") == Base(commit=head(repo), uncommitted=2, included=False)
    assert not (linked(night, tmp_path / "one") / "new").exists()


def test_uncommitted_changes_become_the_base_on_request(repo: Path, tmp_path: Path) -> None:
    (repo / "src" / "a.py").write_text("changed")
    (repo / "src" / "b.py").write_text("staged")
    git(repo, "add", "src/b.py")
    (repo / "deep" / "er").mkdir(parents=True)
    (repo / "deep" / "er" / "new\nfile").write_text("new")
    (repo / "tests" / "test_a.py").unlink()
    before = everything(repo)
    night, base = create(repo, tmp_path / "night", with_uncommitted=True)
    assert everything(repo) == before
    assert (base.included, base.uncommitted) == (True, 4)
    assert git(night.git_dir, "rev-parse", "refs/ralphd/base", f"{base.commit}^").split() == [base.commit, head(repo)]
    at = linked(night, tmp_path / "one", base=base.commit)
    assert (at / "src" / "a.py").read_text() == "changed"
    assert (at / "deep" / "er" / "new\nfile").exists()
    assert not (at / "tests").exists()
    assert not (at / ".env").exists()
    assert git(at, "status", "--porcelain") == ""


def test_what_git_cannot_add_is_said(repo: Path, tmp_path: Path) -> None:
    git(repo, "init", "-q", "nested")
    (repo / "nested" / "f").write_text("f")
    with pytest.raises(UsageError, match="nested"):
        create(repo, tmp_path / "night", with_uncommitted=True)
    assert not (tmp_path / "night").exists()


def test_nothing_uncommitted_makes_no_commit(repo: Path, tmp_path: Path) -> None:
    assert create(repo, tmp_path / "night", with_uncommitted=True)[1].commit == head(repo)


def test_uncommitted_changes_of_an_open_merge_or_another_base_are_refused(repo: Path, tmp_path: Path) -> None:
    (repo / "new").write_text("new")
    seen = describe_repo(str(repo))
    with pytest.raises(UsageError, match=r"leave task\.base at HEAD"):
        NightRepository.create(seen, str(tmp_path / "n"), git(repo, "rev-parse", "HEAD~1"), with_uncommitted=True)
    (repo / ".git" / "MERGE_HEAD").write_text(head(repo) + "\n")
    with pytest.raises(UsageError, match="a merge is open"):
        create(repo, tmp_path / "n", with_uncommitted=True)
    assert not (tmp_path / "n").exists()


def test_questions_about_commits(night: NightRepository, tmp_path: Path, repo: Path) -> None:
    at, base = linked(night, tmp_path / "one"), head(repo)
    git(at, "mv", "src/a.py", "src/b.py")
    (at / "-x\n").write_text("x")
    done = commit(at, "do\x1b[31m it\n\nbody")
    assert night.changed_paths(base, done) == ("-x\n", "src/a.py", "src/b.py")
    assert night.is_ancestor(base, done)
    assert not night.is_ancestor(done, base)
    assert night.commits_between(base, done) == 1
    assert night.tree_of(done) == git(at, "rev-parse", "HEAD^{tree}")
    assert night.subject_of(done) == "do\ufffd[31m it"


def test_heads_of_a_night_with_one_damaged_branch(night: NightRepository, tmp_path: Path, repo: Path) -> None:
    at = linked(night, tmp_path / "one")
    done = commit(at, "x")
    Path(night.git_dir, "refs", "heads", "ralphd", "n1", "bad").write_text("1" * 40 + "\n")
    Path(night.git_dir, "refs", "heads", "ralphd", "n1", "worse").write_text("rubbish\n")
    tips = night.heads("ralphd/n1/")
    assert tips["ralphd/n1/one"].commit == done
    assert tips["ralphd/n1/one"].tree == git(repo, "rev-parse", "HEAD^{tree}")
    assert tips["ralphd/n1/bad"].tree == ""
    assert night.heads("ralphd/n2/") == {}


def test_heads_survive_packing_by_an_agent(night: NightRepository, tmp_path: Path) -> None:
    at = linked(night, tmp_path / "one")
    done = commit(at, "x")
    git(at, "gc", "-q", "--prune=now")
    assert night.heads("ralphd/n1/")["ralphd/n1/one"].commit == done


def test_a_foreign_change_shows_by_name(night: NightRepository, tmp_path: Path) -> None:
    before = night.fingerprint()
    at = linked(night, tmp_path / "one")
    commit(at, "ordinary work")
    assert night.fingerprint() == before
    git(at, "config", "core.editor", "evil")
    Path(night.git_dir, "hooks", "post-commit").symlink_to("/bin/true")
    Path(night.git_dir, "info", "attributes").write_text("* filter=x\n")
    after = night.fingerprint()
    assert {name for name in after if after[name] != before.get(name)} == {
        "config",
        "hooks/post-commit",
        "info/attributes",
    }
