"""What the files of a loop's worktree say of its state."""

from __future__ import annotations

from dataclasses import dataclass

# After these ages nobody lives who holds a lock. The index is this loop's alone, and none of its processes lives when
# anything is mended. For the moment it takes to expire a reflog or to pack a ref, `git gc` in any other worktree holds
# the locks of this one's HEAD and branch, too. What all loops share it may hold for seconds, in a big repository.
OWN_LOCK_STALE_AFTER_S = 0.0
PASSING_LOCK_STALE_AFTER_S = 5.0
SHARED_LOCK_STALE_AFTER_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Lock:
    """A lock file of git. ``stale_after_s``: the age at which nobody can hold it any more."""

    path: str
    age_s: float
    size: int
    stale_after_s: float

    @property
    def stale(self) -> bool:
        return self.age_s >= self.stale_after_s

    @property
    def passes_in_s(self) -> float:
        """Return how long to wait for it at most, 0 where that is no use: it is dead, or may be held for long."""
        short = self.stale_after_s <= PASSING_LOCK_STALE_AFTER_S
        return self.stale_after_s - self.age_s if short and not self.stale else 0.0


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
