"""The morning's verb: bring what a night verified into the person's repository, after verifying it once more."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

import click

from ralphd.cli import here, out, taker
from ralphd.cli.logs import known_in
from ralphd.cli.nightfolders import loop_folders
from ralphd.cli.out import JSON
from ralphd.cli.place import Place
from ralphd.core import codec
from ralphd.core.errors import EdgeError, NothingRunning, RalphdError, UsageError
from ralphd.core.events import Entry
from ralphd.core.redact import Redactor
from ralphd.core.status import iso
from ralphd.core.taken import Taken
from ralphd.edges.journal import JournalReader

SCHEMA = "ralphd.take/1"


@click.command()
@click.argument("loops", metavar="[LOOP... | best | all]", nargs=-1)
@click.option("--night", metavar="NIGHT", default="", help="Of this night; else of the newest.")
@click.option("--task", metavar="TASK", default="", help="Of this task, where a night has several.")
@click.option("--to", metavar="BRANCH", default="", help="Name the new branch (default: take-NIGHT-LOOP).")
@click.option("--merge", is_flag=True, help="Move the branch that is checked out forward instead of making a new one.")
@click.option("--patch", metavar="FILE", default="", help="Write a patch instead (- for standard output).")
@click.option("--batch", metavar="N", type=click.IntRange(1), default=1, help="Verify this many loops at once.")
@click.option("--dry-run", is_flag=True, help="Only show what would come.")
@click.option("--undo", is_flag=True, help="Undo the newest take of the night.")
@JSON
def take(
    loops: tuple[str, ...],
    *,
    night: str,
    task: str,
    to: str,
    merge: bool,
    patch: str,
    batch: int,
    dry_run: bool,
    undo: bool,
    as_json: bool,
) -> None:
    """Bring the best verified work of loops into your repository.

    It is verified once more in a clean place first. By default a new branch is made and your checkout stays as it is;
    --merge moves your branch forward, on top of what you have committed since. Several loops (or all) are tried in the
    order of their verified gain, each on top of the last, and only what still gains is kept; --batch verifies several
    at once and halves a batch that doesn't gain.
    """
    where = here.place()
    if undo:
        _undo(where, night, loops, as_json=as_json)
        return
    wish = _wish(loops, task, to, merge=merge, patch=patch, batch=batch)
    name, entries = _entries(where, night)
    chosen = taker.choose(name, entries, wish)
    work = taker.Taker(place=where, chosen=chosen, wish=wish, environ=os.environ, say=out.hint)
    preview = work.preview()
    if dry_run and as_json:
        out.data({"schema": SCHEMA, "night": name, "would_take": preview})
        return
    for line in preview:
        out.say(line) if dry_run else out.hint(line)
    if dry_run:
        return
    _tell(where, work.take(), name, as_json=as_json)


def _wish(loops: tuple[str, ...], task: str, to: str, *, merge: bool, patch: str, batch: int) -> taker.Wish:
    if not loops:
        raise UsageError("say what to take: a loop's name, best or all (`ralphd report` shows what there is)")
    if len(loops) > 1 and {taker.BEST, taker.ALL} & set(loops):
        raise UsageError(f"{taker.BEST} and {taker.ALL} stand alone")
    if sum(map(bool, (to, merge, patch))) > 1:
        raise UsageError("--to, --merge and --patch exclude one another")
    how = "merge" if merge else "patch" if patch else "branch"
    return taker.Wish(loops=loops, how=how, where=to or patch, task=task, batch=batch)


def _entries(where: Place, night: str) -> tuple[str, list[Entry]]:
    reader = JournalReader.open(where.journal(here.config()))
    try:
        known = [row.id for row in reader.nights()]
        if not known:
            raise NothingRunning("no night has been yet; `ralphd start` begins one, `ralphd demo` shows one")
        if night and night not in known:
            raise NothingRunning(f"no night named {night!r}; there are: {', '.join(known[-taker.NAMED :])}")
        name = night or known[-1]
        return name, list(reader.entries(name))
    finally:
        reader.close()


def _tell(where: Place, outcome: taker.Outcome, night: str, *, as_json: bool) -> None:
    say: Callable[[str], None] = out.hint if outcome.patch else out.say  # a patch on standard output stands alone there
    redact = _redactor(where, night)
    if as_json:
        told = _json(outcome, night)
        out.data({**told, "tried": redact.data(told["tried"])})
    else:
        for tried in outcome.tried:
            say(f"{'taken' if tried.kept else 'left out'}: {', '.join(tried.loops)}: {redact.text(tried.why)}")
    if outcome.taken is None:
        raise NotTakenError("nothing was taken, and nothing in your repository has changed")
    if not as_json:
        for line in _told(outcome.taken, outcome.start.score):
            say(line)
    if outcome.patch and not as_json:
        sys.stdout.flush()
        sys.stdout.buffer.write(outcome.patch)
    _renew_report(where, night)


def _redactor(where: Place, night: str) -> Redactor:
    """Return what hides the night's secrets: a verifier's words may have them from the work that it judged."""
    folders = loop_folders(where.night(night)).values()
    return Redactor(sorted({secret for folder in folders for secret in known_in(folder)}))


class NotTakenError(RalphdError):
    """Nothing that was asked for is good enough."""


def _told(taken: Taken, before: float | None) -> Iterator[str]:
    score = "unverified" if not taken.verified else _score(before, taken.score)
    if taken.how == "patch":
        yield f"{score}: the patch is {'below' if taken.where == '-' else f'in {taken.where}'}"
    elif taken.how == "merge":
        yield f"{score}: {taken.where} is at {taken.commit[:12]} now; `ralphd take --undo` takes it back"
        if os.path.lexists(os.path.join(taken.repository, ".gitmodules")):
            yield "there are submodules: `git submodule update` brings them to the commits that are recorded"
    else:
        yield f"{score}: the branch {taken.where} is at {taken.commit[:12]}; `git merge {taken.where}` merges it"


def _score(before: float | None, after: float | None) -> str:
    if after is None:
        return "verified"
    return f"verified at {after:g}" if before is None else f"verified at {after:g}, from {before:g}"


def _json(outcome: taker.Outcome, night: str) -> dict[str, object]:
    tried = [
        {
            "loops": list(one.loops),
            "kept": one.kept,
            "why": one.why,
            "conflicts": list(one.conflicts),
            "verdict": codec.dump(one.verdict) if one.verdict else None,
        }
        for one in outcome.tried
    ]
    taken = outcome.taken
    return {
        "schema": SCHEMA,
        "night": night,
        "onto": outcome.start.commit,
        "onto_score": outcome.start.score,
        "tried": tried,
        "taken": _taken_json(taken) if taken else None,
        "patch": outcome.patch.decode("utf-8", "surrogateescape") if outcome.patch else None,
    }


def _taken_json(taken: Taken) -> dict[str, object]:
    data = codec.dump(taken)
    assert isinstance(data, dict)
    return {**data, "at": iso(taken.at), "undone_at": iso(taken.undone_at)}


def _undo(where: Place, night: str, loops: tuple[str, ...], *, as_json: bool) -> None:
    if loops:
        raise UsageError("--undo undoes the newest take; it takes no loops")
    name, _ = _entries(where, night)
    undone = taker.undo(where, name)
    if as_json:
        out.data({"schema": SCHEMA, "night": name, "undone": _taken_json(undone)})
    elif undone.how == "merge":
        out.say(f"{undone.where} is back at {undone.onto[:12]}")
    else:
        out.say(f"the branch {undone.where} is gone; {undone.commit[:12]} is still held by refs/ralphd/taken/")
    _renew_report(where, name)


def _renew_report(where: Place, night: str) -> None:
    """Let the report's files tell of it. They are made anew at any time, so what prevents that is no failure."""
    from ralphd.cli.reports import write_report  # noqa: PLC0415  # only now
    from ralphd.core.config import Config  # noqa: PLC0415

    with contextlib.suppress(OSError, EdgeError, NothingRunning):
        write_report(where, here.config() or Config(), night)
