"""The FIFO on which the wrappers of tool calls announce them, and orders ring; agents can write to it too."""

from __future__ import annotations

import os
import stat

LINE_BYTES = 512  # an honest line takes under 80; also what a pipe writes whole (PIPE_BUF is 4096 here)
READ_BYTES = 65536  # what a pipe holds


class Bell:
    """``folder``/bell, made with its folder where it is missing."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._fd = _open(os.path.join(folder, "bell"))
        self._tail = b""  # of a line whose end has not come yet
        self._skipping = False  # the rest of a line that is too long

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)

    def lines(self) -> list[bytes]:
        """Return the lines that came whole and are not too long. Never blocks; takes at most one pipe full."""
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return []
        *lines, tail = (self._tail + data).split(b"\n")
        if self._skipping and lines:
            lines[0], self._skipping = b"", False
        self._skipping = self._skipping or len(tail) > LINE_BYTES
        self._tail = b"" if self._skipping else tail
        return [line for line in lines if len(line) <= LINE_BYTES]


def _open(path: str) -> int:
    if os.path.lexists(path) and not stat.S_ISFIFO(os.lstat(path).st_mode):
        os.unlink(path)
    if not os.path.lexists(path):
        os.mkfifo(path, 0o600)
    # Open for writing too: there is never an end of file, however many wrappers come and go.
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
