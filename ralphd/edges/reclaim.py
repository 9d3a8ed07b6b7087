"""Which of its own files ralphd can do without on a low disk: never a commit, a worktree, a journal or a verdict."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

CACHES = ("benches",)  # of a night that has ended: checkouts that a verifier ran in
OF_LOOPS = ("tmp", "spill", "calls")  # what calls of its sessions wrote: nobody reads on there
LOGS_KEPT_S = 7 * 86400.0  # what agents said stays a week: reports point at it


def reclaim(state: str, night: str, now: float) -> int:
    """Remove what nights before ``night`` left and nobody needs; returns how many bytes that were."""
    freed = 0
    for path in _needless(os.path.join(state, "nights"), night, now):
        freed += _size(path)
        shutil.rmtree(path, ignore_errors=True)
    return freed


def _needless(nights: str, current: str, now: float) -> Iterator[str]:
    for name in _folders(nights):
        if name == current:
            continue
        folder = os.path.join(nights, name)
        yield from (os.path.join(folder, cache) for cache in CACHES if _is_folder(os.path.join(folder, cache)))
        for loop in _folders(os.path.join(folder, "loops")):
            at = os.path.join(folder, "loops", loop)
            old = now - os.lstat(at).st_mtime > LOGS_KEPT_S
            parts = (*OF_LOOPS, "logs") if old else OF_LOOPS
            yield from (os.path.join(at, part) for part in parts if _is_folder(os.path.join(at, part)))


def _folders(path: str) -> list[str]:
    try:
        return [name for name in sorted(os.listdir(path)) if _is_folder(os.path.join(path, name))]
    except OSError:
        return []


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _size(path: str) -> int:
    """Return the bytes on disk below a folder; a link counts for itself."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total
