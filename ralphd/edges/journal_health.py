"""Is the file at the journal's path a sound journal? Looks only, and tells damage from mere trouble."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ralphd.core.errors import JournalError
from ralphd.edges.journal_index import LogIndex
from ralphd.edges.journal_schema import CHECKED, checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# `quick_check` reads every page: 1 s for 1 GiB that is in memory, far more from a slow disk. A start waits no longer.
CHECK_PATIENCE_S = 20.0
BUSY_S = 5.0  # as long as the journal itself waits for a lock
_STEPS = 20_000  # of SQLite's virtual machine between two looks at the clock: a few milliseconds
_COLUMNS = {"id", *CHECKED}


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
        with opened_read_only(path) as connection:
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


@contextmanager
def opened_read_only(path: str) -> Iterator[sqlite3.Connection]:
    uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
    LogIndex(path).make_whole()  # this process may write it at the same time
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)) as connection:
        yield connection


def _look(connection: sqlite3.Connection, started: float, patience_s: float) -> Health:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return Health(there=False)
    if not tables >= {"entry", "alembic_version"}:
        return Health(there=True, bad="it is a database, but not a journal of ralphd")
    if not {row[1] for row in connection.execute("PRAGMA table_info(entry)")} >= _COLUMNS:
        return Health(there=True, bad="its table `entry` is not the journal's")
    deadline = started + patience_s
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    bad, cut_short = "", False
    try:
        bad = _ask(connection, "quick_check") or _damaged_rows(connection) or _ask(connection, "integrity_check")
    except sqlite3.OperationalError as error:
        cut_short = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
        if not cut_short:
            raise
    finally:
        connection.set_progress_handler(None, 0)
    (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone() or ("",)
    last_id, last_at = _last(connection)
    return Health(
        there=True,
        bad=f"it is damaged: {bad}" if bad else "",
        revision=str(revision),
        last_id=last_id,
        last_at=last_at,
        seconds=time.monotonic() - started,
        cut_short=cut_short,
    )


def _ask(connection: sqlite3.Connection, check: str) -> str:
    """Run SQLite's own check: the quick one reads every page, the other compares each row with its indexes."""
    rows = connection.execute(f"PRAGMA {check}(1)").fetchall()
    said = " ".join(str(rows[0][0]).split())[:200] if rows else "nothing"
    return "" if said == "ok" else said


def _damaged_rows(connection: sqlite3.Connection) -> str:
    if not has_checksums(connection):
        return ""
    wrong = [int(row[0]) for row in rows_of(connection, "ASC") if not is_sound(row)]
    return f"the checksums of {len(wrong)} entries are wrong, of {wrong[0]} first" if wrong else ""


def has_checksums(connection: sqlite3.Connection) -> bool:
    return any(row[1] == "checksum" for row in connection.execute("PRAGMA table_info(entry)"))


def rows_of(connection: sqlite3.Connection, order: str) -> Iterator[tuple[Any, ...]]:
    """Yield all rows by their place in the file, text as bytes: id, CHECKED, checksum."""
    connection.text_factory = bytes
    try:
        yield from connection.execute(
            f"SELECT id, {', '.join(CHECKED)}, checksum FROM entry NOT INDEXED ORDER BY id {order}"  # noqa: S608  # ours
        )
    finally:
        connection.text_factory = str


def is_sound(row: Sequence[object]) -> bool:
    """Tell whether a row of ``rows_of`` is what was written; one from before there were checksums is believed."""
    return row[-1] is None or row[-1] == checksum(row[1:-1])


def _last(connection: sqlite3.Connection) -> tuple[int, float | None]:
    newest = connection.execute("SELECT id, at FROM entry ORDER BY id DESC LIMIT 1").fetchone()
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
    last_id, at = newest or (0, None)
    return max(int(last_id), int(given[0]) if given else 0), at
