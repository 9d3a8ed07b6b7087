"""How far the journal had come: the last id handed out, in a file of its own, so that a lost tail is noticed.

A deleted WAL or a damaged frame in it makes SQLite go on from an older state without a word; this file contradicts it.
It is written after each commit and not synced: after a power cut it may lag behind the journal, never run ahead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

# An id beyond this was never given by us: JSON readers lose precision there.
ID_MAX = 1 << 52


@dataclass(frozen=True, kw_only=True)
class Mark:
    """``at``: epoch seconds of the entry with that id."""

    last_id: int
    at: float


def mark_path(journal: str) -> str:
    return f"{journal}.mark"


def read_mark(journal: str) -> Mark | None:
    """Return what the file says; None when there is none, or nothing that can be believed."""
    try:
        fd = os.open(mark_path(journal), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        id_, at = os.read(fd, 64).split()
        mark = Mark(last_id=int(id_), at=float(at))
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
    return mark if 0 < mark.last_id < ID_MAX else None


class MarkWriter:
    """Overwrites the same few bytes: it needs no space that a full disk could refuse. What fails is left out."""

    def __init__(self, journal: str) -> None:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._fd = os.open(mark_path(journal), flags, 0o600)
        except OSError:
            self._fd = -1

    def write(self, last_id: int, at: float) -> None:
        if self._fd < 0:
            return
        try:
            os.pwrite(self._fd, b"%020d %017.3f\n" % (last_id, at), 0)
        except OSError:
            return

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
