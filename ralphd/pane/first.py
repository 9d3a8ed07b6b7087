"""What one loop of a night does alone, because two processes of its CLI trip when both do it at once.

Where the lock can't be had, or the command fails, the session begins all the same: it can tell what is wrong.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time

from ralphd.pane.files import open_regular, write_all
from ralphd.pane.session import StartFailed, read_some, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ralphd.agents.base import First
    from ralphd.pane.ears import Ears
    from ralphd.pane.session import Session

FOLDER = "firsts"  # beside the loops of a night
PATIENCE_S = 120.0  # two seconds of a processor, on a machine where thirty others want it
LOOK_S = 0.2
MARK_BYTES = 16 << 10


class FirstRun:
    """Runs a command once a night, for all its loops. ``idle`` waits and heeds orders; ``goes_on``: none came."""

    def __init__(self, folder: str, ears: Ears, idle: Callable[[float], None], goes_on: Callable[[], bool]) -> None:
        self._folder = os.path.join(os.path.dirname(os.path.dirname(folder)), FOLDER)
        self._ears, self._idle, self._goes_on = ears, idle, goes_on
        self._done = b""

    def go(self, name: str, first: First, env: Mapping[str, str], cwd: str) -> None:
        """Return once the command has run for this program and what it makes, by whichever loop."""
        mark = _mark(first)
        if mark in (b"", self._done):
            return
        lock = self._lock(name)
        if lock is None:
            return
        try:
            if os.pread(lock, MARK_BYTES, 0) != mark:
                if not self._run(first, env, cwd):
                    return
                os.ftruncate(lock, 0)
                write_all(lock, mark)
            self._done = mark
        except OSError:
            return  # a full disk: the next one runs it again
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # a child between fork and exec has a copy, which would keep it
            os.close(lock)

    def _lock(self, name: str) -> int | None:
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            fd = open_regular(os.path.join(self._folder, name), os.O_RDWR | os.O_CREAT)
        except OSError:
            return None
        until = time.monotonic() + PATIENCE_S
        while not _is_ours(fd):
            if time.monotonic() > until or not self._goes_on():
                os.close(fd)
                return None
            self._idle(LOOK_S)
        return fd

    def _run(self, first: First, env: Mapping[str, str], cwd: str) -> bool:
        """Run the command, and tell whether it was let: one that fails, or hangs, would do so for the others too."""
        try:
            session = start(first.argv, env, cwd=cwd, stdin=b"")
        except StartFailed:
            return True
        ears, until = self._ears, time.monotonic() + PATIENCE_S
        ears.expect(session.pid)
        try:
            self._hear_out(session)
            while session.pid not in ears.exits and self._goes_on() and time.monotonic() < until:
                self._idle(until - time.monotonic())
            ended = session.pid in ears.exits
            self._end(session)
        finally:
            ears.forget(session.stdout)
            ears.forget(session.stderr)
            session.close()
        return ended or self._goes_on()

    def _hear_out(self, session: Session) -> None:
        """Read what nobody needs, lest a full pipe hold it up."""
        for fd in (session.stdout, session.stderr):
            self._ears.hear(fd, lambda fd=fd: self._ears.forget(fd) if read_some(fd) == b"" else None)  # type: ignore[misc]  # mypy can't infer the default

    def _end(self, session: Session) -> None:
        if session.pid not in self._ears.exits:
            os.killpg(session.pid, signal.SIGKILL)
        while session.pid not in self._ears.exits:
            self._ears.wait(LOOK_S)
        del self._ears.exits[session.pid]


def _mark(first: First) -> bytes:
    """Return what stands for this command of this very program; nothing when the program is gone."""
    try:
        found = os.stat(first.argv[0])
    except OSError:
        return b""
    return json.dumps([first.argv, first.makes, found.st_size, found.st_mtime_ns]).encode()[:MARK_BYTES]


def _is_ours(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
