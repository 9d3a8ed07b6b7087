"""The files of a night repository that can make git run something: kept as they were, and put back when changed."""

from __future__ import annotations

import os
import shutil
import time

from ralphd.edges.clone import files_below
from ralphd.edges.git import Git

GUARDED = ("config", "config.worktree", "hooks", "info/attributes")
FILE_LIMIT_BYTES = 1 << 20
# Of a configuration that every loop shares: what an agent may set for itself without changing what git runs or means.
HARMLESS = (
    "user.",
    "branch.",
    "color.",
    "advice.",
    "init.",
    "pull.",
    "push.",
    "rerere.",
    "merge.conflictstyle",
    "column.",
)


def keep(git_dir: str, at: str) -> None:
    """Copy the guarded files to the folder ``at``, 0700, for as long as the night lasts."""
    os.mkdir(at, 0o700)
    for path in _files(git_dir):
        target = os.path.join(at, os.path.relpath(path, git_dir))
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        shutil.copyfile(path, target, follow_symlinks=False)


def put_back(git: Git, git_dir: str, at: str, aside: str) -> tuple[str, ...]:
    """Make the guarded files what they were; what was there moves into the folder ``aside``.

    Returns their paths in the repository. Settings of a configuration that only say who an agent is stay. Does nothing
    where nothing was kept. Raises OSError.
    """
    if not os.path.isdir(at):
        return ()
    kept = {os.path.relpath(path, at) for path in _files(at)}
    there = {os.path.relpath(path, git_dir) for path in _files(git_dir)}
    return tuple(name for name in sorted(kept | there) if _put_back(git, (git_dir, at, aside), name, kept=name in kept))


def _put_back(git: Git, places: tuple[str, str, str], name: str, *, kept: bool) -> bool:
    git_dir, at, aside = places
    now, then = os.path.join(git_dir, name), os.path.join(at, name)
    if kept and _content(now) == _content(then) is not None:
        return False
    if name.startswith("config") and _harmless(git, then, now):
        return False
    if os.path.lexists(now):
        os.makedirs(aside, mode=0o700, exist_ok=True)
        os.rename(now, os.path.join(aside, f"{name.replace('/', '-')}-{time.time_ns()}"))
    if kept:
        os.makedirs(os.path.dirname(now), exist_ok=True)
        draft = f"{now}.ralphd-{os.getpid()}"
        shutil.copyfile(then, draft)
        shutil.copymode(then, draft)
        os.replace(draft, now)
    return True


def _harmless(git: Git, then: str, now: str) -> bool:
    """Tell whether two configurations differ only in what concerns nobody but the one who set it."""
    before, after = _settings(git, then), _settings(git, now)
    if after is None:
        return False
    changed = set(before or ()) ^ set(after)
    return all(setting.partition("\n")[0].lower().startswith(HARMLESS) for setting in changed)


def _settings(git: Git, path: str) -> list[str] | None:
    """Return key, newline, value of each setting, none for a file that isn't there; None where git can't read it."""
    if not os.path.lexists(path):
        return []
    if _content(path) is None:
        return None
    status, out, _ = git.run("config", "--file", path, "--no-includes", "--list", "--null")
    return None if status else [os.fsdecode(setting) for setting in out.split(b"\0") if setting]


def _files(root: str) -> list[str]:
    return [file for name in GUARDED for file in files_below(os.path.join(root, name))]


def _content(path: str) -> bytes | None:
    """Read a small plain file that somebody hostile may have replaced: no link is followed, no pipe waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(fd, FILE_LIMIT_BYTES)
    except OSError:
        return None
    finally:
        os.close(fd)
