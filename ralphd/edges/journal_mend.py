"""How a damaged journal is replaced: it is set aside, never deleted, and the newest sound backup takes its place."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ralphd.core.errors import JournalError
from ralphd.core.losses import Loss
from ralphd.edges.journal_backup import backup_folder, backups, copy, stamp, sync_folder
from ralphd.edges.journal_health import Health, examine
from ralphd.edges.journal_mark import Mark, mark_path, read_mark

if TYPE_CHECKING:
    from collections.abc import Collection

# Ids that may have been given after the mark was last written: one commit holds 2,000 entries at most.
LEAP = 10_000
PARTS = ("-wal", "-shm", "-journal", "")  # the database last: while it is there, the others are understood by it


@dataclass(frozen=True, kw_only=True)
class Mended:
    """``loss`` None: all was well. ``beyond``: ids up to this one may have been used. ``health`` as it was found."""

    health: Health
    loss: Loss | None = None
    beyond: int = 0


def mend(path: str, revisions: Collection[str], now: float) -> Mended:
    """See to it that a sound journal lies at ``path``, or none. ``revisions``: schemas this version can use.

    May be killed at any moment and called again: each step leaves what the next call needs to see the rest.
    Raises JournalError where nothing may be touched: locked, unreadable, or written by a newer ralphd.
    """
    _require_plain(path)
    health, mark = examine(path), read_mark(path)
    copies = backups(backup_folder(path))
    if not health.there and mark is None and not copies:
        return Mended(health=health)  # none was ever here, or only its empty beginning
    if health.there and not health.bad and (mark is None or health.last_id >= mark.last_id):
        return Mended(health=health)
    backup, copied = _newest_sound(copies, revisions)
    if health.there and not health.bad and copied.last_id <= health.last_id:
        return _only_the_tail(health, mark)
    why = _why(path, health)
    aside = _set_aside(path, now) or _set_aside_before(path)
    if backup:
        _restore(backup, path)
    last_id = mark.last_id if mark else 0
    loss = Loss(
        why=why,
        first_id=copied.last_id + 1,
        last_id=last_id,
        since=copied.last_at,
        until=mark.at if mark else None,
        set_aside=aside,
        backup=backup,
    )
    return Mended(health=health, loss=loss, beyond=max(copied.last_id, last_id) + LEAP)


def revisions(migrations: str) -> frozenset[str]:
    """Return the schemas that can be used, at once or after a migration."""
    try:
        names = os.listdir(os.path.join(migrations, "versions"))
    except OSError:
        return frozenset()
    return frozenset(name.partition("_")[0] for name in names if name.endswith(".py"))


def _require_plain(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise JournalError(f"{path} is not a plain file: ralphd will not use it as its journal; move it away")


def _why(path: str, health: Health) -> str:
    if health.there and not health.bad:
        return f"the journal {path} had lost its newest entries"
    return f"the journal {path} could not be used: {health.bad or 'it was gone'}"


def _only_the_tail(health: Health, mark: Mark | None) -> Mended:
    assert mark is not None
    loss = Loss(
        why="the journal had lost its newest entries (a deleted or damaged journal.db-wal does that)",
        first_id=health.last_id + 1,
        last_id=mark.last_id,
        since=health.last_at,
        until=mark.at,
        backup="its own older state",
    )
    return Mended(health=health, loss=loss, beyond=mark.last_id + LEAP)


def _newest_sound(copies: list[str], revisions: Collection[str]) -> tuple[str, Health]:
    for path in copies:
        try:
            health = examine(path)
        except JournalError:
            continue
        if health.there and not health.bad and health.revision in revisions:
            return path, health
    return "", Health(there=False)


def _set_aside(path: str, now: float) -> str:
    """Rename the file and what belongs to it; returns the file's new name, empty when only its company was there.

    An old WAL must go in any case: SQLite would play it into the database that is put beside it.
    """
    aside = f"{path}.corrupt-{stamp(now)}"
    number = 1
    while any(os.path.lexists(aside + part) for part in PARTS):
        number += 1
        aside = f"{path}.corrupt-{stamp(now)}-{number}"
    for part in PARTS:
        with contextlib.suppress(FileNotFoundError):
            os.rename(path + part, aside + part)
    sync_folder(os.path.dirname(path))
    return aside if os.path.lexists(aside) else ""


def _set_aside_before(path: str) -> str:
    """Return what a call that was killed half way had set aside, if it looks like that."""
    if not os.path.lexists(mark_path(path)):
        return ""
    folder, name = os.path.split(path)
    found = [one for one in os.listdir(folder) if one.startswith(f"{name}.corrupt-") and not one.endswith(PARTS[:3])]
    written = os.stat(mark_path(path)).st_mtime
    newest = max((os.path.join(folder, one) for one in found), key=lambda one: os.stat(one).st_ctime, default="")
    return newest if newest and os.stat(newest).st_ctime >= written else ""


def _restore(backup: str, path: str) -> None:
    draft = f"{path}.restoring"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    try:
        copy(backup, draft)
        os.rename(draft, path)
        sync_folder(os.path.dirname(path))
    except (OSError, sqlite3.Error) as error:
        raise JournalError(f"can't restore the journal from {backup}: {error}") from None
