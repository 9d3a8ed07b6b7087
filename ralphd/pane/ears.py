"""The one place where a runner waits: pipes, child processes, signals, and the time that nobody had."""

from __future__ import annotations

import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

NOTED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD)
IGNORED = (signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGPIPE)  # keys must not stop a loop
LATE_S = 5.0  # a wake-up that late means that the machine or this process was stopped, not busy
LONGEST_WAIT_S = 3600.0  # poll(2) takes milliseconds in an int


def _note(_signum: int, _frame: object) -> None:
    """Python has already written the number to the wake-up pipe."""


class Ears:
    """Waits for all that a runner reacts to. Signal handlers only leave a note: ``signals`` holds what came.

    ``exits`` maps the pid of an ended child to its wait status; orphans that became ours are reaped on the way.
    """

    def __init__(self) -> None:
        self.signals: set[int] = set()
        self.exits: dict[int, int] = {}
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._wanted: set[int] = set()
        self._asleep_s = _asleep()
        self._expected = 0.0
        self._inbox, outbox = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(outbox, warn_on_full_buffer=False)
        for number in NOTED:
            signal.signal(number, _note)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        self.hear(self._inbox, self._take_signals)

    def hear(self, fd: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` from ``wait`` whenever ``fd`` can be read or has ended."""
        self._callbacks[fd] = callback
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def expect(self, pid: int) -> None:
        """Keep the exit status of this child."""
        self._wanted.add(pid)

    def wait(self, seconds: float) -> float:
        """Wait for something to do, do it, and return the seconds in which nobody could work (usually 0)."""
        seconds = min(max(seconds, 0.0), LONGEST_WAIT_S)
        self._expected = time.monotonic() + seconds
        for fd, _ in self._poll.poll(int(seconds * 1000 + 0.999)):
            if fd in self._callbacks:  # an earlier callback may have forgotten it
                self._callbacks[fd]()
        return self._lost()

    def _lost(self) -> float:
        late_s = time.monotonic() - self._expected
        before, self._asleep_s = self._asleep_s, _asleep()
        slept_s = self._asleep_s - before
        return (late_s if late_s > LATE_S else 0.0) + (slept_s if slept_s > LATE_S else 0.0)

    def _take_signals(self) -> None:
        try:
            self.signals.update(os.read(self._inbox, 4096))
        except BlockingIOError:
            return
        if signal.SIGCHLD in self.signals:
            self.signals.discard(signal.SIGCHLD)
            self.reap()

    def reap(self) -> None:
        """Take the status of every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._wanted:
                self._wanted.discard(pid)
                self.exits[pid] = status


def _asleep() -> float:
    """Return the seconds this boot has spent suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()
