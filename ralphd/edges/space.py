"""Whether there is room left on the disk under a folder, in bytes and in inodes, and a little that is kept for need."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from ralphd.core.outcomes import Kind

# One commit of the journal and its checkpoint need less; below it nothing that anybody starts will work.
FULL_BYTES = 1 << 20
BALLAST_BYTES = FULL_BYTES // 2  # the last hundred commits, and an order for each of 64 loops
FULL_INODES = 8  # a start of one loop makes more files than that


def room(folder: str) -> tuple[Kind, str] | None:
    """Return which of the two has run out, with the figures and the way out; None where there is room or no telling."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    free = found.f_bavail * found.f_frsize
    if found.f_files and found.f_favail < FULL_INODES:
        return Kind.INODES, (
            f"{folder} has no inodes left ({found.f_favail} of {found.f_files}; {free >> 20} MiB are free): "
            "remove many small files, not large ones (`df -i` shows it)"
        )
    if free < FULL_BYTES:
        return Kind.DISK_FULL, f"the disk under {folder} is full ({free >> 10} KiB left): make room (`df -h` shows it)"
    return None


@dataclass(frozen=True)
class Ballast:
    """A file that only takes up room in the state ``folder``: given up on a full disk, so that a night can be ended."""

    folder: str

    @property
    def path(self) -> str:
        return os.path.join(self.folder, "ballast")

    def look(self) -> tuple[Kind, str] | None:
        """Return what ``room`` says; take the ballast in again while there is plenty."""
        short = room(self.folder)
        if short is None and not os.path.lexists(self.path):
            with contextlib.suppress(OSError):
                self._lay()
        return short

    def drop(self) -> bool:
        """Give it up; returns whether there was any."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)
            return True
        return False

    def _lay(self) -> None:
        found = os.statvfs(self.folder)
        if found.f_bavail * found.f_frsize < 4 * BALLAST_BYTES:
            return  # whoever is just making room needs it more
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, BALLAST_BYTES)
        finally:
            os.close(fd)
