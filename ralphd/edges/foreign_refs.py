"""Whether a loop's branch was moved by somebody else than its own worktree, and how it goes back with nothing lost."""

from __future__ import annotations

import os

from ralphd.core.errors import GitError
from ralphd.core.worktrees import admin_folder, is_object_id, newest_of_log, rescue_prefix
from ralphd.edges.git import Git

_TAIL_BYTES = 8192  # the last lines of a log, or all of a HEAD


def moved_by_others(git_dir: str, branch: str, known: str, found: str) -> bool:
    """Tell by git's own logs whether ``branch`` left ``known`` for ``found`` while its worktree stayed where it was.

    Without both logs nobody is blamed: a library may keep none.
    """
    admin = admin_folder(git_dir, branch)
    at_home = _tail(f"{admin}/HEAD").strip() == os.fsencode(f"ref: refs/heads/{branch}")
    last_here = newest_of_log(_tail(f"{admin}/logs/HEAD"))
    last_moved = newest_of_log(_tail(f"{git_dir}/logs/refs/heads/{branch}"))
    return at_home and last_here == known != found == last_moved


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


def _tail(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        size = os.fstat(fd).st_size
        os.lseek(fd, max(0, size - _TAIL_BYTES), os.SEEK_SET)
        return os.read(fd, _TAIL_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)
