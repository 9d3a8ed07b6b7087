"""Save the work of a worktree, committed or not, to a ref that nothing moves or deletes."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ralphd.core.errors import GitError
from ralphd.core.worktrees import rescue_prefix
from ralphd.pane.git import Git
from ralphd.pane.worktree import Place

# Notes and memories of agents are some files of some kilobytes; what is more is made by tools, and dear to make again.
HIDDEN_FILES, HIDDEN_BYTES, HIDDEN_MOST = 64, 1 << 20, 512


@dataclass(frozen=True, kw_only=True)
class Rescue:
    """``ref`` is empty when there was nothing to save; not ``complete`` when git could not read some file.

    ``moved_aside``: where the whole worktree went because of that, or empty.
    """

    ref: str
    complete: bool
    moved_aside: str = ""


def rescue(place: Place, stamp: str, *, survives: str, also: tuple[str, ...] = ()) -> Rescue:
    """Commit what is staged, changed and untracked on top of HEAD, in an index apart, and name it by a ref.

    ``also``: ignored files that are saved with it.
    Nothing is named when all of it is reachable from ``survives``, a commit that stays.
    """
    index = f"{place.admin}/ralphd-rescue.index"
    git = place.git(index)
    head = git.answer("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or survives
    try:
        _copy_index(place, git, index, head)
        staged = git.answer("write-tree")
        complete = git.succeeds("add", "--all", "--ignore-errors", *(["--sparse"] if place.sparse else []), "--", ".")
        if also:
            listed = b"".join(b":(literal)" + os.fsencode(name) + b"\0" for name in also)
            from_stdin = ("--pathspec-from-file=-", "--pathspec-file-nul")
            complete = git.run("add", "--force", "--ignore-errors", *from_stdin, stdin=listed)[0] == 0 and complete
        unsaved = git("write-tree")
    finally:
        for path in (index, f"{index}.lock"):
            if os.path.lexists(path):
                os.unlink(path)
    commit = commit_tree(git, head, staged, "Staged when ralphd saved it") if staged != unsaved else head
    commit = commit_tree(git, commit, unsaved, "Unsaved when ralphd saved it")
    return Rescue(ref=save_unless_kept(git, place, commit, stamp, survives=survives), complete=complete)


def hidden_files(place: Place) -> tuple[str, ...]:
    """Return the ignored files that may mislead: small ones, in folders of few, but for those that were included."""
    listed = place.git().answer("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    found: list[str] = []
    for name in listed.split("\0"):
        if not name or name.rstrip("/") in place.include or os.path.basename(name.rstrip("/")).startswith(".env"):
            continue
        files = _below(place.worktree, name.rstrip("/"))
        if files is not None:
            found += [file for file in files if file not in place.include]
    return tuple(found[:HIDDEN_MOST])


def _below(root: str, name: str) -> list[str] | None:
    """Return the plain files at or below ``name``; None where they are many or large."""
    waiting, found, size = [name], [], 0
    while waiting:
        at = waiting.pop()
        path = f"{root}/{at}"
        if os.path.isdir(path) and not os.path.islink(path):
            waiting += [f"{at}/{below}" for below in sorted(os.listdir(path)) if below != ".git"]
        elif os.path.isfile(path) and not os.path.islink(path):
            found.append(at)
            size += os.lstat(path).st_size
        if len(found) > HIDDEN_FILES or len(waiting) > HIDDEN_FILES or size > HIDDEN_BYTES:
            return None
    return found


def commit_tree(git: Git, parent: str, tree: str, message: str) -> str:
    """Return a commit of ``tree``, or ``parent`` itself when that holds the same."""
    if not tree or (parent and git.answer("rev-parse", f"{parent}^{{tree}}") == tree):
        return parent
    return git("commit-tree", tree, *(["-p", parent] if parent else []), "-m", message)


def save_unless_kept(git: Git, place: Place, commit: str, stamp: str, *, survives: str) -> str:
    kept = not commit or commit == survives or (survives and descends(git, commit, survives))
    return "" if kept else save(git, place, commit, stamp)


def save(git: Git, place: Place, commit: str, stamp: str) -> str:
    """Name ``commit`` by a new rescue ref: one that exists is never moved."""
    ref = f"{rescue_prefix(place.branch)}/{stamp}"
    names = (ref, *(f"{ref}-{n}" for n in range(2, 100)))
    for name in names:
        if git.answer("rev-parse", "--verify", "--quiet", name) == commit:
            return name
        if git.succeeds("update-ref", "--no-deref", name, commit, "0" * len(commit)):
            return name
    raise GitError(f"{place.worktree}: {commit} could not be saved below {ref}")


def descends(git: Git, old: str, new: str) -> bool | None:
    return {0: True, 1: False}.get(git.run("merge-base", "--is-ancestor", old, new)[0])


def free_path(path: str) -> str:
    names = (path, *(f"{path}-{n}" for n in range(2, 1000)))
    return next(name for name in names if not os.path.lexists(name))


def _copy_index(place: Place, git: Git, index: str, head: str) -> None:
    """Start from the worktree's own index, whose file times spare reading every file; from HEAD if it is damaged."""
    theirs = f"{place.admin}/index"
    if os.path.exists(theirs):
        with open(theirs, "rb") as source, open(index, "wb") as target:
            while os.sendfile(target.fileno(), source.fileno(), None, 1 << 24):
                pass
        if git.succeeds("ls-files", "--unmerged"):
            return
        os.unlink(index)
        renew_index(place)
    if head:
        git("read-tree", head)


def renew_index(place: Place) -> None:
    index = f"{place.admin}/index"
    if os.path.lexists(index):
        os.rename(index, free_path(f"{place.admin}/aside-index-damaged"))
    place.git()("reset", "--quiet", "--mixed")
