"""How a loop's branch, its linked worktree and its rescue refs are named and tied together."""

from __future__ import annotations

import re

BRANCH_ROOT = "ralphd/"
RESCUE_ROOT = "refs/ralphd/rescue/"
_BRANCH = re.compile(r"ralphd/[a-z0-9-]{1,40}/[a-z0-9-]{1,40}\Z")
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")

# What git leaves in a worktree's git folder while an operation is open, and the verb that ends it.
MARKS_OF_OPEN_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick"),
    ("BISECT_LOG", "bisect"),
)


def is_branch(name: str) -> bool:
    """Say whether ``name`` is ``ralphd/<night>/<loop>`` with ids of the allowed letters."""
    return _BRANCH.match(name) is not None


def is_object_id(text: str) -> bool:
    return _OBJECT_ID.match(text) is not None


def rescue_prefix(branch: str) -> str:
    return RESCUE_ROOT + branch.removeprefix(BRANCH_ROOT)


def admin_folder(git_dir: str, branch: str) -> str:
    """Return the folder in the night repository that holds HEAD and index of the branch's worktree."""
    return f"{git_dir}/worktrees/{branch.rsplit('/', 1)[-1]}"


def newest_of_log(tail: bytes) -> str:
    """Return the commit that the last whole line of a reflog leads to, or an empty string; ``tail``: how it ends."""
    line = tail[: tail.rfind(b"\n") + 1].rstrip(b"\n").rpartition(b"\n")[2]
    words = line.split(b" ", 2)
    commit = words[1].decode("ascii", "replace") if len(words) == 3 else ""
    return commit if is_object_id(commit) else ""


def link_files(git_dir: str, worktree: str, branch: str) -> tuple[tuple[str, str], ...]:
    """Return ``(path, text)`` of the files that tie a worktree to its repository, both ends (gitrepository-layout(5)).

    The last one is the worktree's ``.git``: whoever finds it finds the rest complete.
    """
    admin = admin_folder(git_dir, branch)
    return (
        (f"{admin}/HEAD", f"ref: refs/heads/{branch}\n"),
        (f"{admin}/commondir", "../..\n"),
        (f"{admin}/gitdir", f"{worktree}/.git\n"),
        (f"{worktree}/.git", f"gitdir: {admin}\n"),
    )
