"""Put a loop's worktree right. Whatever a repair would take away is in a rescue ref first."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass, replace

from ralphd.core.errors import GitError
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
from ralphd.core.worktree_facts import WorktreeFacts
from ralphd.core.worktrees import MARKS_OF_OPEN_OPERATIONS, link_files
from ralphd.pane.git import Git
from ralphd.pane.rescue import (
    Rescue,
    commit_tree,
    descends,
    free_path,
    hidden_files,
    renew_index,
    rescue,
    save,
    save_unless_kept,
)
from ralphd.pane.worktree import Place, look, prepare

_MOST_ROUNDS = 12  # six kinds of repair, each of which may uncover another


@dataclass(frozen=True, kw_only=True)
class Mended:
    """A repair that was made: ``text`` says it in a sentence, ``rescue`` is the ref that holds what it took away."""

    kind: Kind
    text: str
    rescue: str = ""


def mend(place: Place, *, known_tip: str, stamp: str, now_s: float, loop_alive: bool = False) -> tuple[Mended, ...]:
    """Look, repair, look again, until nothing is wrong. ``stamp`` names the rescue refs: letters, digits and ``-``.

    Raises GitError when a repair fails or doesn't help.
    """
    done: list[Mended] = []
    last: Repair | None = None
    for _ in range(_MOST_ROUNDS):
        facts = look(place, now_s)
        todo = repairs(facts, relate(place, facts, known_tip), known_tip=known_tip, loop_alive=loop_alive)
        if not todo:
            return tuple(done)
        if todo[0] == last:
            raise GitError(f"{place.worktree}: {last.kind.value} came back after its repair")
        last = todo[0]
        done.append(carry_out(place, facts, last, stamp))
        if isinstance(last, KeepOldTip):
            known_tip = facts.tip
    raise GitError(f"{place.worktree}: still not right after {_MOST_ROUNDS} repairs")


def relate(place: Place, facts: WorktreeFacts, known_tip: str) -> History:
    """Compare commits, with git only where files alone can't tell."""
    git = Git(place.git_dir)
    kept = shrunk = extends = None
    if known_tip and facts.tip and facts.tip != known_tip:
        kept = descends(git, known_tip, facts.tip)
        shrunk = descends(git, facts.tip, known_tip)
    if facts.head and facts.tip and not facts.at_home:
        extends = facts.head == facts.tip or descends(git, facts.tip, facts.head)
    return History(kept=kept, shrunk=shrunk, head_extends=extends)


def carry_out(place: Place, facts: WorktreeFacts, repair: Repair, stamp: str) -> Mended:
    """Make one repair. No process of the loop may be alive."""
    match repair:
        case MoveLockAside():
            return _move_lock_aside(place, repair, stamp)
        case TieAgain():
            return _tie_again(place, facts, repair, stamp)
        case EndOperation():
            return _end_operation(place, facts, repair, stamp)
        case PutBranchBack():
            return _put_branch_back(place, facts, repair, stamp)
        case KeepOldTip():
            ref = save(Git(place.git_dir), place, repair.tip, stamp)
            text = f"the branch was rewritten; its former tip {repair.tip[:12]} is kept"
            return Mended(kind=repair.kind, text=text, rescue=ref)
        case ComeHome():
            return _come_home(place, facts, repair, stamp)


def reset_clean(place: Place, to: str, stamp: str, now_s: float, known_tip: str = "") -> Rescue:
    """Save commits and unsaved work to a rescue ref, then make branch and worktree what commit ``to`` holds.

    ``known_tip``, where the branch was last seen in order, is saved too: the branch may be gone, or set back.

    Ignored files that are small go the same way: notes hide there. What is large stays (dependencies, build trees), and
    so do the files that were included from the person's checkout. Where git can't save all files, the worktree moves
    aside as it is and a fresh one takes its place. No process of the loop may be alive. Raises GitError.
    """
    facts = look(place, now_s)
    for lock in facts.locks:
        if lock.stale:
            _move_lock_aside(place, MoveLockAside(path=lock.path), stamp)
    if not facts.linked:
        _tie_again(place, facts, TieAgain(checkout=not facts.has_files, tip=facts.tip or to), stamp)
    hidden = hidden_files(place)
    saved = rescue(place, stamp, survives=to, also=hidden)
    git = Git(place.git_dir)
    known_tip = known_tip if known_tip and git.succeeds("cat-file", "-e", f"{known_tip}^{{commit}}") else ""
    for tip in dict.fromkeys((facts.tip, known_tip)):
        if tip and not any(descends(git, tip, kept) for kept in (saved.ref, facts.tip) if kept and kept != tip):
            save_unless_kept(git, place, tip, stamp, survives=to)
    _put_state_aside(place, stamp)
    if not saved.complete:
        return replace(saved, moved_aside=_start_over(place, to, stamp))
    git = _point_at(place, to)
    git("clean", "--quiet", "-fd")  # by the rules that the files were saved by: ``to`` may ignore others
    git("reset", "--quiet", "--hard", to)
    _remove(place, hidden)
    return saved


def _remove(place: Place, names: tuple[str, ...]) -> None:
    """Remove ignored files that were saved, and the folders that are empty then."""
    for name in names:
        path = f"{place.worktree}/{name}"
        try:
            os.unlink(path)
            while (path := os.path.dirname(path)) != place.worktree:
                os.rmdir(path)
        except OSError:
            continue  # it went meanwhile, or its folder holds more


def _point_at(place: Place, to: str) -> Git:
    git = place.git()
    git("update-ref", "--no-deref", place.ref, to)
    git("symbolic-ref", "HEAD", place.ref)
    return git


def _start_over(place: Place, to: str, stamp: str) -> str:
    """Move the whole worktree aside, check ``to`` out in its place, and return where the old one is."""
    _point_at(place, to)
    aside = free_path(f"{place.worktree}.aside-{stamp}")
    os.rename(place.worktree, aside)
    os.rename(f"{place.admin}/index", free_path(f"{place.admin}/aside-index-{stamp}"))
    if os.path.lexists(place.ready):
        os.unlink(place.ready)
    _write(*link_files(place.git_dir, place.worktree, place.branch)[-1])
    os.unlink(f"{aside}/.git")  # one worktree, one folder
    prepare(place)
    return aside


def _move_lock_aside(place: Place, repair: MoveLockAside, stamp: str) -> Mended:
    name = os.path.basename(repair.path)
    folder = (
        place.admin if os.path.isdir(place.admin) else place.git_dir
    )  # never below refs/: git would take it for one
    aside = free_path(f"{folder}/aside-{name}-{stamp}")
    os.rename(repair.path, aside)
    return Mended(kind=repair.kind, text=f"a lock nobody held any more, {name}, was moved aside")


def _tie_again(place: Place, facts: WorktreeFacts, repair: TieAgain, stamp: str) -> Mended:
    with open(f"{os.path.dirname(place.git_dir)}/worktree.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the daemon's `add_worktree` takes it too
        if os.path.lexists(place.worktree) and not facts.exists:
            os.rename(place.worktree, free_path(f"{place.worktree}.aside-{stamp}"))
        link = f"{place.worktree}/.git"
        if os.path.isdir(link) and not os.path.islink(link):
            os.rename(link, free_path(f"{place.worktree}.git-aside-{stamp}"))
        for path, text in link_files(place.git_dir, place.worktree, place.branch):
            if not (path.endswith("/HEAD") and (facts.on_branch or facts.head)):  # a sound HEAD is theirs to answer for
                _write(path, text)
    if not facts.tip and repair.tip:
        Git(place.git_dir)("update-ref", "--no-deref", place.ref, repair.tip)
    if not repair.checkout:
        if not facts.has_index:
            renew_index(place)
        _mark_ready(place)
        return Mended(
            kind=repair.kind, text="the worktree was untied from its repository; it is tied again, files kept"
        )
    ref = _rescue_staged(place, facts, stamp)
    if os.path.lexists(place.ready):
        os.unlink(place.ready)
    notes = prepare(place)
    text = "; ".join(["the worktree was gone; it is checked out again from the branch's tip", *notes])
    return Mended(kind=repair.kind, text=text, rescue=ref)


def _rescue_staged(place: Place, facts: WorktreeFacts, stamp: str) -> str:
    """Save what was staged in a worktree whose files are gone, and drop its index."""
    if not facts.has_index:
        return ""
    git = place.git()
    tree, head = git.answer("write-tree"), git.answer("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    commit = commit_tree(git, head, tree, "Staged when ralphd saved it")
    os.rename(f"{place.admin}/index", free_path(f"{place.admin}/aside-index-{stamp}"))
    return save_unless_kept(git, place, commit, stamp, survives=facts.tip) if commit else ""


def _end_operation(place: Place, facts: WorktreeFacts, repair: EndOperation, stamp: str) -> Mended:
    saved = rescue(place, stamp, survives=facts.tip)
    text = f"a {repair.operation} left open was aborted"
    if not saved.complete and facts.tip:
        _put_state_aside(place, stamp)
        text += _and_moved(_start_over(place, facts.tip, stamp))
        return Mended(kind=repair.kind, text=text, rescue=saved.ref)
    git = place.git()
    verb = ("bisect", "reset") if repair.operation == "bisect" else (repair.operation, "--abort")
    if not git.succeeds(*verb):
        git("reset", "--quiet", "--hard")
    _put_state_aside(place, stamp)
    return Mended(kind=repair.kind, text=text, rescue=saved.ref)


def _put_branch_back(place: Place, facts: WorktreeFacts, repair: PutBranchBack, stamp: str) -> Mended:
    if repair.kind is Kind.FOREIGN_CHANGE:
        return _take_branch_back(place, facts, repair, stamp)
    saved = rescue(place, stamp, survives=repair.to)
    was = f"had moved back to {facts.tip[:12]}" if facts.tip else "was gone"
    text = f"the branch {was}; it is at {repair.to[:12]} again"
    if facts.at_home and facts.tip:
        text += _switch(place, (facts.tip, repair.to), saved, stamp)
    # from the worktree, so that its own log tells of it: nobody takes it for a stranger's doing
    place.git()("update-ref", "--no-deref", place.ref, repair.to)
    return Mended(kind=repair.kind, text=text, rescue=saved.ref)


def _take_branch_back(place: Place, facts: WorktreeFacts, repair: PutBranchBack, stamp: str) -> Mended:
    """Files and index never followed the branch: it alone goes back, and what it was moved to is kept."""
    ref = save_unless_kept(Git(place.git_dir), place, facts.tip, stamp, survives=repair.to)
    place.git()("update-ref", "--no-deref", place.ref, repair.to, facts.tip)
    text = f"somebody else moved the branch to {facts.tip[:12]}; it is at {repair.to[:12]} again"
    return Mended(kind=repair.kind, text=text, rescue=ref)


def _come_home(place: Place, facts: WorktreeFacts, repair: ComeHome, stamp: str) -> Mended:
    where = f"on {facts.on_branch.removeprefix('refs/heads/')}" if facts.on_branch else "detached"
    text, ref = f"the worktree was {where}; it is on {place.branch} again", ""
    if repair.forward:  # nothing is taken away: every file and commit stays
        Git(place.git_dir)("update-ref", "--no-deref", place.ref, facts.head, facts.tip)
    elif facts.tip:
        saved = rescue(place, stamp, survives=facts.tip)
        text += _switch(place, (facts.head, facts.tip), saved, stamp)
        ref = saved.ref
    else:
        raise GitError(f"{place.worktree}: the branch {place.branch} is gone and nobody knows where it was")
    place.git()("symbolic-ref", "HEAD", place.ref)
    return Mended(kind=repair.kind, text=text, rescue=ref)


def _switch(place: Place, commits: tuple[str, str], saved: Rescue, stamp: str) -> str:
    """Make files and index those of another commit (from, to), keeping unsaved changes to files that are alike in both.

    Returns what more there is to say.
    """
    old, new = commits
    git = place.git()
    if old and git.succeeds("read-tree", "-m", "-u", old, new):
        return ""
    if not saved.complete:
        return _and_moved(_start_over(place, new, stamp))
    git("read-tree", "--reset", "-u", new)
    return ""


def _and_moved(aside: str) -> str:
    return f"; git could not save every file, so the old worktree is kept as {aside}"


def _put_state_aside(place: Place, stamp: str) -> None:
    for mark, _ in MARKS_OF_OPEN_OPERATIONS:
        path = f"{place.admin}/{mark}"
        if os.path.lexists(path):
            os.rename(path, free_path(f"{place.admin}/aside-{mark}-{stamp}"))


def _mark_ready(place: Place) -> None:
    os.close(os.open(place.ready, os.O_WRONLY | os.O_CREAT, 0o600))


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "wb") as file:
        file.write(os.fsencode(text))
    os.replace(f"{path}.new", path)
