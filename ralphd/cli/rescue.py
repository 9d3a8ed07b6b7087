"""What was taken out of a loop's way and kept: where it is, why, and how a person gets it back."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ralphd.cli.book import Book, Line, frame
from ralphd.core import events, records
from ralphd.core.errors import NothingRunning, UsageError
from ralphd.core.events import Entry
from ralphd.core.model import Loop, Task
from ralphd.core.status import iso
from ralphd.edges import rescued
from ralphd.edges.rescued import Parked

REFS_NAMED = 10  # in a message; the list is a command away


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A rescue ref with the task it belongs to, and the runner's record of it, where there is one."""

    parked: Parked
    task: Task
    loop: str
    entry: Entry | None


def rescues(book: Book) -> Iterator[Line]:
    """Tell every rescue ref on either side, then every folder that was moved aside whole."""
    loops = _loops(book)
    for kept in _kept(book, loops):
        yield _line(kept, book.night)
    for loop in loops.values():
        if book.loop in ("", loop.id):
            yield from (_aside(book.night, loop, folder) for folder in _folders_aside(loop))


def show_rescue(line: Line) -> str:
    if line["folder"]:
        return f"{line['folder']}  {line['why']}"
    where = "in your repository" if line["delivered"] else "in the night's repository"
    return f"{str(line['commit'])[:12]}  {line['ref']}  {where}: {line['why']}"


def brought(book: Book, wanted: str, to: str) -> Iterator[Line]:
    """Fetch what ``wanted`` names (a ref, its end, or a loop: all of it) into the person's repository.

    ``to``: also make that new branch of it. Raises NothingRunning, UsageError or GitError.
    """
    every = list(_kept(book, _loops(book)))
    chosen = [kept for kept in every if wanted == kept.loop or _names(kept.parked.ref, wanted)]
    if not chosen:
        refs = ", ".join(kept.parked.ref for kept in every[-REFS_NAMED:])
        raise NothingRunning(
            f"nothing rescued is named {wanted!r}; " + (f"there are: {refs}" if refs else "nothing is")
        )
    if to and len(chosen) > 1:
        raise UsageError(f"{wanted!r} names {len(chosen)} refs and --to makes one branch; name the ref")
    for kept in chosen:
        repo = rescued.bring(kept.task, kept.parked.ref)
        if to:
            rescued.make_branch(repo, to, kept.parked.commit)
        line = _line(kept, book.night)
        yield {**line, "delivered": True, "branch": to or None, "take": _take(repo.toplevel, kept, to)}


def show_brought(line: Line) -> str:
    branch = f" and the branch {line['branch']}" if line["branch"] else ""
    return f"{line['ref']}{branch} is in {line['repository']}; to take it: {line['take']}"


def _take(toplevel: str, kept: Kept, to: str) -> str:
    """Return the git command that gives a person the work; their checkout is theirs to change."""
    into = ["switch", to] if to else ["switch", "-c", f"rescued-{kept.loop or kept.task.name}", kept.parked.ref]
    return shlex.join(["git", "-C", toplevel, *into])


def _names(ref: str, wanted: str) -> bool:
    return ref == wanted or ref.endswith(f"/{wanted.removeprefix('/')}")


def _kept(book: Book, loops: Mapping[str, Loop]) -> Iterator[Kept]:
    records_by_ref = {
        entry.body.ref: entry
        for entry in book.reader.entries(book.night, types=("Repaired",))
        if isinstance(entry.body, records.Repaired) and entry.body.ref
    }
    for task in _tasks(book):
        for parked in rescued.parked(task, book.night).values():
            loop = rescued.loop_of(parked.ref, book.night, loops)
            if book.loop in ("", loop):
                yield Kept(parked=parked, task=task, loop=loop, entry=records_by_ref.get(parked.ref))


def _line(kept: Kept, night: str) -> Line:
    unknown: Line = {"id": None, "night": night, "loop": kept.loop, "generation": None, "trajectory": None}
    told = kept.entry.body if kept.entry is not None else None
    return {
        **(frame(kept.entry) if kept.entry is not None else {**unknown, "at": iso(kept.parked.at)}),
        "ref": kept.parked.ref,
        "commit": kept.parked.commit,
        "kind": told.outcome.kind.value if isinstance(told, records.Repaired) else None,
        "why": told.what if isinstance(told, records.Repaired) else _why(kept.parked.ref),
        "folder": None,
        "repository": kept.task.repository,
        "delivered": kept.parked.delivered,
    }


def _why(ref: str) -> str:
    if ref.rsplit("/", 1)[-1].startswith("best-"):
        return "its best verified commit, held so that it can't be lost"
    return "parked, and nothing more was written down about it"


def _aside(night: str, loop: Loop, folder: str) -> Line:
    return {
        "id": None,
        "at": iso(os.lstat(folder).st_ctime),
        "night": night,
        "loop": loop.id,
        "generation": None,
        "trajectory": None,
        "ref": None,
        "commit": None,
        "kind": None,
        "why": "a folder that was in the way or that git could not save whole; it is yours to keep or to remove",
        "folder": folder,
        "repository": None,
        "delivered": False,
    }


def _folders_aside(loop: Loop) -> list[str]:
    above, name = os.path.split(loop.worktree)
    try:
        names = sorted(os.listdir(above))
    except OSError:
        return []
    return [os.path.join(above, one) for one in names if one.startswith((f"{name}.aside-", f"{name}.git-aside-"))]


def _loops(book: Book) -> dict[str, Loop]:
    found = (entry.body for entry in book.reader.entries(book.night, types=("LoopAdded",)))
    return {body.loop.id: body.loop for body in found if isinstance(body, events.LoopAdded)}


def _tasks(book: Book) -> list[Task]:
    found = (entry.body for entry in book.reader.entries(book.night, types=("TaskAdded",)))
    return [body.task for body in found if isinstance(body, events.TaskAdded)]
