"""What the journal holds of a night: outcomes, actions, verdicts, advice, or every entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from ralphd.cli import here, out
from ralphd.cli.book import Book, Line, frame, loop_of
from ralphd.cli.nightfolders import no_such_loop
from ralphd.cli.out import JSON
from ralphd.cli.rescue import brought, rescues, show_brought, show_rescue
from ralphd.core import codec, events, records
from ralphd.core.errors import NothingRunning, UsageError
from ralphd.core.events import Entry
from ralphd.core.outcomes import Outcome
from ralphd.edges.journal import JournalReader


@click.command()
@click.argument(
    "what", type=click.Choice(["outcomes", "actions", "verdicts", "advice", "rescue", "entries"]), default="outcomes"
)
@click.option("--night", metavar="NIGHT", default="", help="Of this night; else of the newest.")
@click.option("--loop", metavar="LOOP", default="", help="Of this loop only.")
@click.option("--bring", metavar="REF|LOOP", default="", help="With rescue: bring that work into your repository.")
@click.option("--to", metavar="BRANCH", default="", help="With --bring: make this new branch of it, too.")
@JSON
def journal(what: str, night: str, loop: str, bring: str, to: str, *, as_json: bool) -> None:
    """List what a night recorded, outcomes first of all.

    Outcomes if nothing is named; entries are all there is. With --json one object a line. Rescued work is what a
    repair or a clean restart took out of a loop's way: it is in a ref, and --bring fetches it at any time. Advice is
    what the supervisor's model was asked and answered.
    """
    if (bring and what != "rescue") or (to and not bring):
        raise UsageError("--bring belongs to `ralphd journal rescue`, and --to to --bring")
    with _open(night, loop) as book:
        if bring:
            for line in brought(book, bring, to):
                out.data_lines([line]) if as_json else out.say(show_brought(line))
            return
        tell, show = KINDS[what]
        told = False
        for line in tell(book):
            told = True
            if as_json:
                out.data_lines([line])
            else:
                out.say(f"{line['id'] or '-':>6}  {str(line['at'])[11:19]}  {line.get('loop') or '-':10}  {show(line)}")
        if not told and not as_json:
            out.hint(f"no {what} of {f'{loop} in ' if loop else ''}night {book.night} are recorded")
        for why in book.reader.unreadable_why:
            out.hint(f"ralphd: {why}")
        if book.reader.unreadable:
            out.hint(f"ralphd: {book.reader.unreadable} entries of the journal can't be read; the others are above")


@contextmanager
def _open(night: str, loop: str) -> Iterator[Book]:
    reader = JournalReader.open(here.place().journal(here.config()))
    try:
        known = [row.id for row in reader.nights()]
        if not known:
            raise NothingRunning("no night has been yet; `ralphd start` begins one, `ralphd demo` shows one")
        if night and night not in known:
            raise NothingRunning(f"no night named {night!r}; there are: {', '.join(known[-10:])}")
        _check_loop(reader, night or known[-1], loop)
        yield Book(reader=reader, night=night or known[-1], loop=loop)
    finally:
        reader.close()


def _check_loop(reader: JournalReader, night: str, loop: str) -> None:
    known = [entry.loop for entry in reader.entries(night, types=("LoopAdded",))] if loop else []
    if loop and loop not in known:
        raise NothingRunning(no_such_loop(loop, known))


def outcomes(book: Book) -> Iterator[Line]:
    """Tell every outcome once. A claim that was settled is told as what it came to, where it was made."""
    settled = {
        entry.body.entry: entry.body.outcome
        for entry in book.entries("ClaimSettled")
        if isinstance(entry.body, events.ClaimSettled)
    }
    for entry in book.reader.outcomes(book.night, book.loop or None):
        outcome = events.outcome_of(entry.body)
        if outcome is not None:
            yield _outcome(entry, settled.get(entry.id, outcome))


def _outcome(entry: Entry, outcome: Outcome) -> Line:
    attempt = {"attempt": entry.body.attempt} if isinstance(entry.body, records.AttemptEnded) else {}
    return {
        **frame(entry),
        "kind": outcome.kind.value,
        "charge": outcome.charge.value,
        "contamination": outcome.contamination.value,
        "response": outcome.response.value,
        "detail": codec.dump(outcome.detail),
        "evidence": codec.dump(outcome.evidence),
        **attempt,
    }


def actions(book: Book) -> Iterator[Line]:
    """Tell what was decided, with what came of it; ``result`` None: nothing is recorded about it."""
    settled = {
        entry.body.intent: entry.body
        for entry in book.reader.entries(book.night, types=("ActionSettled",))
        if isinstance(entry.body, events.ActionSettled)
    }
    for entry in book.entries("ActionIntended"):
        if isinstance(entry.body, events.ActionIntended):
            yield _action(entry, entry.body, settled.get(entry.id))


def _action(entry: Entry, intended: events.ActionIntended, end: events.ActionSettled | None) -> Line:
    return {
        **frame(entry),
        "loop": loop_of(entry),
        "action": intended.type,
        "args": codec.dump(intended.args),
        "by": intended.by,
        "why": intended.why,
        "result": end.result if end else None,
        "detail": end.detail if end else "",
    }


def verdicts(book: Book) -> Iterator[Line]:
    for entry in book.entries("VerdictGiven"):
        if isinstance(entry.body, events.VerdictGiven):
            told = codec.dump(entry.body.verdict)
            assert isinstance(told, dict)
            yield {**frame(entry), **told, "submission": entry.body.submission}


def advice(book: Book) -> Iterator[Line]:
    for entry in book.entries("Consulted"):
        told = codec.dump(entry.body)
        assert isinstance(told, dict)
        yield {**frame(entry), **told}


def entries(book: Book) -> Iterator[Line]:
    for entry in book.entries():
        type_, body = events.body_to_json(entry.body)
        yield {**frame(entry), "seq": entry.seq or None, "type": type_, "body": body}


def _show_outcome(line: Line) -> str:
    seen = line["evidence"]
    what = seen[0].get("what", "") if isinstance(seen, list) and seen and isinstance(seen[0], dict) else ""
    attempt = f" (attempt {line['attempt']})" if "attempt" in line else ""
    return f"session {line['trajectory']}{attempt}  {line['kind']}  {str(what)[:300]}"


def _show_action(line: Line) -> str:
    return f"{line['action']} by {line['by']}: {line['why']} -> {line['result'] or 'open'} {line['detail']}"


def _show_verdict(line: Line) -> str:
    score = "no score" if line["score"] is None else f"{line['score']:g}"
    marks = [str(line[name]) for name in ("kind",) if line[name]]
    marks += [name for name in ("submission", "passed", "unverified") if line[name]]
    return f"{str(line['commit'])[:12]}  {score}  {' '.join(marks)}  {str(line['why'])[:300]}"


def _show_advice(line: Line) -> str:
    what = "taken" if line["taken"] else f"not taken, {line['refused']}: {line['reason']}"
    return f"{line['trouble']} -> {line['choice'] or 'no choice'}, {what}  {str(line['why'])[:300]}"


def _show_entry(line: Line) -> str:
    return f"{line['type']}  {str(line['body'])[:300]}"


KINDS: dict[str, tuple[Callable[[Book], Iterator[Line]], Callable[[Line], str]]] = {
    "outcomes": (outcomes, _show_outcome),
    "actions": (actions, _show_action),
    "verdicts": (verdicts, _show_verdict),
    "advice": (advice, _show_advice),
    "rescue": (rescues, show_rescue),
    "entries": (entries, _show_entry),
}
