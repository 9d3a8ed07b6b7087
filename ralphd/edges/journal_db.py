"""How the journal's database is opened: SQLite by path, PostgreSQL by URL, for writing or for reading only."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool

from ralphd.core.errors import JournalError, NothingRunning
from ralphd.core.outcomes import Kind
from ralphd.edges.journal_index import LogIndex
from ralphd.edges.space import room

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

BUSY_MS = 5000  # how long SQLite itself waits for a lock: longer than any reader or backup holds one


def is_url(place: str) -> bool:
    return "://" in place


def shown(place: str) -> str:
    """Return the place as it may be shown: without a password."""
    if not is_url(place):
        return place
    try:
        return make_url(place).render_as_string(hide_password=True)
    except ArgumentError:
        return "the journal's URL"


def writer_engine(place: str) -> Engine:
    """Return an engine for the one writer; a SQLite file is made, 0600 from birth."""
    if is_url(place):
        return _server_engine(place)
    _own_file(place)
    return _sqlite_engine(place, lambda: sqlite3.connect(place, **_CONNECT), "BEGIN IMMEDIATE", _for_writing)


def reader_engine(place: str) -> Engine:
    """Return an engine that can't write. Raises NothingRunning when there is no such file."""
    if is_url(place):
        return _server_engine(place).execution_options(postgresql_readonly=True)
    if not os.path.exists(place):
        raise NothingRunning(f"no night was recorded yet: there is no journal at {place}; `ralphd start` makes one")
    uri = f"file:{quote(os.path.abspath(place))}?mode=ro"
    if not os.access(os.path.dirname(os.path.abspath(place)), os.W_OK) and not os.path.exists(f"{place}-wal"):
        uri += "&immutable=1"  # a folder that can't be written, as of a backup: SQLite can't make its -shm there
    return _sqlite_engine(place, lambda: sqlite3.connect(uri, uri=True, **_CONNECT), "BEGIN", _for_reading)


_CONNECT: dict[str, Any] = {"timeout": BUSY_MS / 1000, "check_same_thread": False, "isolation_level": None}


def _sqlite_engine(
    place: str,
    connect: Callable[[], sqlite3.Connection],
    begin: str,
    prepare: Callable[[sqlite3.Connection], None],
) -> Engine:
    index = LogIndex(place)

    def connected() -> sqlite3.Connection:
        index.make_whole()  # this process may have it mapped by another connection
        return connect()

    def begins(connection: Connection) -> None:
        index.make_whole()
        connection.exec_driver_sql(begin)

    engine = create_engine("sqlite://", creator=connected, poolclass=StaticPool)
    event.listen(engine, "connect", lambda connection, _record: prepare(connection))
    event.listen(engine, "begin", begins)
    return engine


def _for_writing(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _for_reading(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only=ON")


def _server_engine(url: str) -> Engine:
    for short in ("postgresql://", "postgres://"):
        if url.startswith(short):
            url = "postgresql+psycopg://" + url.removeprefix(short)
    try:
        return create_engine(url, poolclass=NullPool)
    except ModuleNotFoundError as error:
        raise JournalError(
            f"the journal at {shown(url)} needs the Python module {error.name}, which is not installed: "
            f"add it beside ralphd (for PostgreSQL: psycopg[binary]), or leave [journal] url empty for SQLite",
        ) from None
    except (ArgumentError, NoSuchModuleError):
        raise JournalError(
            f"{shown(url)} is no journal that ralphd can open: use a path, or postgresql://user@host/database",
        ) from None


def _own_file(path: str) -> None:
    """Make the file, or take it as ours. The descriptor decides, so that nothing can be swapped in between."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        short = room(os.path.dirname(path)) if error.errno == errno.ENOSPC else None
        kind, words = (short[0].value, f"{error.strerror}; {short[1]}") if short else ("", error.strerror)
        raise JournalError(f"can't open the journal {path}: {words}", kind=kind) from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise JournalError(f"{path} is not a file of yours: ralphd will not write its journal there; move it away")
        os.fchmod(handle, 0o600)
    finally:
        os.close(handle)


def identity(place: str) -> tuple[int, int] | None:
    """Return which file lies at a path, None for a server or when there is none."""
    try:
        found = None if is_url(place) else os.stat(place)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found else None


def beside(place: str) -> tuple[object, ...]:
    """Return which files SQLite's log and its index are, nothing for a server."""
    return () if is_url(place) else tuple(identity(f"{place}{name}") for name in ("-wal", "-shm"))


def let_go(engine: Engine, place: str) -> None:
    """Close the database: with its last connection SQLite brings the log into it, by the index."""
    if not is_url(place):
        LogIndex(place).make_whole()
    engine.dispose()


def checkpoint(engine: Engine, place: str) -> None:
    """Bring everything from SQLite's log into the database. Raises SQLAlchemyError where that can't be done now."""
    LogIndex(place).make_whole()
    connection = engine.raw_connection()
    try:
        (busy, _, _) = connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise DBAPIError("wal_checkpoint", None, error) from None
    finally:
        connection.close()
    if busy:
        locked = sqlite3.OperationalError("database is locked")
        locked.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise DBAPIError("wal_checkpoint", None, locked)


def revision(engine: Engine, place: str) -> str | None:
    """Return the schema's revision, None for an empty database. Raises JournalError when it isn't a journal."""
    try:
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            if "alembic_version" in tables:
                return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    except SQLAlchemyError as error:
        kind, words = trouble(error, place)
        raise JournalError(f"can't open the journal {shown(place)}: {words}", kind=kind) from None
    if tables and engine.dialect.name == "sqlite":
        raise JournalError(f"{shown(place)} is a database, but not a journal of ralphd; move it away")
    return None


def cause(error: Exception) -> str:
    """Return what the database itself said, on one line, without the statement and its values."""
    said = getattr(error, "orig", None) or error
    return " ".join(str(said).split())[:300]


def is_damage(error: SQLAlchemyError) -> bool:
    """Tell a damaged SQLite file from other trouble."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def trouble(error: SQLAlchemyError, place: str) -> tuple[str, str]:
    """Say what keeps the journal from being written: the kind of outcome, and words with the way out."""
    said, code = cause(error), getattr(getattr(error, "orig", None), "sqlite_errorcode", 0) & 0xFF
    if is_url(place):
        return Kind.JOURNAL_ERROR.value, said
    if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}:
        short = room(os.path.dirname(place))
        if short is not None:
            return short[0].value, f"{said}; {short[1]}"
    if code == sqlite3.SQLITE_FULL:
        return Kind.DISK_FULL.value, said
    if code in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}:
        return Kind.IO_ERROR.value, f"{said}; the disk or its mount needs a look (`dmesg`)"
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        said = f"{said}: another process holds it (`fuser {place}` names it)"
    if is_damage(error):
        said = f"{said}: end this daemon, and `ralphd start` sets the file aside and restores the newest backup"
    return Kind.JOURNAL_ERROR.value, said
