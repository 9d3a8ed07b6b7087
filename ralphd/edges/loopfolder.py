"""The folder that the daemon and a loop's runner share: assignments, orders and notes in, records out."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from ralphd.core import codec, events
from ralphd.core.events import Entry
from ralphd.core.exchange import Assignment, Order, RunnerIdentity
from ralphd.core.model import Loop
from ralphd.ports import Told

# One pass over 512 loops must stay short; a runner writes a few hundred bytes a second, so this is generous.
READ_AT_ONCE_BYTES = 1 << 20
# The longest line a runner writes is a TrajectoryEnded with evidence, a few KiB. Longer: damaged or hostile.
LINE_MAX_BYTES = 256 << 10
# A runner counts by one. A forged line with a huge number must not make everything after it look old.
SEQ_LEAP_MAX = 1_000_000


@dataclass
class _Tail:
    """Where reading stopped in one records file."""

    fd: int
    inode: int
    offset: int = 0
    rest: bytes = b""
    last_seq: int = 0


@dataclass
class LoopFolders:
    """The working default of ports.Folders. ``boot_id`` is this boot's: a runner of another boot is dead."""

    boot_id: str
    _tails: dict[str, _Tail] = field(default_factory=dict)
    _runners: dict[str, tuple[int, RunnerIdentity]] = field(default_factory=dict)
    _generations: dict[str, int] = field(default_factory=dict)
    _ordered: dict[str, int] = field(default_factory=dict)  # the newest serial written to each folder
    _ordering: Lock = field(default_factory=Lock)

    def assign(self, assignment: Assignment, preamble: str) -> None:
        if assignment.generation < self._generations.get(assignment.folder, 0):
            return  # a spawn that was slower than a restart
        self._generations[assignment.folder] = assignment.generation
        folder = Path(assignment.folder)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # by itself: only the last of a path gets the mode
        for name in ("", "calls", "logs", "notes", "notes/used", "prompts", "spill", "tmp"):
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        bell = folder / "calls" / "bell"
        with contextlib.suppress(FileExistsError):
            os.mkfifo(bell, 0o600)
        _replace(Path(assignment.preamble), preamble.encode())
        _replace(folder / "loop.json", json.dumps(codec.dump(assignment)).encode())

    def order(self, folder: str, order: Order) -> None:
        with self._ordering:  # a window is opened by another thread, perhaps after its loop was told to stop
            if order.serial < self._ordered.get(folder, -1):
                return
            self._ordered[folder] = order.serial
            _replace(Path(folder) / "order.json", json.dumps(codec.dump(order)).encode())
        _ring(os.path.join(folder, "calls", "bell"))

    def note(self, folder: str, name: str, text: str) -> None:
        notes = Path(folder) / "notes"
        if not text:
            (notes / name).unlink(missing_ok=True)
        elif not (notes / "used" / name).exists():
            _replace(notes / name, text.encode())
            _ring(os.path.join(folder, "calls", "bell"))  # one for the session that runs is taken at once

    def told(self, loop: Loop, night: str, after_seq: int) -> Told:
        tail = self._tail(loop.folder, after_seq)
        if tail is None:
            return Told(entries=())
        entries: list[Entry] = []
        refused = 0
        for line in _new_lines(tail):
            entry = _entry(line, night, loop.id)
            if entry is None or entry.seq > tail.last_seq + SEQ_LEAP_MAX:
                refused += 1
            elif entry.seq > tail.last_seq:
                tail.last_seq = entry.seq
                entries.append(entry)
        return Told(entries=tuple(entries), refused=refused)

    def alive(self, folder: str) -> bool:
        runner = self._runner(folder)
        return runner is not None and runner.boot_id == self.boot_id and _runs(runner.pid, runner.start_ticks)

    def close(self) -> None:
        for tail in self._tails.values():
            os.close(tail.fd)
        self._tails.clear()

    def _tail(self, folder: str, after_seq: int) -> _Tail | None:
        path = os.path.join(folder, "records.jsonl")
        known = self._tails.get(folder)
        if known is not None and known.inode == _inode(path):
            return known
        try:
            # never follow a link or block on a FIFO that an agent put there
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return known
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return known
        if known is not None:
            os.close(known.fd)
        last_seq = known.last_seq if known is not None else after_seq
        self._tails[folder] = _Tail(fd=fd, inode=os.fstat(fd).st_ino, last_seq=last_seq)
        return self._tails[folder]

    def _runner(self, folder: str) -> RunnerIdentity | None:
        path = os.path.join(folder, "runner.json")
        try:
            stamp = os.stat(path).st_mtime_ns
            known = self._runners.get(folder)
            if known is not None and known[0] == stamp:
                return known[1]
            with open(path, "rb") as file:
                runner = codec.load(RunnerIdentity, json.loads(file.read(LINE_MAX_BYTES)))
        except (OSError, ValueError):
            return None
        self._runners[folder] = (stamp, runner)
        return runner


def standing_order(folder: str) -> Order | None:
    """Return what a loop was told last; None when there is nothing that can be read as that."""
    try:
        fd = os.open(os.path.join(folder, "order.json"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            return codec.load(Order, json.loads(file.read(LINE_MAX_BYTES)))
    except (OSError, ValueError, RecursionError):
        return None


def _new_lines(tail: _Tail) -> list[bytes]:
    chunk = os.pread(tail.fd, READ_AT_ONCE_BYTES, tail.offset)
    tail.offset += len(chunk)
    *lines, tail.rest = (tail.rest + chunk).split(b"\n")
    if len(tail.rest) > LINE_MAX_BYTES:
        tail.rest = b"!"  # keeps the line damaged when its end comes, without keeping the line
    return [line for line in lines if line]


def _entry(line: bytes, night: str, loop: str) -> Entry | None:
    """Read a line as hostile input: None when it isn't a record a runner could have written."""
    try:
        data = json.loads(line) if len(line) <= LINE_MAX_BYTES else None
        if not isinstance(data, dict) or data.get("type") not in events.RUNNER_BODIES:
            return None
        entry = codec.load(_Header, data)
        body = events.body_from_json(data["type"], data.get("body"))
    except (ValueError, RecursionError):
        return None
    if entry.seq <= 0:
        return None
    return Entry(
        at=entry.at,
        night=night,
        loop=loop,
        generation=entry.generation,
        trajectory=entry.trajectory,
        seq=entry.seq,
        nonce=entry.nonce[:64],
        body=body,
    )


@dataclass(frozen=True, kw_only=True)
class _Header:
    """A record line but for its body."""

    seq: int
    at: float
    generation: int
    trajectory: int
    nonce: str = ""


def _ring(bell: str) -> None:
    try:
        fd = os.open(bell, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # no runner listens: it reads the order when it starts
    try:
        os.write(fd, b"order\n")
    except OSError as error:
        if error.errno not in {errno.EAGAIN, errno.EPIPE}:
            raise
    finally:
        os.close(fd)


def _replace(path: Path, data: bytes) -> None:
    """Write whole or not at all, 0600 whatever the umask."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    draft.replace(path)


def _inode(path: str) -> int:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return -1


def _runs(pid: int, start_ticks: int) -> bool:
    """Tell whether this very process runs: the pid alone may be somebody else's by now; a zombie runs no more."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return int(fields[19]) == start_ticks and fields[0] not in {b"Z", b"X"}
