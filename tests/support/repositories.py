"""Real repositories to try things on, and ways to see that nothing in them moved."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

from ralphd.edges.checkout import describe_repo
from ralphd.edges.night_repository import NightRepository

ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


def git(where: Path | str, *arguments: str, check: bool = True) -> str:
    done = subprocess.run(["git", *arguments], cwd=where, env=ENV, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"git {arguments}: {done.stderr}")
    return done.stdout.rstrip("\n")


def repository(at: Path) -> Path:
    """Two commits, a folder of tests, something ignored."""
    at.mkdir(parents=True)
    git(at, "init", "-q", "-b", "main")
    (at / "tests").mkdir()
    (at / "src").mkdir()
    (at / "tests" / "test_a.py").write_text("assert True\n")
    (at / "src" / "a.py").write_text("a = 1\n")
    (at / ".gitignore").write_text(".env\n*.log\n")
    commit(at, "first")
    (at / "src" / "a.py").write_text("a = 2\n")
    commit(at, "second")
    (at / ".env").write_text("KEY=1\n")
    return at


def commit(at: Path, message: str) -> str:
    git(at, "add", "-A")
    git(at, "commit", "-q", "--allow-empty", "-m", message)
    return git(at, "rev-parse", "HEAD")


def everything(at: Path, *, without: tuple[str, ...] = ()) -> dict[str, tuple[int, str]]:
    """Every file, folder and link below ``at`` by its path: mode and digest of the content."""
    found = {}
    for folder, folders, names in os.walk(at):
        for name in [*folders, *names]:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, at)
            if relative.startswith(without):
                continue
            facts = os.lstat(path)
            if stat.S_ISLNK(facts.st_mode):
                content = os.readlink(path).encode()
            elif stat.S_ISREG(facts.st_mode):
                # An object's file time moves when any clone that shares it by a hard link meets the same content again.
                when = 0 if "/objects/" in path else facts.st_mtime_ns
                content = Path(path).read_bytes() + str(when).encode()
            else:
                content = b""
            found[relative] = (facts.st_mode, hashlib.sha256(content).hexdigest())
    return found


def head(repo: Path) -> str:
    return git(repo, "rev-parse", "HEAD")


def night_of(repo: Path, at: Path) -> NightRepository:
    return NightRepository.create(describe_repo(str(repo)), str(at), head(repo))[0]


def linked(night: NightRepository, at: Path, loop: str = "one", base: str = "") -> Path:
    """A worktree of a loop, checked out."""
    night.add_worktree(str(at), f"ralphd/n1/{loop}", base or git(night.git_dir, "rev-parse", "HEAD"))
    git(at, "reset", "-q", "--hard")
    return at
