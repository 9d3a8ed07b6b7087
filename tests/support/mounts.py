"""How does a test get a disk of its own that it may fill?"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.needs import missing


@contextlib.contextmanager
def tmpfs(at: Path, *, size: str = "4m", inodes: int = 0) -> Iterator[Path]:
    """A small file system mounted at `at` for as long as the block lasts; a visible skip where that isn't allowed."""
    at.mkdir(parents=True, exist_ok=True)
    options = f"size={size},mode=0700" + (f",nr_inodes={inodes}" if inodes else "")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        missing(f"no tmpfs may be mounted here: {mounted.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def fill(folder: Path) -> Path:
    """Take every byte that is left; what is removed with the file that is returned."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass
    return filler


def take_inodes(folder: Path) -> Path:
    """Take every inode that is left, without taking bytes."""
    many = folder / "many"
    many.mkdir()
    with contextlib.suppress(OSError):
        for number in range(1_000_000):
            os.mknod(many / str(number))
    return many


@contextlib.contextmanager
def seen_at(folder: Path, at: Path) -> Iterator[Path]:
    """A folder, to be read at another place too, as where one above it is closed to others.

    A visible skip where nothing may be mounted. It can't be changed there: who removes that place doesn't remove the folder.
    """
    at.mkdir(parents=True)
    mounted = subprocess.run(["mount", "--bind", str(folder), str(at)], capture_output=True, text=True, check=False)
    if mounted.returncode:
        missing(f"nothing may be mounted here: {mounted.stderr.strip()}")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(at)], check=True)
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)
