"""Put single files of a loop's worktree back as they were at the start, by a commit that changes nothing else."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ralphd.pane.rescue import commit_tree, rescue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.pane.git import Git
    from ralphd.pane.worktree import Place

MESSAGE = "Put protected files back as they were"
_NUL = ("--pathspec-from-file=-", "--pathspec-file-nul")


@dataclass(frozen=True, kw_only=True)
class Restored:
    """``paths`` were put back by ``commit``; ``ref`` holds what was unsaved in the worktree, if anything."""

    paths: tuple[str, ...]
    commit: str
    ref: str


def restore(place: Place, base: str, paths: tuple[str, ...], stamp: str) -> Restored | None:
    """Make ``paths`` what commit ``base`` holds; None where they are. No process of the loop may be alive.

    The change that is undone stays in the branch's history. Raises GitError.
    """
    git = place.git()
    head = git("rev-parse", "--verify", "HEAD^{commit}")
    differ = tuple(path for path in paths if _of(git, base, path) != _of(git, head, path))
    if not differ:
        return None
    saved = rescue(place, stamp, survives=head)
    commit = _commit(place, base, head, differ)
    git("update-ref", "--no-deref", place.ref, commit, head)
    listed = b"".join(b":(literal)" + os.fsencode(path) + b"\0" for path in differ)
    git("reset", "--quiet", *_NUL, stdin=listed)
    kept = [path for path in differ if _of(git, base, path)]
    for path in differ:
        at = f"{place.worktree}/{path}"
        if path not in kept and os.path.lexists(at) and not os.path.isdir(at):
            os.unlink(at)
    if kept:
        git(
            "checkout",
            "--quiet",
            "--force",
            *_NUL,
            stdin=b"".join(b":(literal)" + os.fsencode(p) + b"\0" for p in kept),
        )
    return Restored(paths=differ, commit=commit, ref=saved.ref)


def _of(git: Git, commit: str, path: str) -> str:
    """Return mode, type, object and name of a path in a commit, empty where it has none."""
    return git("ls-tree", "-r", "-z", "--full-tree", commit, "--", f":(literal){path}")


def _commit(place: Place, base: str, head: str, paths: tuple[str, ...]) -> str:
    index = f"{place.admin}/ralphd-restore.index"
    git = place.git(index)
    lines = []
    for path in paths:
        found = _of(git, base, path)
        mode, _, rest = found.partition(" ")
        lines.append(f"{mode} {rest.split(' ', 1)[1]}" if found else f"0 {'0' * len(head)}\t{path}\0")
    try:
        git("read-tree", head)
        git("update-index", "-z", "--index-info", stdin=os.fsencode("".join(lines)))
        return commit_tree(git, head, git("write-tree"), MESSAGE)
    finally:
        for path in (index, f"{index}.lock"):
            if os.path.lexists(path):
                os.unlink(path)
