"""A bench holds exactly the candidate, the protected paths of the base, and nothing of whoever was there before."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.payloads import plant
from support.repositories import ENV, commit, everything, git, head, linked, night_of, repository

from ralphd.core.errors import GitError
from ralphd.edges.bench import Bench
from ralphd.edges.night_repository import NightRepository

PROTECT = ["tests/**"]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


@pytest.fixture
def night(repo: Path, tmp_path: Path) -> NightRepository:
    return night_of(repo, tmp_path / "night")


@pytest.fixture
def work(night: NightRepository, tmp_path: Path) -> Path:
    return linked(night, tmp_path / "one")


@pytest.fixture
def bench(night: NightRepository, tmp_path: Path) -> Bench:
    return Bench(night, str(tmp_path / "bench"))


def files(bench: Bench) -> set[str]:
    return {
        os.path.relpath(os.path.join(folder, name), bench.tree)
        for folder, folders, names in os.walk(bench.tree)
        for name in [*names, *(f for f in folders if os.path.islink(os.path.join(folder, f)))]
    } - {".git"}


ALL = {".gitignore", "src/a.py", "tests/test_a.py"}


def test_holds_exactly_the_candidate(bench: Bench, work: Path, repo: Path) -> None:
    (work / "src" / "a.py").write_text("a = 3\n")
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    candidate = commit(work, "c")
    made = bench.prepare(candidate, PROTECT, head(repo))
    assert (made.tampered, made.commit) == ((), candidate)
    assert files(bench) == ALL | {"run.sh"}
    assert Path(made.tree, "src", "a.py").read_text() == "a = 3\n"
    assert os.access(os.path.join(made.tree, "run.sh"), os.X_OK)
    assert git(made.tree, "rev-parse", "HEAD") == candidate
    assert git(made.tree, "status", "--porcelain") == ""


def test_protected_paths_come_from_the_base(bench: Bench, work: Path, repo: Path) -> None:
    (work / "tests" / "test_a.py").unlink()
    (work / "tests" / "test_b.py").write_text("assert False\n")
    (work / "src" / "b.py").write_text("b = 1\n")
    candidate = commit(work, "cheat")
    made = bench.prepare(candidate, PROTECT, head(repo))
    assert made.tampered == ("tests/test_a.py", "tests/test_b.py")
    assert files(bench) == ALL | {"src/b.py"}
    assert Path(made.tree, "tests", "test_a.py").read_text() == "assert True\n"


def test_a_link_or_a_file_in_the_place_of_a_protected_folder(
    bench: Bench, work: Path, repo: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(work / "tests")
    (work / "tests").symlink_to(outside)
    made = bench.prepare(commit(work, "link"), PROTECT, head(repo))
    assert made.tampered == ("tests", "tests/test_a.py")
    assert files(bench) == ALL
    assert not Path(made.tree, "tests").is_symlink()
    (work / "tests").unlink()
    (work / "tests").write_text("a file")
    assert bench.prepare(commit(work, "file"), ["tests/test_a.py"], head(repo)).tampered == ("tests/test_a.py",)
    assert files(bench) == ALL
    assert os.listdir(outside) == []


def test_nothing_of_the_last_verification_is_left(bench: Bench, work: Path, repo: Path, tmp_path: Path) -> None:
    """Nor does removing it reach through a link, and what can't be deleted is out of the way all the same."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    base = head(repo)
    tree = Path(bench.prepare(base, PROTECT, base).tree)
    (tree / "src" / "a.py").write_text("poisoned")
    os.utime(tree / "src" / "a.py", ns=(0, 0))
    (tree / "x.log").write_text("ignored")
    (tree / "out").symlink_to(outside)
    (tree / "locked" / "deep").mkdir(parents=True)
    (tree / "locked" / "deep" / "f").write_text("f")
    (tree / "locked").chmod(0o500)
    (tree / "-rf").write_text("")
    os.mkfifo(tree / "fifo")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tree / "socket"))
        bench.prepare(base, PROTECT, base)
    assert files(bench) == ALL
    assert (tree / "src" / "a.py").read_text() == "a = 2\n"
    assert (outside / "kept").exists()
    assert os.listdir(os.path.join(bench.at, "trash")) == []


def test_a_tree_deeper_than_any_path_goes(bench: Bench, repo: Path) -> None:
    base = head(repo)
    tree = bench.prepare(base, PROTECT, base).tree
    dig = "import os\nfor _ in range(1500):\n    os.mkdir('dddd')\n    os.chdir('dddd')"
    subprocess.run([sys.executable, "-c", dig], cwd=tree, check=True)
    bench.prepare(base, PROTECT, base)
    assert os.listdir(os.path.join(bench.at, "trash")) == []


def test_each_candidate_starts_from_what_the_setup_made(bench: Bench, work: Path, repo: Path) -> None:
    base = head(repo)
    assert not bench.is_saved
    tree = Path(bench.prepare(base, PROTECT, base).tree)
    (tree / "venv").mkdir()
    (tree / "venv" / "lib").write_text("lib")
    (tree / "src" / "a.py").write_text("changed by the setup")
    bench.save()
    assert bench.is_saved
    (work / "src" / "a.py").unlink()
    (work / "c.py").write_text("c")
    first = commit(work, "c")
    bench.prepare(first, PROTECT, base)
    assert files(bench) == {".gitignore", "c.py", "tests/test_a.py", "venv/lib"}
    assert not (tree / "src").exists()
    (tree / "venv" / "lib").write_text("poisoned")
    (tree / "venv" / "more").write_text("poison")
    bench.prepare(base, PROTECT, base)
    assert files(bench) == ALL | {"venv/lib"}
    assert (tree / "venv" / "lib").read_text() == "lib"
    assert (tree / "src" / "a.py").read_text() == "a = 2\n"


def test_a_saved_link_is_never_written_through(bench: Bench, work: Path, repo: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("kept")
    (work / "data").symlink_to(outside)
    base = commit(work, "a link")
    bench.prepare(base, PROTECT, base)
    bench.save()
    (work / "data").unlink()
    (work / "data").mkdir()
    (work / "data" / "f").write_text("mine")
    bench.prepare(commit(work, "a folder"), PROTECT, base)
    assert Path(bench.tree, "data", "f").read_text() == "mine"
    assert (outside / "f").read_text() == "kept"


def test_names_made_to_hurt(bench: Bench, work: Path, repo: Path) -> None:
    names = {
        "-rf",
        "new\nline",
        "tab\there",
        'quo"te',
        "*",
        "tests/[x]\n.py",
        b"\xff\xfe".decode("utf-8", "surrogateescape"),
    }
    for name in names:
        (work / name).write_text(name.encode("utf-8", "replace").decode())
    made = bench.prepare(commit(work, "names"), PROTECT, head(repo))
    assert made.tampered == ("tests/[x]\n.py",)
    assert files(bench) == ALL | names - {"tests/[x]\n.py"}


def test_filters_and_submodules_of_a_candidate_run_nothing(
    bench: Bench, work: Path, repo: Path, night: NightRepository, tmp_path: Path
) -> None:
    (work / ".gitattributes").write_text("* filter=x diff=x\n")
    (work / ".gitmodules").write_text('[submodule "x"]\n\tpath = sub\n\turl = ext::sh -c "touch /tmp/no"\n')
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{head(repo)},sub")
    git(work, "add", ".gitattributes", ".gitmodules")
    git(work, "commit", "-qm", "evil")
    candidate = head(work)
    ran = plant(Path(night.git_dir), tmp_path)
    bench.prepare(candidate, PROTECT, head(repo))
    plant(Path(bench.at, "git"), tmp_path)  # as a candidate's own code may do while it is verified
    subprocess.run(["git", "status"], cwd=bench.tree, env=ENV, capture_output=True, check=False)
    assert ran.exists(), "the payloads must be live, or this test shows nothing"
    ran.unlink()
    bench.prepare(candidate, PROTECT, head(repo))
    assert files(bench) == ALL | {".gitattributes", ".gitmodules"}
    assert not ran.exists()


def test_a_candidate_that_carries_a_git_folder_is_refused(bench: Bench, work: Path, repo: Path) -> None:
    blob = git(work, "rev-parse", "HEAD:src/a.py")
    made = subprocess.run(
        ["git", "mktree"],
        cwd=work,
        env=ENV,
        input=f"100644 blob {blob}\t.git\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    candidate = git(work, "commit-tree", made, "-p", "HEAD", "-m", "trick")
    with pytest.raises(GitError, match="invalid path"):
        bench.prepare(candidate, PROTECT, head(repo))
    assert bench.prepare(head(repo), PROTECT, head(repo)).tampered == ()


def test_the_night_repository_and_the_worktree_stay_as_they_are(
    bench: Bench, work: Path, repo: Path, night: NightRepository
) -> None:
    candidate = commit(work, "c")
    before = everything(Path(night.git_dir)), everything(work)
    tree = bench.prepare(candidate, PROTECT, head(repo)).tree
    Path(tree, "new").write_text("new")
    commit(Path(tree), "by the verifier")
    bench.prepare(candidate, PROTECT, head(repo))
    assert (everything(Path(night.git_dir)), everything(work)) == before
