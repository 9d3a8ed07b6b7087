"""One loop of a night goes first with a CLI whose processes trip over one another where they begin for the first time.

The others wait until its agent has said a word: by then it has made what it makes. Where the lock can't be had, or the
first one says nothing for a minute, they begin all the same.
"""

from __future__ import annotations

import fcntl
import json
import os
import time

from ralphd.pane.files import open_regular, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.pane.waits import Waits

FOLDER = "firsts"  # beside the loops of a night
PATIENCE_S = 60.0
LOOK_S = 0.2
MARK_BYTES = 16 << 10


class First:
    """The loop whose state is in ``folder``, seen beside the others of its night. A runner that dies lets them go."""

    def __init__(self, folder: str, waits: Waits) -> None:
        self._folder = os.path.join(os.path.dirname(os.path.dirname(folder)), FOLDER)
        self._waits = waits
        self._lock = -1  # held: this loop goes first
        self._mark = self._done = b""

    def wait(self, cli: str, program: str) -> None:
        """Return when a session of ``program`` may begin, or when something else is wanted of the loop."""
        self._mark = _mark(program)
        if self._mark in (b"", self._done):
            return
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            lock = open_regular(os.path.join(self._folder, cli), os.O_RDWR | os.O_CREAT)
        except OSError:
            return
        if self._is_first(lock):
            self._lock = lock
        else:
            os.close(lock)

    def spoke(self) -> None:
        """Let the others begin: the agent has said something."""
        if self._lock < 0:
            return
        try:
            os.ftruncate(self._lock, 0)
            os.lseek(self._lock, 0, os.SEEK_SET)
            write_all(self._lock, self._mark)
        except OSError:
            pass  # a full disk: another one goes first again
        self._done = self._mark
        self.over()

    def over(self) -> None:
        """Let another one go first, if this loop's agent never said a word."""
        if self._lock >= 0:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a child between fork and exec has a copy, which would keep it
            os.close(self._lock)
            self._lock = -1

    def _is_first(self, lock: int) -> bool:
        until = time.monotonic() + PATIENCE_S
        while not _is_ours(lock):
            if time.monotonic() > until or not self._waits.goes_on:
                return False
            self._waits.idle(LOOK_S)
        if os.pread(lock, MARK_BYTES, 0) != self._mark:
            return True
        self._done = self._mark
        return False


def _mark(program: str) -> bytes:
    """Return what stands for this very program; nothing when it is gone."""
    try:
        found = os.stat(program)
    except OSError:
        return b""
    return json.dumps([program, found.st_size, found.st_mtime_ns]).encode()[:MARK_BYTES]


def _is_ours(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
