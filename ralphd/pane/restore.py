"""Put single files of a loop's worktree back as they were at the start, by a commit that changes nothing else."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ralphd.pane.rescue import rescue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.pane.worktree import Place

MESSAGE = "Put protected files back as they were"
_LISTED = ("--pathspec-from-file=-", "--pathspec-file-nul")


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
    wanted = [f":(literal){path}" for path in paths]
    there = ("diff-tree", "-r", "-z", "--no-renames", "--name-status", "HEAD", base, "--")
    told = git(*there, *wanted).split("\0")
    differ = dict(zip(told[1::2], told[0::2], strict=False))  # path -> what leads back to the base: A, M or D
    if not differ:
        return None
    listed = [f":(literal){path}" for path in differ]
    unsaved = git("status", "--porcelain", "--no-renames", "--", *listed)
    ref = rescue(place, stamp, survives=git("rev-parse", "HEAD")).ref if unsaved else ""
    kept = [f":(literal){path}" for path, change in differ.items() if change != "D"]
    if kept:
        git("checkout", "--quiet", base, *_LISTED, stdin=_nul(kept))
    for path, change in differ.items():
        at = f"{place.worktree}/{path}"
        if change == "D" and os.path.lexists(at) and not (os.path.isdir(at) and not os.path.islink(at)):
            os.unlink(at)
    git("commit", "--quiet", "--no-verify", "--only", "--message", MESSAGE, *_LISTED, stdin=_nul(listed))
    return Restored(paths=tuple(differ), commit=git("rev-parse", "HEAD"), ref=ref)


def _nul(names: list[str]) -> bytes:
    return b"".join(os.fsencode(name) + b"\0" for name in names)
