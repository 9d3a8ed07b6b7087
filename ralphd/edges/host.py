"""What the machine has left: disk, memory, descriptors."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]  # ships no types

from ralphd.core.errors import EdgeError


@dataclass(frozen=True, kw_only=True)
class DiskFacts:
    """What is left where ``path`` lies. ``free_inodes`` is None on a filesystem that doesn't count them."""

    path: str
    free_bytes: int
    free_inodes: int | None


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """One look at the machine. ``fd_limit`` is this process's."""

    disks: tuple[DiskFacts, ...]
    memory_available_bytes: int
    fd_limit: int


def look(paths: Iterable[str]) -> HostFacts:
    """Take one look. A path that is gone is an EdgeError naming it."""
    return HostFacts(
        disks=tuple(_disk(path) for path in paths),
        memory_available_bytes=psutil.virtual_memory().available,
        fd_limit=_fd_limit(),
    )


def _fd_limit() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def _disk(path: str) -> DiskFacts:
    try:
        facts = os.statvfs(path)
    except OSError as error:
        raise EdgeError(f"{path}: {error.strerror}; the disk under it can't be measured") from None
    inodes = facts.f_favail if facts.f_files else None  # btrfs counts none
    return DiskFacts(path=path, free_bytes=facts.f_bavail * facts.f_frsize, free_inodes=inodes)
