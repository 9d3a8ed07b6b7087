"""How a runner's records reach the disk, once each, whatever happens to the disk, the runner or the file."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass

from ralphd.core.codec import dump
from ralphd.pane.files import SAFE, NotPlain, forget, open_regular, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.records import RunnerBody

NAME = "records.jsonl"
RESERVE = "records.reserve"
RESERVE_BYTES = 64 << 10  # room for some 200 records on a full disk
SEQ_JUMP = 1_000_000  # readers refuse a line whose number is further on than that
LINE_LIMIT_BYTES = 128 << 10  # readers refuse 256 KiB; an honest line takes a few hundred bytes
SYNC_AGAIN_S = 2.0  # a failing disk is asked less than once a second, however much an agent says meanwhile
WAITING_LIMIT = 2000  # records kept in memory while the disk takes none; a session has five, and many signs of life
SIGN_OF_LIFE = b'"type":"Progressed"'  # as a line has it; in the words of an agent each quote has a backslash before it


@dataclass
class Past:
    """What the file tells a new runner: the last number of each kind, and a trajectory that never ended."""

    seq: int = 0
    trajectory: int = 0
    open_nonce: str = ""
    open_at: float = 0.0
    open_head: str = ""
    open_log: str = ""
    head: str = ""  # the branch's tip when it was last seen in order
    prepared: int = 0  # generation


class Recorder:
    """Appends lines to records.jsonl; ``seq`` grows by one.

    The file is in reach of the agent: when lines that are not ours appear, or the file is cut, taken away or replaced,
    our own lines go on in a new file of that name (readers take each number once). A full disk delays records: they
    wait in memory, in order, and only signs of life are forgotten when very many do. ``trouble`` says why.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, NAME)
        self._waiting: list[bytes] = []
        self._unsynced_since: float | None = None
        self._sync_not_before = 0.0
        self.trouble = ""
        self.tampered = 0
        self.generation = 0
        self.trajectory = 0
        self.nonce = ""
        self._fd = self._open()
        self.past = self._recover()
        self.seq = self.past.seq
        self._reserve()

    def go_on_after(self, seq: int, trajectory: int) -> None:
        """Use no number that the journal has already: it may hold records that a power cut took from the file.

        What agents could have written there, too far ahead to be meant, is not believed.
        """
        if self.seq < seq < self.seq + SEQ_JUMP:
            self.seq = self.past.seq = seq
            self.past.trajectory = max(self.past.trajectory, trajectory)

    def append(self, body: RunnerBody, *, at: float) -> None:
        """Write one line. It is durable after ``sync``."""
        self._guard()
        self.seq += 1
        line = {
            "seq": self.seq,
            "at": at,
            "generation": self.generation,
            "trajectory": self.trajectory,
            "nonce": self.nonce,
            "type": type(body).__name__,
            "body": dump(body),
        }
        self._waiting.append(_encode(line))
        self.flush()

    def flush(self) -> None:
        """Write what waits. A refusal of the disk is kept in ``trouble`` and tried again at the next call."""
        while self._waiting:
            try:
                count = os.write(self._fd, self._waiting[0])
            except OSError as error:
                self.trouble = error.strerror or str(error)
                if not forget(os.path.join(self._folder, RESERVE)):
                    self._keep_what_counts()
                    return
                continue
            self._size += count
            if self._unsynced_since is None:
                self._unsynced_since = time.monotonic()
            self._waiting[0] = self._waiting[0][count:]  # a half line is completed in place: readers only ever go on
            if not self._waiting[0]:
                del self._waiting[0]
        if self.trouble:
            self.trouble = ""
            self._reserve()

    def _keep_what_counts(self) -> None:
        """Forget signs of life when too many records wait: hours without room must not cost how sessions ended."""
        if len(self._waiting) > WAITING_LIMIT:
            first, *rest = self._waiting  # the first may be written in part
            self._waiting = [first, *(line for line in rest if SIGN_OF_LIFE not in line)][:WAITING_LIMIT]

    def sync(self, *, older_than_s: float = -1.0) -> None:
        """Make durable what was written, if its oldest line has waited longer than that."""
        now = time.monotonic()
        if self._unsynced_since is None or now - self._unsynced_since <= older_than_s or now < self._sync_not_before:
            return
        try:
            os.fsync(self._fd)
            self._unsynced_since = None
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self._sync_not_before = now + SYNC_AGAIN_S

    def close(self) -> None:
        self.flush()
        self.sync()
        os.close(self._fd)

    def _open(self) -> int:
        try:
            return open_regular(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except NotPlain:
            os.rename(self._path, f"{self._path}.odd-{os.getpid()}")  # somebody's link or FIFO: kept, out of the way
            return os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | SAFE, 0o600)

    def _recover(self) -> Past:
        """Fold the whole file in bounded pieces, and mend a last line that a crash cut."""
        past, rest, offset = Past(), b"", 0
        while piece := os.pread(self._fd, 1 << 16, offset):
            offset += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                _remember(past, line)
        self._size = offset
        if rest:
            self._mend(past, rest)
        return past

    def _mend(self, past: Past, rest: bytes) -> None:
        """End a line that a crash cut. It is never taken back: a reader may have read its beginning."""
        _remember(past, rest)  # only its newline may be missing
        self._size += os.write(self._fd, b"\n")

    def _guard(self) -> None:
        """See that the file is still ours, byte for byte in length: the agent runs as the same user."""
        try:
            named = os.stat(self._path, follow_symlinks=False)
        except OSError:
            named = None
        ours = os.fstat(self._fd)
        if named is not None and (named.st_ino, named.st_dev, ours.st_size) == (ours.st_ino, ours.st_dev, self._size):
            return
        self.tampered += 1
        if ours.st_size > self._size:
            self._skip_foreign(ours.st_size)
        self._size = min(self._size, ours.st_size)
        self._put_back()

    def _skip_foreign(self, size: int) -> None:
        """Go on beyond the numbers of foreign lines: a reader may have taken them for ours."""
        limit = self.seq + SEQ_JUMP
        foreign = os.pread(self._fd, min(size - self._size, 1 << 20), self._size)
        for line in foreign.split(b"\n"):
            past = Past()
            if _remember(past, line) and past.seq < limit:
                self.seq = max(self.seq, past.seq)

    def _put_back(self) -> None:
        """Write our own part (the descriptor still holds it) to a new file, which makes readers begin again."""
        draft = f"{self._path}.new"
        try:
            forget(draft)
            fd = os.open(draft, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
            offset = 0
            while piece := os.pread(self._fd, min(1 << 16, self._size - offset), offset):
                write_all(fd, piece)
                offset += len(piece)
            os.fsync(fd)  # what it takes the place of was durable
            os.rename(draft, self._path)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            return
        os.close(self._fd)
        self._fd, self._unsynced_since = fd, time.monotonic()

    def _reserve(self) -> None:
        path = os.path.join(self._folder, RESERVE)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | SAFE, 0o600)
        except OSError:
            return
        try:
            os.posix_fallocate(fd, 0, RESERVE_BYTES)
        except OSError:
            forget(path)
        finally:
            os.close(fd)


def _encode(line: dict[str, object]) -> bytes:
    data = json.dumps(line, separators=(",", ":")).encode()
    if len(data) > LINE_LIMIT_BYTES:
        data = json.dumps(_shorter(line, 400), separators=(",", ":")).encode()
    return data + b"\n"


def _shorter(value: object, limit: int) -> object:
    """Return ``value`` with every text and list cut to ``limit``: agents' words must not cost us a record."""
    if isinstance(value, dict):
        return {key: _shorter(item, limit) for key, item in list(value.items())[:limit]}
    if isinstance(value, list):
        return [_shorter(item, limit) for item in value[: limit // 10]]
    return value[:limit] if isinstance(value, str) else value


def _remember(past: Past, line: bytes) -> bool:
    """Fold one line; False when it is not a record."""
    try:
        record = json.loads(line)
        seq, trajectory, kind = int(record["seq"]), int(record["trajectory"]), record["type"]
        nonce, body = str(record["nonce"]), record["body"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    past.seq = max(past.seq, seq)
    if kind == "TrajectoryStarted" and isinstance(body, dict):
        past.trajectory, past.open_nonce, past.open_at = trajectory, nonce, float(record.get("at", 0.0))
        past.open_head, past.open_log = str(body.get("head", "")), str(body.get("log", ""))
        past.head = past.open_head
    elif kind == "TrajectoryEnded" and isinstance(body, dict):
        past.open_nonce, past.head = "", str(body.get("head_after", ""))
    elif kind == "Prepared" and isinstance(body, dict):
        past.prepared, past.head = int(record.get("generation", 0)), str(body.get("head", ""))
    return True
