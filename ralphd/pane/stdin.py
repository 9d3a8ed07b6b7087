"""Our end of an agent's stdin: what a running session is told, and whether it waits for the end of it."""

from __future__ import annotations

import fcntl
import os
import termios

from ralphd.pane.procs import slurp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FIRST_LOOK_S = 0.02
LOOK_MAX_S = 10.0
SILENT_S = 5.0  # it has read all, and not said a word: Claude Code tells of itself at once
PAUSE_S = 30.0  # it said something, and has read on since then: too long for one that works


def waiting_bytes(fd: int) -> int:
    """Return how much can be read right now without waiting; of a pipe either end knows."""
    count = fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0")
    return int.from_bytes(count, "little")


class Input:
    """Our end of an agent's stdin, non-blocking. It is closed once, by whoever is first."""

    def __init__(self, fd: int = -1) -> None:
        self._fd = fd
        self._unsent = b""

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def say(self, data: bytes) -> bool:
        """Send ``data`` as soon as the agent reads it; False when it never will, or hasn't read what came before."""
        self.flush()
        if not self.is_open or self._unsent:
            return False
        self._unsent = data
        self.flush()
        return self.is_open

    def flush(self) -> None:
        try:
            while self._unsent and self.is_open:
                self._unsent = self._unsent[os.write(self._fd, self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self.close()  # it reads no more

    def close(self) -> None:
        if self.is_open:
            os.close(self._fd)
            self._fd = -1

    def all_read(self) -> bool:
        return self.is_open and not self._unsent and waiting_bytes(self._fd) == 0

    def read_by(self, pid: int) -> bool:
        """Tell whether the main thread of ``pid`` sleeps in a read of this very pipe. False where nobody may see."""
        if not self.is_open or b"pipe" not in slurp(f"/proc/{pid}/wchan"):
            return False
        call = slurp(f"/proc/{pid}/syscall").split()
        try:
            there = os.stat(f"/proc/{pid}/fd/{int(call[1], 16)}")
        except (IndexError, ValueError, OSError):
            return False
        mine = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


class ReadsToEnd:
    """Ends the stdin of a program that reads it to its end before it begins.

    Claude Code takes one message and begins, so that more can be told later. A program in its place that reads all
    there is (``cat``, ``sys.stdin.read()``) would wait for ever, and so would a tool call that inherits stdin.
    """

    def __init__(self, stdin: Input, tree: Callable[[], Iterable[int]], now: float) -> None:
        self._stdin, self._tree = stdin, tree
        self._wait_s = FIRST_LOOK_S
        self._look_at = now + self._wait_s
        self._read_at = now
        self.seen = False  # it is certain: the next session may be given a file at once

    def next_look_s(self, now: float) -> float:
        return self._look_at - now if self._stdin.is_open else float("inf")

    def look(self, now: float, *, spoke: bool, silent_s: float) -> None:
        """End it if it is time. ``spoke``: it has said something; ``silent_s``: the seconds since then."""
        if now < self._look_at or not self._stdin.is_open:
            return
        self._wait_s = min(LOOK_MAX_S, 2 * self._wait_s)
        self._look_at = now + self._wait_s
        if not self._stdin.all_read():
            self._read_at = now
            return
        if spoke and silent_s < PAUSE_S:
            return
        reads_on = any(self._stdin.read_by(pid) for pid in self._tree())
        if reads_on or (not spoke and now - self._read_at >= SILENT_S):
            self.seen = reads_on and not spoke
            self._stdin.close()
