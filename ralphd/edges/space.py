"""Whether there is room left on the disk under a folder, in bytes and in inodes."""

from __future__ import annotations

import os

from ralphd.core.outcomes import Kind

# One commit of the journal and its checkpoint need less; below it nothing that anybody starts will work.
FULL_BYTES = 1 << 20
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
