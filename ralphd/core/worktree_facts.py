"""What the files of a loop's worktree say of its state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lock file of git. ``shared``: every loop of the night repository waits for it, not this one alone."""

    path: str
    age_s: float
    size: int
    shared: bool


@dataclass(frozen=True, kw_only=True)
class WorktreeFacts:
    """What the files of a worktree and of its git folder say.

    ``on_branch`` is the full ref that HEAD names, empty when detached; ``head`` the commit HEAD is at and ``tip`` that
    of the loop's branch, empty where there is none. ``linked``: both ends of the tie are sound. ``has_files``: there is
    something in the folder besides ``.git``. ``has_index``: git's index is there and looks like one.
    ``ready``: the first checkout was completed, so that files may be unsaved work. ``last_here`` and ``last_moved``:
    where the branch was last put from this worktree, and from anywhere, as git's own logs say; empty: they don't.
    """

    worktree: str
    git_dir: str
    branch: str
    exists: bool
    has_files: bool
    linked: bool
    has_index: bool
    on_branch: str
    head: str
    tip: str
    locks: tuple[Lock, ...] = ()
    mid_operation: str = ""
    ready: bool = True
    last_here: str = ""
    last_moved: str = ""

    @property
    def at_home(self) -> bool:
        return self.on_branch == f"refs/heads/{self.branch}"

    def moved_by_others(self, known_tip: str) -> bool:
        """Tell whether the branch left ``known_tip`` by a git that ran somewhere else than in this worktree."""
        return self.at_home and self.last_here == known_tip != self.tip == self.last_moved != ""
