"""What a loop's agent said and did: its raw log as sentences, or as it is."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import click

from ralphd.agents import NAMES, Lines, adapter
from ralphd.cli import here, out
from ralphd.cli.nightfolders import loop_folder, newest_night
from ralphd.core.errors import NothingRunning
from ralphd.core.redact import Redactor
from ralphd.edges.loopfolder import LINE_MAX_BYTES, LoopFolders
from ralphd.edges.processes import boot_id
from ralphd.pane.digest import plain, sentence

CHUNK_BYTES = 1 << 16
POLL_S = 0.25
GONE_S = 5.0  # so long without a runner and without a byte: a runner that is only being replaced is back by then
SENTENCE_CHARS = 8192  # far more than a line shows; it is cut behind it, as a secret cut in two would not be known
_LOG = re.compile(r"(\d{1,9})-(\d{1,9})\.log(?:\.(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, kw_only=True, order=True)
class Session:
    """One trajectory's log: its pieces are ``path``, ``path.1``, ``path.2`` …, of which middle ones may be gone."""

    generation: int
    trajectory: int
    path: str

    @property
    def title(self) -> str:
        return f"session {self.trajectory}, generation {self.generation}"


@click.command()
@click.argument("loop")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, session after session, until Ctrl-C.")
@click.option("--raw", is_flag=True, help="The agent's own bytes: escaped on a terminal, as they are in a pipe.")
@click.option("--stderr", is_flag=True, help="What it wrote there instead.")
@click.option("--night", metavar="NIGHT", default="", help="Of this night; else of the newest.")
@click.option("--session", type=click.IntRange(1), help="The trajectory with this number; else the newest.")
def logs(loop: str, night: str, session: int | None, *, follow: bool, raw: bool, stderr: bool) -> None:
    """Show what a loop's agent says and does, as its pane does."""
    folder = loop_folder(newest_night(here.place(), night), loop)
    first = _chosen(folder, loop, session)
    if follow:
        _follow(folder, first, raw=raw, stderr=stderr)
    else:
        _print(folder, _chunks(first, stderr=stderr), raw=raw, stderr=stderr)
        if not raw and not stderr:
            _say_end(folder, first)


def sessions(folder: str) -> list[Session]:
    """Return every trajectory with a log, in order."""
    above = os.path.join(folder, "logs")
    try:
        names = os.listdir(above)
    except OSError:
        return []
    found = {(int(m[1]), int(m[2])): f"{m[1]}-{m[2]}.log" for name in names if (m := _LOG.fullmatch(name))}
    return [
        Session(generation=generation, trajectory=trajectory, path=os.path.join(above, name))
        for (generation, trajectory), name in sorted(found.items())
    ]


def _chosen(folder: str, loop: str, number: int | None) -> Session:
    known = sessions(folder)
    fitting = [one for one in known if number in (None, one.trajectory)]
    if not known:
        raise NothingRunning(f"{loop} has had no session yet")
    if not fitting:
        first, last = known[0].trajectory, known[-1].trajectory
        why = ": it wrote nothing, or its log is gone" if number is not None and first <= number <= last else ""
        raise NothingRunning(f"{loop} has no log of session {number}{why}; there are {first} to {last}")
    return fitting[-1]


def _print(folder: str, chunks: Iterable[bytes], *, raw: bool, stderr: bool) -> None:
    """Print one session. Each has a reader of its own, since some keep a memory of what came before."""
    show = _printer(folder, raw=raw, stderr=stderr)
    for chunk in chunks:
        show(chunk)
    show(b"")


def _say_end(folder: str, session: Session) -> None:
    """Say how a session ended, as its runner recorded it; of a running one, nothing."""
    for line in _lines(os.path.join(folder, "records.jsonl")):
        try:
            record = json.loads(line) if b"TrajectoryEnded" in line else {}
            where = (record.get("generation"), record.get("trajectory"))
            if where == (session.generation, session.trajectory):
                body = record["body"]
                out.say(f"ended: {body['outcome']['kind']} after {body['seconds']:.1f} s")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue  # the file is in reach of the agent


def _lines(path: str) -> Iterator[bytes]:
    lines, place = Lines(limit_bytes=LINE_MAX_BYTES), 0
    while data := read_at(path, place):
        place += len(data)
        for _, _, line in lines.feed(data):
            yield line


def _follow(folder: str, first: Session, *, raw: bool, stderr: bool) -> None:
    """Follow until nobody writes any more. The start of a later session ends the one before."""
    now: Session | None = first
    while now is not None:
        if not raw:
            out.say(f"--- {now.title}")
        later = _later(folder, now)
        _print(folder, _chunks(now, stderr=stderr, more=later), raw=raw, stderr=stderr)
        if not raw:
            _say_end(folder, now)
        now = later()
    out.hint("its runner is gone; nothing more will come")


def _later(folder: str, now: Session) -> Callable[[], Session | None]:
    """Return what waits a moment and returns the next session: ``now`` while there is none, None at the end."""
    folders = LoopFolders(boot_id())
    alive_at = [time.monotonic()]

    def look() -> Session | None:
        following = next((one for one in sessions(folder) if one > now), None)
        if following is not None:
            return following
        if folders.alive(folder):
            alive_at[0] = time.monotonic()
        elif time.monotonic() > alive_at[0] + GONE_S:
            return None
        time.sleep(POLL_S)
        return now

    return look


def _chunks(session: Session, *, stderr: bool, more: Callable[[], Session | None] | None = None) -> Iterator[bytes]:
    """Yield the bytes of a log, piece after piece; with ``more`` until it names another session, or none."""
    path = session.path.removesuffix(".log") + ".err" if stderr else session.path
    piece, place = path, 0
    while True:
        data = read_at(piece, place)
        if data:
            place += len(data)
            yield data
        elif (following := next_piece(path, piece)) != piece:
            piece, place = following, 0
        elif more is None or more() != session:
            yield from _rest(piece, place)
            return


def _rest(piece: str, place: int) -> Iterator[bytes]:
    """Yield what came between the last look and the news that another session began."""
    while data := read_at(piece, place):
        place += len(data)
        yield data


def read_at(path: str, place: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, CHUNK_BYTES, place)
    except OSError:  # a FIFO or a folder in a log's place: nothing the runner made
        return b""
    finally:
        os.close(fd)


def next_piece(path: str, piece: str) -> str:
    """Return the piece after ``piece``; itself when it is the last one."""
    number = int(piece[len(path) + 1 :] or 0)
    above, name = os.path.split(path)
    try:
        names = os.listdir(above)
    except OSError:
        return piece
    numbers = [int(n[len(name) + 1 :]) for n in names if re.fullmatch(re.escape(name) + r"\.[0-9]{1,9}", n)]
    later = min((n for n in numbers if n > number), default=number)
    return f"{path}.{later}" if later else path


def _printer(folder: str, *, raw: bool, stderr: bool) -> Callable[[bytes], None]:
    """Return what prints a chunk; an empty one ends a session."""
    if raw and not (sys.stdout is not None and sys.stdout.isatty()):
        return _copy
    if raw:
        return _escaping(str)
    cli, hide = whose(folder)
    return _escaping(hide) if stderr else _digesting(cli, hide)


def _copy(chunk: bytes) -> None:
    if sys.stdout is not None:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


def _escaping(hide: Callable[[str], str]) -> Callable[[bytes], None]:
    lines = Lines()

    def show(chunk: bytes) -> None:
        for _, _, line in lines.feed(chunk) if chunk else lines.close():
            click.echo("".join(map(_escaped, hide(line.decode("utf-8", "backslashreplace")))))

    return show


def _escaped(char: str) -> str:
    return char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode("ascii")


def _digesting(cli: str, hide: Callable[[str], str]) -> Callable[[bytes], None]:
    lines = Lines()
    reader = adapter(cli).reader()

    def show(chunk: bytes) -> None:
        for start, end, line in lines.feed(chunk) if chunk else lines.close():
            for told in reader.read(line, start, end):
                if words := plain(hide(sentence(told)[: 2 * SENTENCE_CHARS])[:SENTENCE_CHARS]):
                    click.echo(words)

    return show


def whose(folder: str) -> tuple[str, Callable[[str], str]]:
    """Return whose output it is, and what hides its secrets; of a folder that is damaged, that of any program."""
    told = _assignment(folder)
    cli = told.get("cli")
    return cli if isinstance(cli, str) and cli in NAMES else "command", Redactor(secrets_in(told)).text


def known_in(folder: str) -> list[str]:
    """Return the values that nobody may be shown of that loop; none of a folder that is damaged."""
    return secrets_in(_assignment(folder))


def secrets_in(told: dict[str, object]) -> list[str]:
    secrets = told.get("secrets")
    return [one for one in secrets if isinstance(one, str)] if isinstance(secrets, list) else []


def _assignment(folder: str) -> dict[str, object]:
    try:
        with open(os.path.join(folder, "loop.json"), "rb") as file:
            told = json.loads(file.read(CHUNK_BYTES << 4))
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
