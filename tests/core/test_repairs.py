"""Which repair follows from which facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ralphd.core.outcomes import Kind
from ralphd.core.repairs import (
    ComeHome,
    EndOperation,
    History,
    KeepOldTip,
    MoveLockAside,
    PutBranchBack,
    Repair,
    TieAgain,
    repairs,
)
from ralphd.core.worktree_facts import Lock, WorktreeFacts

OLD, NEW = "a" * 40, "b" * 40
SOUND = WorktreeFacts(
    worktree="/w",
    git_dir="/n",
    branch="ralphd/n/l",
    exists=True,
    has_files=True,
    linked=True,
    has_index=True,
    on_branch="refs/heads/ralphd/n/l",
    head=OLD,
    tip=OLD,
)
EMPTY = History()


def decide(
    facts: WorktreeFacts, history: History = EMPTY, known_tip: str = OLD, *, alive: bool = False
) -> tuple[Repair, ...]:
    return repairs(facts, history, known_tip=known_tip, loop_alive=alive)


def test_a_sound_worktree_needs_nothing() -> None:
    assert decide(SOUND) == ()
    assert decide(SOUND, known_tip="") == ()


def test_new_commits_are_no_trouble() -> None:
    assert decide(replace(SOUND, head=NEW, tip=NEW), History(kept=True, shrunk=False)) == ()


def test_what_cannot_be_compared_is_left_alone() -> None:
    assert decide(replace(SOUND, head=NEW, tip=NEW)) == ()


@pytest.mark.parametrize(
    ("change", "history", "expected"),
    [
        ({"linked": False}, EMPTY, TieAgain(checkout=False, tip=OLD)),
        ({"linked": False, "has_files": False, "exists": False}, EMPTY, TieAgain(checkout=True, tip=OLD)),
        ({"has_index": False}, EMPTY, TieAgain(checkout=False, tip=OLD)),
        ({"has_index": False, "ready": False}, EMPTY, TieAgain(checkout=True, tip=OLD)),
        ({"linked": False, "ready": False}, EMPTY, TieAgain(checkout=False, tip=OLD)),
        ({"mid_operation": "rebase"}, EMPTY, EndOperation(operation="rebase")),
        ({"tip": ""}, EMPTY, PutBranchBack(to=OLD)),
        ({"tip": NEW}, History(kept=False, shrunk=True), PutBranchBack(to=OLD)),
        ({"tip": NEW}, History(kept=False, shrunk=False), KeepOldTip(tip=OLD)),
        ({"on_branch": ""}, History(head_extends=True), ComeHome(forward=True)),
        ({"on_branch": "refs/heads/x"}, History(head_extends=False), ComeHome(forward=False)),
    ],
)
def test_each_trouble_has_its_repair(change: dict[str, object], history: History, expected: Repair) -> None:
    assert decide(replace(SOUND, **change), history) == (expected,)  # type: ignore[arg-type]  # fields by name


def test_a_living_loop_is_never_touched() -> None:
    broken = replace(
        SOUND,
        linked=False,
        tip="",
        mid_operation="merge",
        locks=(Lock(path="/l", age_s=1e6, size=0, stale_after_s=0.0),),
    )
    assert decide(broken, alive=True) == ()


@pytest.mark.parametrize(
    ("age_s", "after_s", "stale"),
    [(0.0, 0.0, True), (4.9, 5.0, False), (5.0, 5.0, True), (899.0, 900.0, False), (900.0, 900.0, True)],
)
def test_a_lock_is_stale_from_an_age_on(age_s: float, after_s: float, stale: bool) -> None:
    facts = replace(SOUND, locks=(Lock(path="/l", age_s=age_s, size=0, stale_after_s=after_s),))
    assert decide(facts) == ((MoveLockAside(path="/l"),) if stale else ())


@pytest.mark.parametrize(
    ("age_s", "after_s", "wait_s"), [(0.0, 0.0, 0.0), (2.0, 5.0, 3.0), (9.0, 5.0, 0.0), (2.0, 900.0, 0.0)]
)
def test_only_for_a_lock_that_passes_soon_it_pays_to_wait(age_s: float, after_s: float, wait_s: float) -> None:
    assert Lock(path="/l", age_s=age_s, size=0, stale_after_s=after_s).passes_in_s == wait_s


def test_locks_come_first_and_home_last() -> None:
    """A lock would stop every later repair; coming home needs the branch to be right."""
    broken = replace(
        SOUND,
        locks=(Lock(path="/l", age_s=0.0, size=0, stale_after_s=0.0),),
        mid_operation="rebase",
        on_branch="",
        tip=NEW,
    )
    order = [type(repair) for repair in decide(broken, History(kept=False, shrunk=True, head_extends=False))]
    assert order == [MoveLockAside, EndOperation, PutBranchBack, ComeHome]


def test_a_branch_that_somebody_else_moved_goes_back_even_if_it_went_forward() -> None:
    moved = replace(SOUND, head=NEW, tip=NEW, last_here=OLD, last_moved=NEW)
    assert decide(moved, History(kept=True, shrunk=False)) == (PutBranchBack(to=OLD, kind=Kind.FOREIGN_CHANGE),)


@pytest.mark.parametrize(
    "change",
    [
        {"last_here": NEW},  # the loop's own commit
        {"last_moved": OLD},  # by a git that keeps no log, such as a library
        {"last_here": "", "last_moved": ""},
        {"on_branch": "", "head": OLD},  # it went elsewhere first, so it did it itself
    ],
)
def test_without_both_logs_nobody_else_is_blamed(change: dict[str, str]) -> None:
    facts = replace(SOUND, **{"head": NEW, "tip": NEW, "last_here": OLD, "last_moved": NEW, **change})
    assert Kind.FOREIGN_CHANGE not in {r.kind for r in decide(facts, History(kept=True, shrunk=False))}
