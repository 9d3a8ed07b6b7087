"""What is wrong with a loop's worktree, and what puts it right without losing work: decided here, done in the pane."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.outcomes import Kind
from ralphd.core.worktree_facts import WorktreeFacts


@dataclass(frozen=True, kw_only=True)
class History:
    """How commits lie to each other; None where there was nothing to compare.

    ``kept``: the branch still holds the tip last known. ``shrunk``: it is at an older commit of that same history.
    ``head_extends``: a HEAD elsewhere descends from the branch's tip.
    """

    kept: bool | None = None
    shrunk: bool | None = None
    head_extends: bool | None = None


@dataclass(frozen=True, kw_only=True)
class MoveLockAside:
    path: str
    kind: Kind = Kind.STALE_LOCK


@dataclass(frozen=True, kw_only=True)
class TieAgain:
    """Tie the worktree to its repository; ``checkout`` when there are no files in it to keep.

    ``tip``: where its branch goes if it has none, empty when nobody knows.
    """

    checkout: bool
    tip: str
    kind: Kind = Kind.WORKTREE_GONE


@dataclass(frozen=True, kw_only=True)
class EndOperation:
    """Save everything to a rescue ref, then abort what is open (``rebase``, ``merge``, …)."""

    operation: str
    kind: Kind = Kind.MID_OPERATION


@dataclass(frozen=True, kw_only=True)
class PutBranchBack:
    """Save everything to a rescue ref, then set the branch to ``to``, the tip last known.

    As ``git.foreign_change``: somebody else moved it under a worktree that still is at ``to``.
    """

    to: str
    kind: Kind = Kind.BRANCH_MOVED


@dataclass(frozen=True, kw_only=True)
class KeepOldTip:
    """The branch was rewritten, which an agent may do: keep the former tip in a rescue ref and go on with the new."""

    tip: str
    kind: Kind = Kind.HISTORY_REWRITTEN


@dataclass(frozen=True, kw_only=True)
class ComeHome:
    """Save everything to a rescue ref, then check the loop's branch out; ``forward``: the branch moves up to HEAD."""

    forward: bool
    kind: Kind = Kind.WORKTREE_DETACHED


Repair = MoveLockAside | TieAgain | EndOperation | PutBranchBack | KeepOldTip | ComeHome


def repairs(facts: WorktreeFacts, history: History, *, known_tip: str, loop_alive: bool) -> tuple[Repair, ...]:
    """Return what to mend, in the order to mend it; look again after each, for one often cures the next.

    ``known_tip`` is the branch's last commit known, or empty. ``loop_alive``: some process of this loop lives; then
    nothing is touched, for whatever looks broken may be its work in progress.
    """
    if loop_alive:
        return ()
    return (
        *_locks(facts),
        *_tie(facts, known_tip),
        *_operation(facts),
        *_branch(facts, history, known_tip),
        *_home(facts, history),
    )


def _locks(facts: WorktreeFacts) -> tuple[Repair, ...]:
    return tuple(MoveLockAside(path=lock.path) for lock in facts.locks if lock.stale)


def _tie(facts: WorktreeFacts, known_tip: str) -> tuple[Repair, ...]:
    if facts.linked and facts.has_index:
        return ()
    cut_off = facts.linked and not facts.ready  # what is there comes from a first checkout, and is in the tip
    return (TieAgain(checkout=cut_off or not facts.has_files, tip=facts.tip or known_tip),)


def _operation(facts: WorktreeFacts) -> tuple[Repair, ...]:
    return (EndOperation(operation=facts.mid_operation),) if facts.mid_operation else ()


def _branch(facts: WorktreeFacts, history: History, known_tip: str) -> tuple[Repair, ...]:
    if not known_tip or facts.tip == known_tip:
        return ()
    if facts.moved_by_others(known_tip):
        return (PutBranchBack(to=known_tip, kind=Kind.FOREIGN_CHANGE),)
    if history.kept:
        return ()
    if not facts.tip or history.shrunk:
        return (PutBranchBack(to=known_tip),)
    if history.kept is None:  # git could not compare them: nothing is known to be wrong
        return ()
    return (KeepOldTip(tip=known_tip),)


def _home(facts: WorktreeFacts, history: History) -> tuple[Repair, ...]:
    return () if facts.at_home or not facts.linked else (ComeHome(forward=bool(history.head_extends)),)
