"""Put a loop's worktree right. Whatever a repair would take away is in a rescue ref first."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass

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
    WorktreeFacts,
    repairs,
)
from ralphd.core.worktrees import MARKS_OF_OPEN_OPERATIONS, link_files, rescue_prefix
from ralphd.pane.git import Git
from ralphd.pane.worktree import Place, look, prepare

_MOST_ROUNDS = 12  # six kinds of repair, each of which may uncover another


@dataclass(frozen=True, kw_only=True)
class Mended:
    """A repair that was made: ``text`` says it in a sentence, ``rescue`` is the ref that holds what it took away."""

    kind: Kind
    text: str
    rescue: str = ""


@dataclass(frozen=True, kw_only=True)
class Rescue:
    """``ref`` is empty when there was nothing to save; not ``complete`` when git could not read some file."""

    ref: str
    complete: bool


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
        kept = _descends(git, known_tip, facts.tip)
        shrunk = _descends(git, facts.tip, known_tip)
    if facts.head and facts.tip and not facts.at_home:
        extends = facts.head == facts.tip or _descends(git, facts.tip, facts.head)
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
            ref = _save(Git(place.git_dir), place, repair.tip, stamp)
            text = f"the branch was rewritten; its former tip {repair.tip[:12]} is kept"
            return Mended(kind=repair.kind, text=text, rescue=ref)
        case ComeHome():
            return _come_home(place, facts, repair, stamp)


def reset_clean(place: Place, to: str, stamp: str, now_s: float) -> Rescue:
    """Save commits and unsaved work to a rescue ref, then make branch and worktree what commit ``to`` holds.

    Ignored files stay. Untracked ones stay too if git could not save all of them. Raises GitError.
    """
    facts = look(place, now_s)
    for lock in facts.locks:
        if not lock.shared:
            _move_lock_aside(place, MoveLockAside(path=lock.path), stamp)
    if not facts.linked:
        _tie_again(place, facts, TieAgain(checkout=not facts.has_files, tip=facts.tip or to), stamp)
    saved = rescue(place, stamp, survives=to)
    if facts.tip:
        _save_unless_kept(Git(place.git_dir), place, facts.tip, stamp, survives=to)
    git = place.git()
    _put_state_aside(place, stamp)
    git("update-ref", "--no-deref", place.ref, to)
    git("symbolic-ref", "HEAD", place.ref)
    git("reset", "--quiet", "--hard", to)
    if saved.complete:
        git("clean", "--quiet", "-fd")
    return saved


def rescue(place: Place, stamp: str, *, survives: str) -> Rescue:
    """Commit what is staged, changed and untracked on top of HEAD, in an index apart, and name it by a ref.

    Nothing is named when all of it is reachable from ``survives``, a commit that stays.
    """
    index = f"{place.admin}/ralphd-rescue.index"
    git = place.git(index)
    head = git.answer("rev-parse", "--verify", "--quiet", "HEAD^{commit}") or survives
    try:
        _copy_index(place, git, index, head)
        staged = git.answer("write-tree")
        complete = git.succeeds("add", "--all", "--ignore-errors", *(["--sparse"] if place.sparse else []), "--", ".")
        unsaved = git("write-tree")
    finally:
        for path in (index, f"{index}.lock"):
            if os.path.lexists(path):
                os.unlink(path)
    commit = _commit(git, head, staged, "Staged when ralphd saved it") if staged != unsaved else head
    commit = _commit(git, commit, unsaved, "Unsaved when ralphd saved it")
    return Rescue(ref=_save_unless_kept(git, place, commit, stamp, survives=survives), complete=complete)


def _move_lock_aside(place: Place, repair: MoveLockAside, stamp: str) -> Mended:
    name = os.path.basename(repair.path)
    folder = (
        place.admin if os.path.isdir(place.admin) else place.git_dir
    )  # never below refs/: git would take it for one
    aside = _free(f"{folder}/aside-{name}-{stamp}")
    os.rename(repair.path, aside)
    return Mended(kind=repair.kind, text=f"a lock nobody held any more, {name}, was moved aside")


def _tie_again(place: Place, facts: WorktreeFacts, repair: TieAgain, stamp: str) -> Mended:
    with open(f"{os.path.dirname(place.git_dir)}/worktree.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the daemon's `add_worktree` takes it too
        if os.path.lexists(place.worktree) and not facts.exists:
            os.rename(place.worktree, _free(f"{place.worktree}.aside-{stamp}"))
        link = f"{place.worktree}/.git"
        if os.path.isdir(link) and not os.path.islink(link):
            os.rename(link, _free(f"{place.worktree}.git-aside-{stamp}"))
        for path, text in link_files(place.git_dir, place.worktree, place.branch):
            if not (path.endswith("/HEAD") and (facts.on_branch or facts.head)):  # a sound HEAD is theirs to answer for
                _write(path, text)
    if not facts.tip and repair.tip:
        Git(place.git_dir)("update-ref", "--no-deref", place.ref, repair.tip)
    if not repair.checkout:
        if not facts.has_index:
            _renew_index(place)
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
    commit = _commit(git, head, tree, "Staged when ralphd saved it")
    os.rename(f"{place.admin}/index", _free(f"{place.admin}/aside-index-{stamp}"))
    return _save_unless_kept(git, place, commit, stamp, survives=facts.tip) if commit else ""


def _end_operation(place: Place, facts: WorktreeFacts, repair: EndOperation, stamp: str) -> Mended:
    saved = rescue(place, stamp, survives=facts.tip)
    git = place.git()
    verb = ("bisect", "reset") if repair.operation == "bisect" else (repair.operation, "--abort")
    aborted = git.succeeds(*verb)
    if not aborted and not saved.complete:
        raise GitError(
            f"{place.worktree}: an open {repair.operation} can't be aborted and not every file could be saved"
        )
    if not aborted:
        git("reset", "--quiet", "--hard")
    _put_state_aside(place, stamp)
    return Mended(kind=repair.kind, text=f"a {repair.operation} left open was aborted", rescue=saved.ref)


def _put_branch_back(place: Place, facts: WorktreeFacts, repair: PutBranchBack, stamp: str) -> Mended:
    saved = rescue(place, stamp, survives=repair.to)
    if facts.at_home and facts.tip:
        _switch(place, facts.tip, repair.to, saved)
    Git(place.git_dir)("update-ref", "--no-deref", place.ref, repair.to)
    was = f"had moved back to {facts.tip[:12]}" if facts.tip else "was gone"
    return Mended(kind=repair.kind, text=f"the branch {was}; it is at {repair.to[:12]} again", rescue=saved.ref)


def _come_home(place: Place, facts: WorktreeFacts, repair: ComeHome, stamp: str) -> Mended:
    where = f"on {facts.on_branch.removeprefix('refs/heads/')}" if facts.on_branch else "detached"
    git = place.git()
    ref = ""
    if repair.forward:  # nothing is taken away: every file and commit stays
        git("update-ref", "--no-deref", place.ref, facts.head, facts.tip)
    else:
        if not facts.tip:
            raise GitError(f"{place.worktree}: the branch {place.branch} is gone and nobody knows where it was")
        saved = rescue(place, stamp, survives=facts.tip)
        _switch(place, facts.head, facts.tip, saved)
        ref = saved.ref
    git("symbolic-ref", "HEAD", place.ref)
    return Mended(kind=repair.kind, text=f"the worktree was {where}; it is on {place.branch} again", rescue=ref)


def _switch(place: Place, old: str, new: str, saved: Rescue) -> None:
    """Make files and index those of ``new``, keeping unsaved changes to other files; all changes are saved already."""
    git = place.git()
    if old and git.succeeds("read-tree", "-m", "-u", old, new):
        return
    if not saved.complete:
        raise GitError(f"{place.worktree}: not every file could be saved, so nothing was checked out over them")
    git("read-tree", "--reset", "-u", new)


def _put_state_aside(place: Place, stamp: str) -> None:
    for mark, _ in MARKS_OF_OPEN_OPERATIONS:
        path = f"{place.admin}/{mark}"
        if os.path.lexists(path):
            os.rename(path, _free(f"{place.admin}/aside-{mark}-{stamp}"))


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
        _renew_index(place)
    if head:
        git("read-tree", head)


def _renew_index(place: Place) -> None:
    index = f"{place.admin}/index"
    if os.path.lexists(index):
        os.rename(index, _free(f"{place.admin}/aside-index-damaged"))
    place.git()("reset", "--quiet", "--mixed")


def _mark_ready(place: Place) -> None:
    os.close(os.open(place.ready, os.O_WRONLY | os.O_CREAT, 0o600))


def _commit(git: Git, parent: str, tree: str, message: str) -> str:
    """Return a commit of ``tree``, or ``parent`` itself when that holds the same."""
    if not tree or (parent and git.answer("rev-parse", f"{parent}^{{tree}}") == tree):
        return parent
    return git("commit-tree", tree, *(["-p", parent] if parent else []), "-m", message)


def _save_unless_kept(git: Git, place: Place, commit: str, stamp: str, *, survives: str) -> str:
    kept = not commit or commit == survives or (survives and _descends(git, commit, survives))
    return "" if kept else _save(git, place, commit, stamp)


def _save(git: Git, place: Place, commit: str, stamp: str) -> str:
    """Name ``commit`` by a new rescue ref: one that exists is never moved."""
    ref = f"{rescue_prefix(place.branch)}/{stamp}"
    names = (ref, *(f"{ref}-{n}" for n in range(2, 100)))
    for name in names:
        if git.answer("rev-parse", "--verify", "--quiet", name) == commit:
            return name
        if git.succeeds("update-ref", "--no-deref", name, commit, "0" * len(commit)):
            return name
    raise GitError(f"{place.worktree}: {commit} could not be saved below {ref}")


def _descends(git: Git, old: str, new: str) -> bool | None:
    return {0: True, 1: False}.get(git.run("merge-base", "--is-ancestor", old, new)[0])


def _free(path: str) -> str:
    names = (path, *(f"{path}-{n}" for n in range(2, 1000)))
    return next(name for name in names if not os.path.lexists(name))


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "wb") as file:
        file.write(os.fsencode(text))
    os.replace(f"{path}.new", path)
