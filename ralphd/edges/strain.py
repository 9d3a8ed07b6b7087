"""What the machine is short of before it breaks: memory, room on the disk, terminals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from ralphd.core.outcomes import Kind
from ralphd.core.policy import Strain

# Percent of the last ten seconds in which nobody could go on for want of memory: a healthy machine has 0.
STALLED, STALLED_BADLY = 20.0, 50.0
AVAILABLE, AVAILABLE_BADLY = 0.03, 0.01  # of all memory: below, the kernel soon kills something
LOW_BYTES, LOW_SHARE = 1 << 30, 0.1  # whichever is less: a small disk is not low all its life
BADLY_LOW_BYTES, BADLY_LOW_SHARE = 64 << 20, 0.02
TERMINALS = 0.95  # of what the kernel gives; each loop takes one


def strains(folder: str, proc: str = "/proc") -> tuple[Strain, ...]:
    """Look at the machine and at the disks under ``folder``, the state. Cheap: a few small files."""
    disks = _disks(folder, os.path.join(folder, "worktrees"))
    return (*_memory(proc), *(strain for disk in disks for strain in _disk(disk)), *_terminals(proc))


def _memory(proc: str) -> Iterator[Strain]:
    stalled = _stalled(f"{proc}/pressure/memory")
    available, total = (_kib(f"{proc}/meminfo", name) for name in ("MemAvailable", "MemTotal"))
    share = available / total if available is not None and total else 1.0
    if stalled is not None and stalled >= STALLED:
        words = f"everything waited for memory {stalled:.0f} % of the last 10 s"
        yield Strain(kind=Kind.MEMORY_PRESSURE, words=words, danger=stalled >= STALLED_BADLY)
    elif share < AVAILABLE:
        words = f"{(available or 0) >> 10} MiB of memory are left, {share:.1%}"
        yield Strain(kind=Kind.MEMORY_PRESSURE, words=words, danger=share < AVAILABLE_BADLY)


def _disks(*folders: str) -> list[str]:
    """Return the first folder of each disk: a person may have given the worktrees one of their own."""
    found: dict[int, str] = {}
    for folder in folders:
        with suppress(OSError):
            found.setdefault(os.stat(folder).st_dev, folder)
    return list(found.values())


def _disk(folder: str) -> Iterator[Strain]:
    try:
        found = os.statvfs(folder)
    except OSError:
        return
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    if free < min(LOW_BYTES, total * LOW_SHARE):
        danger = free < min(BADLY_LOW_BYTES, total * BADLY_LOW_SHARE)
        yield Strain(kind=Kind.DISK_LOW, words=f"the disk under {folder} has {free >> 20} MiB left", danger=danger)


def _terminals(proc: str) -> Iterator[Strain]:
    used, most = (_number(f"{proc}/sys/kernel/pty/{name}") for name in ("nr", "max"))
    if used is not None and most and used >= TERMINALS * most:
        yield Strain(kind=Kind.HOST_LIMITS, words=f"{used} of the kernel's {most} pseudo-terminals are in use")


def _stalled(path: str) -> float | None:
    """Read ``full avg10=0.12 …`` of a PSI file; None where the kernel has none."""
    try:
        with open(path, encoding="ascii") as file:
            lines = [line.split() for line in file]
        return next(float(words[1].removeprefix("avg10=")) for words in lines if words[0] == "full")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _kib(path: str, name: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(f"{name}:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
