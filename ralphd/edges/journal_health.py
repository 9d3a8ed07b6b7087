"""Is the file at the journal's path a sound journal? Looks only, and tells damage from mere trouble."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote

from ralphd.core.errors import JournalError

# `quick_check` reads every page: 1 s for 1 GiB that is in memory, far more from a slow disk. A start waits no longer.
CHECK_PATIENCE_S = 20.0
_STEPS = 20_000  # of SQLite's virtual machine between two looks at the clock: a few milliseconds
_COLUMNS = {
    "id", "at", "night", "loop", "generation", "trajectory", "seq", "nonce", "type", "kind", "body",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Health:
    """``bad`` says why the file can't be used, empty when it is sound; ``there`` whether it holds a journal at all.

    ``last_id``: the last id it gave. ``cut_short``: the check was ended for taking too long. ``seconds`` it took.
    """

    there: bool
    bad: str = ""
    revision: str = ""
    last_id: int = 0
    last_at: float | None = None
    seconds: float = 0.0
    cut_short: bool = False


def examine(path: str, patience_s: float = CHECK_PATIENCE_S) -> Health:
    """Look at a SQLite file. Raises JournalError where that can't be told now: locked, not readable, an I/O error."""
    started = time.monotonic()
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return Health(there=False)
    except OSError as error:
        raise JournalError(f"can't look at the journal {path}: {error.strerror}") from None
    if size == 0:
        return Health(there=False, bad="it is empty")
    try:
        with closing(_connect(path)) as connection:
            return _look(connection, started, patience_s)
    except sqlite3.Error as error:
        if is_damage(error):
            return Health(there=True, bad=f"it is damaged: {error}", seconds=time.monotonic() - started)
        raise JournalError(f"can't open the journal {path}: {error}") from None


def is_damage(error: BaseException) -> bool:
    """Tell damage of the file from trouble that passes."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by the module itself: text that is not UTF-8
        return isinstance(error, (sqlite3.OperationalError, sqlite3.DataError))
    return code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT} or code in {
        sqlite3.SQLITE_IOERR_SHORT_READ,
        sqlite3.SQLITE_ERROR,  # a schema that can't be parsed any more
    }


def _connect(path: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)


def _look(connection: sqlite3.Connection, started: float, patience_s: float) -> Health:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return Health(there=False)
    if not tables >= {"entry", "alembic_version"}:
        return Health(there=True, bad="it is a database, but not a journal of ralphd")
    if not {row[1] for row in connection.execute("PRAGMA table_info(entry)")} >= _COLUMNS:
        return Health(there=True, bad="its table `entry` is not the journal's")
    said, cut_short = _quick_check(connection, started + patience_s)
    if said != "ok":
        return Health(there=True, bad=f"it is damaged: {said}", seconds=time.monotonic() - started)
    (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone() or ("",)
    last_id, last_at = _last(connection)
    return Health(
        there=True,
        revision=str(revision),
        last_id=last_id,
        last_at=last_at,
        seconds=time.monotonic() - started,
        cut_short=cut_short,
    )


def _quick_check(connection: sqlite3.Connection, deadline: float) -> tuple[str, bool]:
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        rows = connection.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return "ok", True
        raise
    finally:
        connection.set_progress_handler(None, 0)
    return " ".join(str(rows[0][0]).split())[:200] if rows else "nothing", False


def _last(connection: sqlite3.Connection) -> tuple[int, float | None]:
    newest = connection.execute("SELECT id, at FROM entry ORDER BY id DESC LIMIT 1").fetchone()
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
    last_id, at = newest or (0, None)
    return max(int(last_id), int(given[0]) if given else 0), at
