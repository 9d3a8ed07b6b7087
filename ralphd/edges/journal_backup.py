"""Where the journal's copies lie, how one is made while it is written, and which are kept."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from contextlib import closing

from ralphd.core.errors import JournalError
from ralphd.edges.journal_health import examine, opened_read_only

KEEP = 4  # an hour of them at one every 15 minutes
KEEP_NIGHTS = 7  # the newest of each night before that: a week
SPARE_BYTES = 16 << 20  # a backup must not be what fills the disk
_NAME = re.compile(r"journal-(\d{8}T\d{6}Z)(?:-([a-z0-9-]{1,40}))?\.db")


def backup_folder(journal: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(journal)), "backups")


def stamp(now: float) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))


def backups(folder: str) -> list[str]:
    """Return the paths of all backups, the newest first."""
    try:
        names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]
    except OSError:
        return []
    return [os.path.join(folder, name) for name in sorted(names, key=lambda name: _age(folder, name), reverse=True)]


def _age(folder: str, name: str) -> tuple[str, int, str]:
    """Order by the second in the name; of two of one second the file's own time tells which came later."""
    try:
        written_ns = os.lstat(os.path.join(folder, name)).st_mtime_ns
    except OSError:
        written_ns = 0
    match = _NAME.fullmatch(name)
    return match[1] if match else "", written_ns, name


def back_up(journal: str, now: float, night: str = "") -> str:
    """Copy the journal, also while it is being written, and return the copy's path. Raises JournalError.

    The copy is whole, checked and 0600, or not there at all. Older ones beyond KEEP and one a night are removed.
    """
    folder = backup_folder(journal)
    name = f"journal-{stamp(now)}{f'-{night}' if night else ''}.db"
    draft = os.path.join(folder, f".{name}.draft")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _forget_drafts(folder)
        _require_space(journal, folder)
        copy(journal, draft)
        health = examine(draft)
        if health.bad or not health.there:
            raise JournalError(f"the backup of {journal} is not sound: {health.bad or 'it is empty'}")
        os.replace(draft, os.path.join(folder, name))
        sync_folder(folder)
        _prune(folder)
    except OSError as error:
        raise JournalError(f"can't back up {journal} to {folder}: {error.strerror or error}") from None
    except sqlite3.Error as error:
        raise JournalError(f"can't back up {journal}: {error}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)
    return os.path.join(folder, name)


def copy(source: str, target: str) -> None:
    """Copy a database by SQLite's own backup into a new file that needs no WAL, and sync it."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with opened_read_only(source) as reader, closing(sqlite3.connect(target, isolation_level=None)) as writer:
        # All pages at once: in steps, a journal that is written each second would make it begin again for ever.
        reader.backup(writer, pages=-1)
        writer.execute("PRAGMA journal_mode=DELETE").fetchone()
    fd = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _require_space(journal: str, folder: str) -> None:
    found = os.statvfs(folder)
    size = os.stat(journal).st_size
    with contextlib.suppress(OSError):
        size += os.stat(f"{journal}-wal").st_size
    free = found.f_bavail * found.f_frsize
    if free < size + SPARE_BYTES:
        raise JournalError(f"no backup of the journal was made: {folder} has {free >> 20} MiB left, too few for a copy")


def _forget_drafts(folder: str) -> None:
    """Remove what a killed backup left: only one daemon works in a state folder."""
    for name in os.listdir(folder):
        if name.startswith(".journal-") and ".db.draft" in name:
            os.unlink(os.path.join(folder, name))


def _prune(folder: str) -> None:
    found = backups(folder)
    kept = found[:KEEP]
    nights = [_night(path) for path in kept]
    for path in found[KEEP:]:
        night = _night(path)
        if night and night not in nights and len(set(nights)) < KEEP_NIGHTS:
            nights.append(night)
        else:
            os.unlink(path)


def _night(path: str) -> str:
    match = _NAME.fullmatch(os.path.basename(path))
    return (match[2] or "") if match else ""
