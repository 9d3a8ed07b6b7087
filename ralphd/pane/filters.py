"""Which content filters a loop has configured: no repair runs them, or saves what they make of a file."""

from __future__ import annotations

import os

from ralphd.pane.files import read_regular
from ralphd.pane.git import Git

CONFIG_LIMIT_BYTES = 1 << 20


def instead_of_theirs(git_dir: str, admin: str) -> tuple[tuple[str, str], ...]:
    """Return settings that put the person's own filters (or none) in the place of those in the night repository.

    A filter decides what git saves of a file and what it checks out; the night repository is made without any.
    """
    if not any(_may_hold_filters(path) for path in (f"{git_dir}/config", f"{admin}/config.worktree")):
        return ()
    listed = Git(admin).answer("config", "--show-scope", "--null", "--get-regexp", r"^filter\.").split("\0")
    theirs: set[str] = set()
    persons: dict[str, str] = {}
    for scope, setting in zip(listed[::2], listed[1::2], strict=False):
        name, _, value = setting.partition("\n")
        if scope in ("local", "worktree"):
            theirs.add(name)
        else:
            persons[name] = value
    return tuple((name, persons.get(name, _nothing(name))) for name in sorted(theirs))


def _nothing(name: str) -> str:
    return "false" if name.endswith(".required") else ""


def _may_hold_filters(path: str) -> bool:
    """Tell without running git, in the usual case; what is included from elsewhere may hold anything."""
    try:
        text = read_regular(path, CONFIG_LIMIT_BYTES).lower()
    except OSError:
        return os.path.lexists(path)  # a link, a flood: git is asked
    return b"filter" in text or b"include" in text
