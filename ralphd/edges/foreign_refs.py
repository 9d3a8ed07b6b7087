"""Whether a loop's branch was moved by somebody else than its own worktree, and how it goes back with nothing lost."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from functools import lru_cache

from ralphd.core.errors import GitError
from ralphd.core.worktrees import admin_folder, is_object_id, newest_of_log, rescue_prefix
from ralphd.edges.git import Git

_TAIL_BYTES = 8192  # the last lines of a log, or all of a HEAD
INDEX_BYTES = 64 << 20  # of half a million files


def moved_by_others(git: Git, git_dir: str, branch: str, known: str, found: str) -> bool:
    """Tell whether ``branch`` left ``known`` for ``found`` while its worktree stayed where it was.

    Git's own logs tell it. Where they say nothing of ``found``, as a library's that keeps none, or some that were
    emptied, the worktree's index does: whoever commits there has it hold what is committed.
    """
    admin = admin_folder(git_dir, branch)
    at_home = _tail(f"{admin}/HEAD").strip() == os.fsencode(f"ref: refs/heads/{branch}")
    last_here = newest_of_log(_tail(f"{admin}/logs/HEAD"))
    last_moved = newest_of_log(_tail(f"{git_dir}/logs/refs/heads/{branch}"))
    if not at_home or found in {known, last_here}:
        return False
    if last_here == known and last_moved == found:
        return True
    return last_moved != known and _never_came_here(git, admin, known, found)


def _never_came_here(git: Git, admin: str, known: str, found: str) -> bool:
    """Say whether the index is the one of ``known`` to the letter, and not that of ``found``. In doubt: no."""
    try:
        there = os.lstat(f"{admin}/index")
    except OSError:
        return False
    if os.path.lexists(f"{admin}/index.lock"):  # a commit may be under way, which writes the index last
        return False
    return _is_index_of(git, f"{admin}/index", (there.st_ino, there.st_size, there.st_mtime_ns), known, found)


@lru_cache(maxsize=1024)
def _is_index_of(git: Git, index: str, _written: tuple[int, ...], known: str, not_of: str) -> bool:
    with tempfile.NamedTemporaryFile() as copy:  # git itself would wait for the other end of a named pipe
        copy.write(_tail(index, INDEX_BYTES))
        copy.flush()
        its = replace(git, index=copy.name)
        try:
            return [its.answer("diff-index", "--cached", "--quiet", commit) for commit in (known, not_of)] == ["", None]
        except GitError:
            return False


def put_back(git: Git, branch: str, *, found: str, to: str, stamp: str) -> str:
    """Name ``found`` by a rescue ref, set the branch to ``to`` if it is still there, and return the ref.

    Raises GitError, and has moved nothing then.
    """
    if not (is_object_id(found) and is_object_id(to)):
        raise GitError(f"{branch}: {found!r} and {to!r} must be commits")
    ref = f"{rescue_prefix(branch)}/{stamp}-moved-by-others"
    git("update-ref", "--no-deref", ref, found)
    status, _, err = git.run("update-ref", "--no-deref", f"refs/heads/{branch}", to, found)
    if status and git.answer("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}") != to:
        raise GitError(f"{branch} is no longer at {found}: {err.strip()[:200]}", stderr=err)
    return ref


def _tail(path: str, limit: int = _TAIL_BYTES) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        size = os.fstat(fd).st_size
        os.lseek(fd, max(0, size - limit), os.SEEK_SET)
        return os.read(fd, limit)
    except OSError:
        return b""
    finally:
        os.close(fd)
