"""What kinds of repository does a night run in, and which does it refuse with one clear line?"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.nightbox import NightBox, night_box
from support.repositories import commit, git, head, repository

from ralphd.core import records

AGENT = """#!/bin/sh
cat >/dev/null
echo work >work; git add -A; git commit -qm work
echo '{"type":"result","text":"Made."}'
sleep 0.3
"""
FILES = 50_000
# Whoever it belongs to, and whatever its replace refs say.
ANYBODYS = ("-c", "safe.directory=*", "--no-replace-objects")
pytestmark = pytest.mark.slow


def plain(at: Path) -> Path:
    repo = repository(at)
    (repo / "PROMPT.md").write_text("Go on.\n")
    commit(repo, "Ask")
    return repo


def submodule(at: Path) -> Path:
    inner, repo = repository(at.parent / "inner"), plain(at)
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    commit(repo, "With a submodule")
    return repo


def shallow(at: Path) -> Path:
    git(at.parent, "clone", "-q", "--depth", "1", f"file://{plain(at.parent / 'whole')}", str(at))
    return at


def partial_whole(at: Path) -> Path:
    """A partial clone whose checkout brought all that HEAD needs."""
    whole = plain(at.parent / "whole")
    git(whole, "config", "uploadpack.allowFilter", "true")
    git(at.parent, "clone", "-q", "--filter=blob:none", f"file://{whole}", str(at))
    return at


def lfs_pointers(at: Path) -> Path:
    """Large files that were never fetched: pointers, and a filter that isn't installed."""
    repo = plain(at)
    (repo / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (repo / "big.bin").write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9999999\n")
    commit(repo, "A pointer")
    return repo


def open_merge(at: Path) -> Path:
    repo = plain(at)
    git(repo, "checkout", "-q", "-b", "side", "HEAD~1")
    (repo / "PROMPT.md").write_text("Other.\n")
    commit(repo, "other")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "side", check=False)
    (repo / "PROMPT.md").write_text("Go on.\n")
    return repo


def open_rebase(at: Path) -> Path:
    repo = open_merge(at)
    git(repo, "merge", "--abort")
    git(repo, "rebase", "side", check=False)
    (repo / "PROMPT.md").write_text("Go on.\n")
    assert (repo / ".git" / "rebase-merge").exists()
    return repo


def detached(at: Path) -> Path:
    repo = plain(at)
    git(repo, "checkout", "-q", "--detach")
    return repo


def linked_worktree(at: Path) -> Path:
    git(plain(at.parent / "first"), "worktree", "add", "-q", "--detach", str(at))
    return at


def sha256(at: Path) -> Path:
    at.mkdir()
    git(at, "init", "-q", "-b", "main", "--object-format=sha256")
    (at / "PROMPT.md").write_text("Go on.\n")
    commit(at, "Ask")
    return at


def borrowing(at: Path) -> Path:
    git(at.parent, "clone", "-q", "--shared", str(plain(at.parent / "lender")), str(at))
    return at


def replaced(at: Path) -> Path:
    """A replace ref and a graft: what HEAD is must not depend on either."""
    repo = plain(at)
    fake = git(repo, "commit-tree", "-m", "not this", "HEAD~2^{tree}")
    git(repo, "replace", "HEAD", fake)
    (repo / ".git" / "info" / "grafts").write_text(git(repo, "--no-replace-objects", "rev-parse", "HEAD") + "\n")
    return repo


def hidden_untracked(at: Path) -> Path:
    repo = plain(at)
    git(repo, "config", "status.showUntrackedFiles", "no")
    return repo


def nested(at: Path) -> Path:
    repo = plain(at)
    for name in ("one", "two"):
        repository(repo / name)
    return repo


def anothers(at: Path) -> Path:
    repo = plain(at)
    for path in (repo, *repo.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    return repo


def split_index(at: Path) -> Path:
    repo = plain(at)
    git(repo, "update-index", "--split-index")
    return repo


def packed(at: Path) -> Path:
    repo = plain(at)
    git(repo, "gc", "-q")
    git(repo, "pack-refs", "--all")
    return repo


WORKING = [
    submodule,
    shallow,
    partial_whole,
    lfs_pointers,
    open_merge,
    open_rebase,
    detached,
    linked_worktree,
    sha256,
    borrowing,
    replaced,
    hidden_untracked,
    nested,
    pytest.param(anothers, marks=pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")),
    split_index,
    packed,
]


def unborn(at: Path) -> tuple[Path, str]:
    at.mkdir()
    git(at, "init", "-q", "-b", "main")
    (at / "PROMPT.md").write_text("Go on.\n")
    return at, "has no commit yet"


def bare(at: Path) -> tuple[Path, str]:
    git(at.parent, "clone", "-q", "--bare", str(plain(at.parent / "first")), str(at))
    (at / "PROMPT.md").write_text("Go on.\n")
    return at, "bare repository"


def no_repository(at: Path) -> tuple[Path, str]:
    at.mkdir()
    repository(at / "one")
    repository(at / "two")
    (at / "PROMPT.md").write_text("Go on.\n")
    return at, "is not in a git repository"


def partial_without_files(at: Path) -> tuple[Path, str]:
    whole = plain(at.parent / "whole")
    git(whole, "config", "uploadpack.allowFilter", "true")
    git(at.parent, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{whole}", str(at))
    (at / "PROMPT.md").write_text("Go on.\n")
    return at, "is a partial clone"


def damaged(at: Path) -> tuple[Path, str]:
    repo = plain(at)
    tree = git(repo, "rev-parse", "HEAD^{tree}")
    (repo / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    return repo, "git fsck"


def unknown_extension(at: Path) -> tuple[Path, str]:
    repo = plain(at)
    git(repo, "config", "core.repositoryFormatVersion", "1")
    git(repo, "config", "extensions.fromTheFuture", "true")
    return repo, "fromthefuture"


REFUSED = [unborn, bare, no_repository, partial_without_files, damaged, unknown_extension]


@contextmanager
def box_in(tmp_path: Path, repo: Path, more: str = "") -> Iterator[NightBox]:
    agent = tmp_path / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    with night_box(tmp_path, repo) as box:
        box.configure(f'[night]\nwidth = 1\n[agent]\ncli = "command"\nprogram = "{agent}"\n{more}')
        yield box


def a_night(box: NightBox, sessions: int = 1) -> str:
    """Run one, and return the commit of its loop as it was brought over."""
    before = box.user_files()
    box.start("--for", "10m")
    box.wait_for(records.TrajectoryEnded, sessions, loop="loop-1")
    box.stop()
    assert box.user_files() == before
    return git(box.repo, *ANYBODYS, "rev-parse", f"refs/ralphd/{box.nights()[-1]}/loop-1")


@pytest.mark.parametrize("make", WORKING)
def test_a_night_works_in(make: Callable[[Path], Path], tmp_path: Path) -> None:
    repo = make(tmp_path / "repo")
    start = git(repo, *ANYBODYS, "rev-parse", "HEAD")
    with box_in(tmp_path, repo) as box:
        done = a_night(box)
    assert git(repo, *ANYBODYS, "rev-parse", f"{done}~1") == start
    assert git(repo, *ANYBODYS, "show", f"{done}:work") == "work"
    assert git(repo, *ANYBODYS, "diff", "--name-only", start, done) == "work"


@pytest.mark.parametrize("make", REFUSED)
def test_a_night_is_refused_in_one_clear_line(make: Callable[[Path], tuple[Path, str]], tmp_path: Path) -> None:
    repo, why = make(tmp_path / "repo")
    with box_in(tmp_path, repo) as box:
        said = box.start(code=None)
        assert said.returncode in (1, 2), said
        refusals = [line for line in said.stderr.splitlines() if why in line]
        assert len(refusals) == 1, said.stderr
        assert "Traceback" not in said.stdout + said.stderr
        assert box.nights() == []
        assert not list((box.state / "nights").glob("*")) if (box.state / "nights").exists() else True


def test_repositories_whose_paths_differ_only_in_case_are_two(tmp_path: Path) -> None:
    """Each task works in its own; and what ralphd names after them would be two names on any disk."""
    repos = {"upper": plain(tmp_path / "Repo"), "lower": plain(tmp_path / "repo")}
    for name, repo in repos.items():
        (repo / "whose").write_text(name)
        commit(repo, f"Of {name}")
    tasks = "".join(f'[[task]]\nname = "{name}"\nrepo = "{repo}"\n' for name, repo in repos.items())
    with box_in(tmp_path, repos["lower"], tasks) as box:
        toml = repos["lower"] / "ralphd.toml"
        toml.write_text(toml.read_text().replace("width = 1", "width = 2"))
        box.start("--for", "10m")
        for name in repos:
            box.wait_for(records.TrajectoryEnded, 1, loop=f"{name}-1")
        box.stop()
        (night,) = box.nights()
        made = [path.name for path in (box.state / "nights" / night / "repositories").iterdir()]
    assert sorted(made) == ["lower", "upper"] == sorted(name.casefold() for name in made)
    for name, repo in repos.items():
        refs = git(repo, "for-each-ref", "--format=%(refname)", f"refs/ralphd/{night}/").splitlines()
        assert f"refs/ralphd/{night}/{name}-1" in refs
        assert not [ref for ref in refs if ref.endswith("-1") and not ref.endswith(f"/{name}-1")]
        assert git(repo, "show", f"refs/ralphd/{night}/{name}-1:whose") == name
        assert git(repo, "show", f"refs/ralphd/{night}/{name}-1:work") == "work"


@pytest.mark.parametrize("tasks", ['repo = "{0}/Repo"\n', 'name = "Main"\n'], ids=["path", "name"])
def test_a_name_in_another_case_is_never_guessed(tmp_path: Path, tasks: str) -> None:
    repo = plain(tmp_path / "repo")
    with box_in(tmp_path, repo, "[[task]]\n" + tasks.format(tmp_path)) as box:
        said = box.start(code=2).stderr
        assert box.nights() == []
    (line,) = said.splitlines()
    assert ("Repo" if "repo" in tasks else "Main") in line


@pytest.mark.skipif(os.getuid() == 0 and not Path("/usr/bin/setpriv").exists(), reason="root writes everywhere")
def test_a_checkout_that_nobody_may_write_is_fine(tmp_path: Path) -> None:
    """Its files, not its git folder: results must be brought somewhere."""
    repo = plain(tmp_path / "repo")
    with box_in(tmp_path, repo) as box:
        for path in (repo / "src", repo / "src" / "a.py", repo):
            path.chmod(path.stat().st_mode & ~0o222)
        try:
            done = a_night(box)
        finally:
            repo.chmod(0o755)
            (repo / "src").chmod(0o755)
    assert git(repo, "show", f"{done}:work") == "work"


@pytest.fixture(scope="module")
def vast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of fifty thousand files; a night leaves it as it was."""
    repo = plain(tmp_path_factory.mktemp("vast") / "repo")
    stream = "".join(
        ["commit refs/heads/main\ncommitter A <a@example.org> 1780000000 +0000\ndata 1\nx\nfrom refs/heads/main^0\n"]
        + [f"M 100644 inline d{n % 100}/f{n}\ndata {len(str(n)) + 1}\n{n}\n\n" for n in range(FILES)]
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=repo, input=stream.encode(), check=True)
    git(repo, "reset", "-q", "--hard")
    return repo


@pytest.mark.parametrize("sparse", ["", '[worktree]\nsparse = ["d7"]\n'], ids=["whole", "sparse"])
def test_a_night_in_fifty_thousand_files(vast: Path, tmp_path: Path, sparse: str) -> None:
    with box_in(tmp_path, vast, sparse) as box:
        done = a_night(box)
        (prepared,) = box.journal(records.Prepared, "loop-1")
        there = len(list(box.worktree("loop-1").glob("d*")))
    assert there == (1 if sparse else 100)
    assert git(vast, "diff", "--name-only", head(vast), done) == "work"
    assert prepared.body.seconds < 120
