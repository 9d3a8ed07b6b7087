"""SQLite maps the index of its log (``-shm``): who shortens that file would end each process that looks next.

The kernel's word for it is SIGBUS, which nobody can answer. So before each use the file is held against what is mapped,
and made as long again, of zeros: SQLite then makes the index anew from the log, and nothing is lost. No descriptor of
the file is opened for it, since closing one would drop the locks that SQLite has on it. What is cut off in the middle
of a use is beyond help: that process ends, and the next daemon adopts the loops.
"""

from __future__ import annotations

import contextlib
import os

MAPS = "/proc/self/maps"


class LogIndex:
    """Of one database, as one of its connections uses it."""

    def __init__(self, database: str) -> None:
        self._path = f"{database}-shm"
        self._bytes: int | None = None  # as it was at the last look; None: this process may have mapped it before

    def make_whole(self) -> None:
        """Give the file back what was cut off it. A file that is gone is nothing to mend: the mapped one lives on."""
        with contextlib.suppress(OSError):  # nobody could do more; without /proc nothing is known to be mapped
            size = os.stat(self._path).st_size
            if self._bytes is None or size < self._bytes:
                size = self._lengthen(size)
            self._bytes = size

    def _lengthen(self, size: int) -> int:
        mapped = mapped_bytes(os.path.realpath(self._path))
        if size >= mapped:
            return size
        if size:
            os.truncate(self._path, 0)  # a beginning that looks sound would be believed, though the rest is gone
        os.truncate(self._path, mapped)
        return mapped


def mapped_bytes(path: str) -> int:
    """Return up to where this process has mapped a file."""
    name = os.fsencode(path).replace(b"\n", b"\\012")
    ends = [0]
    with open(MAPS, "rb") as maps:
        for line in maps:
            fields = line.rstrip(b"\n").split(maxsplit=5)
            if len(fields) == 6 and fields[5] == name:
                begin, _, end = fields[0].partition(b"-")
                ends.append(int(fields[2], 16) + int(end, 16) - int(begin, 16))
    return max(ends)
