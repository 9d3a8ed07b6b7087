"""What the machine has left: disk, memory, load, descriptors; and since when it runs."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]  # ships no types

from ralphd.core.errors import EdgeError
from ralphd.edges.processes import boot_id


@dataclass(frozen=True, kw_only=True)
class DiskFacts:
    """What is left where ``path`` lies. ``free_inodes`` is None on a filesystem that doesn't count them."""

    path: str
    free_bytes: int
    free_inodes: int | None


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """One look at the machine. ``load`` is the one-minute average; ``boottime_s`` counts while it sleeps too.

    ``fd_limit`` is this process's; ``psi_memory_some_avg10`` is percent of time, None where the kernel doesn't tell.
    """

    disks: tuple[DiskFacts, ...]
    memory_available_bytes: int
    load: float
    boot_id: str
    boottime_s: float
    cpu_count: int
    fd_limit: int
    psi_memory_some_avg10: float | None


def look(paths: Iterable[str]) -> HostFacts:
    """Take one look. A path that is gone is an EdgeError naming it."""
    return HostFacts(
        disks=tuple(_disk(path) for path in paths),
        memory_available_bytes=psutil.virtual_memory().available,
        load=os.getloadavg()[0],
        boot_id=boot_id(),
        boottime_s=time.clock_gettime(time.CLOCK_BOOTTIME),
        cpu_count=len(os.sched_getaffinity(0)),
        fd_limit=_fd_limit(),
        psi_memory_some_avg10=_pressure("/proc/pressure/memory"),
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


def _pressure(path: str) -> float | None:
    """Read ``some avg10=0.12 avg60=…``; None without PSI."""
    try:
        with open(path, encoding="ascii") as file:
            words = file.readline().split()
        return float(words[1].removeprefix("avg10="))
    except (OSError, ValueError, IndexError):
        return None
