"""Which work of a night was parked in rescue refs, on which side it is, and how it reaches the person's repository."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ralphd.core.errors import EdgeError, GitError, RalphdError, UsageError
from ralphd.core.model import Task
from ralphd.core.worktrees import RESCUE_ROOT
from ralphd.edges.checkout import Checkout, describe_repo, fetch_ref
from ralphd.edges.git import Git
from ralphd.edges.night_repository import NightRepository


@dataclass(frozen=True, kw_only=True)
class Parked:
    """A rescue ref. ``at``: when its commit was made, epoch seconds. ``delivered``: the person's repository has it."""

    ref: str
    commit: str
    at: float
    delivered: bool


def parked(task: Task, night: str) -> dict[str, Parked]:
    """Return what was parked for a task, by ref, oldest first. A side that is gone or can't be read counts as empty."""
    ours = _refs(os.path.join(task.night_repository, "control.git"), night)
    theirs = _theirs(task, night)
    found = {
        ref: Parked(ref=ref, commit=commit, at=at, delivered=theirs.get(ref, ("", 0.0))[0] == commit)
        for ref, (commit, at) in (theirs | ours).items()
    }
    return dict(sorted(found.items(), key=lambda item: (item[1].at, item[0])))


def bring(task: Task, ref: str) -> Checkout:
    """Fetch one rescue ref into the person's repository, under its own name. No file of theirs is touched.

    Raises UsageError or GitError.
    """
    repo = describe_repo(task.repository)
    night = NightRepository(task.night_repository)
    if not os.path.isdir(night.control):
        raise GitError(f"{task.night_repository} is gone, and {ref} with it")
    night.put_view_back()
    night.deepen()
    status, _, err = fetch_ref(repo, night.control, f"+{ref}:{ref}")
    if status:
        raise GitError(f"{ref} could not be brought into {repo.toplevel}: {err.strip()[:300]}", stderr=err)
    return repo


def make_branch(repo: Checkout, name: str, commit: str) -> None:
    """Give ``commit`` a new branch in the person's repository. Raises UsageError where that branch can't be made."""
    refuse_branch(repo, name)
    git = Git(git_dir=repo.common_dir)
    status, _, err = git.run("update-ref", "--no-deref", f"refs/heads/{name}", commit, "0" * len(commit))
    if status:
        refuse_branch(repo, name)  # somebody was quicker
        raise UsageError(f"the branch {name!r} could not be made in {repo.toplevel}: {err.strip()[:300]}")


def refuse_branch(repo: Checkout, name: str) -> None:
    """Raise UsageError where no new branch of that name can be, before anybody works towards it."""
    git = Git(git_dir=repo.common_dir)
    if git.run("check-ref-format", "--branch", name)[0] or name.startswith("-"):
        raise UsageError(f"{name!r} can't be the name of a branch: name another")
    if git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{name}")[0] == 0:
        raise UsageError(
            f"the branch {name!r} could not be made in {repo.toplevel}: it exists already, and stays as it is: "
            "name another with --to"
        )


def _theirs(task: Task, night: str) -> dict[str, tuple[str, float]]:
    try:
        return _refs(describe_repo(task.repository).common_dir, night)
    except RalphdError:  # moved or deleted since
        return {}


def _refs(git_dir: str, night: str) -> dict[str, tuple[str, float]]:
    if not os.path.isdir(git_dir):
        return {}
    where = f"{RESCUE_ROOT}{night}/"
    try:
        listed = Git(git_dir=git_dir).text(
            "for-each-ref", "--format=%(refname)%00%(objectname)%00%(creatordate:unix)", where
        )
    except EdgeError:  # one damaged object must not hide the others
        listed = Git(git_dir=git_dir).text("for-each-ref", "--format=%(refname)%00%(objectname)%000", where)
    rows = (line.split("\0") for line in listed.splitlines())
    return {ref: (commit, float(at or 0)) for ref, commit, at in rows}


def loop_of(ref: str, night: str, loops: Mapping[str, object]) -> str:
    """Return the loop whose work a rescue ref holds (``…/<loop>/<stamp>`` or ``…/best-<loop>``), or an empty string."""
    rest = ref.removeprefix(f"{RESCUE_ROOT}{night}/")
    loop = rest.split("/", 1)[0] if "/" in rest else rest.removeprefix("best-")
    return loop if loop in loops else ""
