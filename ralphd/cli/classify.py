"""Which outcome a log tells of, and why."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

import click

from ralphd.agents import NAMES, Lines, adapter
from ralphd.cli import out
from ralphd.cli.out import JSON
from ralphd.core import codec
from ralphd.core.classify import explain
from ralphd.core.errors import UsageError
from ralphd.core.facts import EndedBy, Facts
from ralphd.core.outcomes import Evidence, Outcome
from ralphd.core.reading import Reading
from ralphd.core.signals import Unread
from ralphd.pane.zones import dated

CHUNK_BYTES = 1 << 16
STDERR_TAIL_BYTES = 8 << 10  # what the runner keeps of it
OPEN_ALREADY = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")  # a shell's <(COMMAND) is one of these
PLAIN = ("command", "demo")  # whose output need not hold an event


@click.command()
@click.argument("log", metavar="LOG")
@click.option("--cli", type=click.Choice(NAMES), required=True, help="Whose output it is.")
@click.option("--exit", "code", type=click.IntRange(0, 255), help="The exit status, if it is known.")
@click.option("--signal", "number", type=click.IntRange(1, 64), help="The signal that ended it.")
@click.option("--ended-by", type=click.Choice([by.value for by in EndedBy if by]), help="Why a runner ended it.")
@click.option("--stderr", "stderr", metavar="FILE", default="", help="What it wrote there.")
@JSON
def classify(
    log: str, *, cli: str, code: int | None, number: int | None, ended_by: str | None, stderr: str, as_json: bool
) -> None:
    """Say which outcome an agent's log tells of, and why.

    LOG is a file of its output, - for stdin.
    """
    if code is not None and number is not None:
        raise UsageError("--exit and --signal exclude each other: a process ends one way")
    if log == stderr == "-":
        raise UsageError("LOG and --stderr can't both be read from stdin: name a file for one of them")
    tells, reading = adapter(cli).TELLS, _read(log, cli)
    facts = Facts(
        cli=cli,
        exit_code=code,
        signal=number,
        ended_by=EndedBy(ended_by or ""),
        reading=reading,
        stderr_tail=_tail(stderr),
        stderr_file=os.path.abspath(stderr) if stderr else "",
        log="" if log == "-" else os.path.abspath(log),
    )
    outcome, rule = explain(facts)
    outcome = dated(outcome, dict(os.environ), time.time())
    if as_json:
        compactions = reading.compactions if tells.compactions or reading.compactions else None
        out.data(_data(outcome, reading) | {"compactions": compactions, "rule": rule})
    else:
        _show(outcome, rule)
    if code is None and number is None:
        out.hint("how it ended is the strongest evidence, and wasn't given: add --exit N or --signal N")


def _read(log: str, cli: str) -> Reading:
    """Fold a log of any size and content in bounded memory."""
    reading, reader, lines, events = Reading(), adapter(cli).reader(), Lines(), 0
    for start, end, line in chain(chain.from_iterable(map(lines.feed, _chunks(log))), _last(lines)):
        for told in reader.read(line, start, end):
            events += not isinstance(told, Unread)
            reading.add(told)
    if not events and cli not in PLAIN:
        out.hint(f"no line of {log} is an event of {cli}, as where it fails at its start: or is it another CLI's log?")
    return reading


def _last(lines: Lines) -> Iterator[tuple[int, int, bytes]]:
    yield from lines.close()  # asked for when all the others are through


def _chunks(path: str) -> Iterator[bytes]:
    """Read a file, or a pipe that is open already. A named pipe may have no other end, and a device no end at all."""
    try:
        with _opened(path) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise UsageError(f"{path or 'a file without a name'} can't be read: {error.strerror}") from None


def _opened(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    if not (path.startswith(OPEN_ALREADY) or stat.S_ISREG(mode := os.stat(path).st_mode) or stat.S_ISDIR(mode)):
        raise UsageError(f"{path} is no file: to read from a pipe or a device, lead it to stdin and name -")
    return open(path, "rb")


def _tail(path: str) -> str:
    tail = b""
    for chunk in _chunks(path) if path else ():
        tail = (tail + chunk)[-STDERR_TAIL_BYTES:]
    return tail.decode("utf-8", "replace")


def _data(outcome: Outcome, reading: Reading) -> dict[str, object]:
    return {
        "kind": outcome.kind.value,
        "charge": outcome.charge.value,
        "contamination": outcome.contamination.value,
        "response": outcome.response.value,
        "detail": codec.dump(outcome.detail),
        "evidence": codec.dump(outcome.evidence),
        "tokens_in": reading.tokens_in,
        "tokens_out": reading.tokens_out,
    }


def _show(outcome: Outcome, rule: str) -> None:
    out.say(f"{outcome.kind.value}, by the rule {rule}")
    out.say(f"  counts against: {outcome.charge.value}; contaminates: {outcome.contamination.value}")
    out.say(f"  what follows: {outcome.response.value}")
    for name, value in outcome.detail.items():
        out.say(f"  {name}: {value}")
    for seen in outcome.evidence:
        out.say(f"  evidence: {place(seen)}")


def place(seen: Evidence) -> str:
    """Say where evidence can be looked at."""
    if not seen.file:
        return seen.what
    where = f"{seen.file}, bytes {seen.start} to {seen.end}" if seen.end else seen.file
    return f"{seen.what} ({where})"
