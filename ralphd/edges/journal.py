"""What happened, for ever: one append-only table, one writer, any number of readers."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, func, insert, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

from ralphd.core.errors import JournalError, NothingRunning
from ralphd.core.events import Entry, NightEnded
from ralphd.edges import journal_db
from ralphd.edges.journal_mark import MarkWriter
from ralphd.edges.journal_schema import ENTRY, REVISION, entry_of, row_of
from ralphd.edges.journal_signs import newest_signs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from sqlalchemy import Connection, Engine, Row

    from ralphd.core.redact import Redactor

PAGE = 2000  # rows a reader takes at once: short reads, so that a long report never holds back a checkpoint
FLOOD = 20  # unreadable rows that are named; more are only counted


class Journal:
    """The writer. One thread at a time; one process (the daemon's lock on the state folder sees to that)."""

    def __init__(self, engine: Engine, place: str, redact: Redactor) -> None:
        self._engine = engine
        self._place = place
        self.redactor = redact
        self._identity = journal_db.identity(place)
        self._beside: tuple[object, ...] = ()  # SQLite's own files, known once it has made them
        self._mark = None if journal_db.is_url(place) else MarkWriter(place)

    @classmethod
    def open(cls, place: str, migrations: str, redact: Redactor) -> Journal:
        """Open (and make, and migrate) the journal at a path or URL. Raises JournalError.

        A journal that has to be migrated is backed up first.
        """
        place = place if journal_db.is_url(place) else os.path.abspath(place)  # whatever the daemon's folder is later
        engine = journal_db.writer_engine(place)
        try:
            current = journal_db.revision(engine, place)
            if current != REVISION:
                from ralphd.edges.journal_migrations import migrate  # noqa: PLC0415  # alembic, only when needed

                migrate(engine, migrations, place, current)
        except JournalError:
            engine.dispose()
            raise
        return cls(engine, place, redact)

    def append(self, entries: Sequence[Entry], *, beyond: int = 0) -> list[Entry]:
        """Store what is new in one transaction and return it, with ids, in the order given.

        A runner's record that is stored already (same night, loop and seq) is dropped silently. ``beyond``: ids up to
        that one were given already by a journal that is lost, and are not given again.
        Raises JournalError when nothing could be stored: the same call may be made again.
        """
        if journal_db.identity(self._place) != self._identity:  # SQLite would go on writing to a file without a name
            raise JournalError(f"the journal {self._place} was moved, deleted or replaced while in use: put it back")
        try:
            self._take_in_what_lost_its_name()
            with self._engine.begin() as connection:
                if beyond:
                    _leap(connection, beyond)
                fresh = _without_known(connection, entries)
                if not fresh:
                    return []
                rows = [row_of(entry, self.redactor) for entry in fresh]
                given = connection.execute(insert(ENTRY).returning(ENTRY.c.id, sort_by_parameter_order=True), rows)
                ids = list(given.scalars())
        except SQLAlchemyError as error:
            kind, words = journal_db.trouble(error, self._place)
            raise JournalError(f"can't write the journal {journal_db.shown(self._place)}: {words}", kind=kind) from None
        self._beside = self._beside or journal_db.beside(self._place)
        if self._mark:
            self._mark.write(ids[-1], fresh[-1].at)
        return [replace(entry, id=id_) for entry, id_ in zip(fresh, ids, strict=True)]

    def _take_in_what_lost_its_name(self) -> None:
        """Bring into the journal what is in a log that somebody deleted beside it, and begin a new one.

        SQLite goes on writing to the deleted one: no reader would see that, and no crash would leave it.
        """
        if self._beside in ((), journal_db.beside(self._place)):
            return
        journal_db.checkpoint(self._engine, self._place)
        journal_db.let_go(self._engine, self._place)  # the next connection makes new files
        self._beside = ()

    def refill(self, rows: Sequence[dict[str, Any]], beyond: int, now: float) -> int:
        """Put back what was read out of a damaged journal, under its old ids; returns how much of it was missing.

        From now on ids up to ``beyond`` count as given: until a later one is stored, every start sees a loss.
        """
        if self._mark:
            self._mark.write(beyond, now)
        if not rows:
            return 0
        try:
            with self._engine.begin() as connection:
                before = connection.execute(select(func.count()).select_from(ENTRY)).scalar_one()
                connection.execute(insert(ENTRY).prefix_with("OR IGNORE", dialect="sqlite"), list(rows))
                return int(connection.execute(select(func.count()).select_from(ENTRY)).scalar_one() - before)
        except SQLAlchemyError as error:
            kind, words = journal_db.trouble(error, self._place)
            raise JournalError(f"can't refill the journal {self._place}: {words}", kind=kind) from None

    def close(self) -> None:
        journal_db.let_go(self._engine, self._place)
        if self._mark:
            self._mark.close()


def _leap(connection: Connection, beyond: int) -> None:
    """Make SQLite's next id greater than ``beyond``."""
    higher = text("UPDATE sqlite_sequence SET seq = max(seq, :beyond) WHERE name = 'entry'")
    if not connection.execute(higher, {"beyond": beyond}).rowcount:
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES ('entry', :b)"), {"b": beyond})


def _without_known(connection: Connection, entries: Sequence[Entry]) -> list[Entry]:
    told: dict[tuple[str, str], set[int]] = {}
    for entry in entries:
        if entry.seq:
            told.setdefault((entry.night, entry.loop), set()).add(entry.seq)
    known: set[tuple[str, str, int]] = set()
    for (night, loop), seqs in told.items():
        found = select(ENTRY.c.seq).where(
            ENTRY.c.night == night, ENTRY.c.loop == loop, ENTRY.c.seq.between(min(seqs), max(seqs)),
        )  # fmt: skip
        known.update((night, loop, seq) for seq in connection.execute(found).scalars())
    fresh = []
    for entry in entries:
        key = (entry.night, entry.loop, entry.seq)
        if entry.seq and key in known:
            continue
        known.add(key)
        fresh.append(entry)
    return fresh


@dataclass(frozen=True, kw_only=True)
class NightRow:
    """A night as the journal knows it. Times are epoch seconds; ``ended_at`` is None while no end is recorded."""

    id: str
    started_at: float
    ended_at: float | None
    last_at: float  # of the newest entry
    why_ended: str = ""


class JournalReader:
    """Reads, and can do nothing else: it never makes, migrates or locks the journal.

    ``unreadable`` counts rows that this version can't understand; the first are named in ``unreadable_why``.
    """

    def __init__(self, engine: Engine, place: str) -> None:
        self._engine = engine
        self._place = place
        self._columns = list(ENTRY.c)  # an older ralphd's journal, not brought up to date yet, has fewer
        self.unreadable = 0
        self.unreadable_why: list[str] = []

    @classmethod
    def open(cls, place: str) -> JournalReader:
        """Open the journal at a path or URL. Raises NothingRunning when there is none, JournalError otherwise."""
        reader = cls(journal_db.reader_engine(place), place)
        try:
            with reader._engine.connect() as connection:
                there = inspect(connection).has_table("entry")
                names = {column["name"] for column in inspect(connection).get_columns("entry")} if there else set()
        except SQLAlchemyError as error:
            reader.close()
            raise reader._error(error) from None
        if not there:
            reader.close()
            raise NothingRunning(f"no night was recorded yet in {journal_db.shown(place)}")
        reader._columns = [column for column in ENTRY.c if column.name in names]
        return reader

    def nights(self) -> list[NightRow]:
        """Return every night, the oldest first."""
        frame = self._all().where(ENTRY.c.type.in_(["NightStarted", "NightEnded"])).order_by(ENTRY.c.id)
        found: dict[str, NightRow] = {}
        for row in self._rows(frame):
            night = found.get(row.night) or NightRow(id=row.night, started_at=row.at, ended_at=None, last_at=row.at)
            found[row.night] = replace(night, **_end_of(row))
        return [replace(night, last_at=self._last_at(night)) for night in found.values()]

    def entries(self, night: str, after_id: int = 0, types: Collection[str] | None = None) -> Iterator[Entry]:
        """Yield the night's entries in order of id, a page at a time; ``types`` are names of bodies."""
        wanted = self._all().where(ENTRY.c.night == night)
        return self._pages(wanted if types is None else wanted.where(ENTRY.c.type.in_(sorted(types))), after_id)

    def condensed(self, night: str) -> Iterator[Entry]:
        """Yield the night's entries as a fold needs them: without signs of life that newer ones outdate.

        Those are most of a long night, and who takes it up waits for each that is read.
        """
        rows = newest_signs(self._row_pages(self._all().where(ENTRY.c.night == night), 0))
        return (entry for row in rows if (entry := self._entry(row)) is not None)

    def outcomes(self, night: str, loop: str | None = None) -> Iterator[Entry]:
        """Yield the entries that count for an outcome, and the claims that were settled, in order of id."""
        wanted = self._all().where(
            ENTRY.c.night == night, ENTRY.c.kind.is_not(None) | (ENTRY.c.type == "ClaimSettled"),
        )  # fmt: skip
        return self._pages(wanted if loop is None else wanted.where(ENTRY.c.loop == loop), 0)

    def last_seq(self, night: str) -> dict[str, int]:
        """Return the highest runner record stored of each loop."""
        highest = select(ENTRY.c.loop, func.max(ENTRY.c.seq).label("seq")).where(
            ENTRY.c.night == night, ENTRY.c.seq.is_not(None)
        )
        return {row.loop: int(row.seq) for row in self._rows(highest.group_by(ENTRY.c.loop))}

    def close(self) -> None:
        journal_db.let_go(self._engine, self._place)

    def _all(self) -> Select[tuple[Any, ...]]:
        return select(*self._columns)

    def _pages(self, wanted: Select[tuple[Any, ...]], after_id: int) -> Iterator[Entry]:
        return (entry for row in self._row_pages(wanted, after_id) if (entry := self._entry(row)) is not None)

    def _row_pages(self, wanted: Select[tuple[Any, ...]], after_id: int) -> Iterator[Row[tuple[Any, ...]]]:
        while True:
            rows = self._rows(wanted.where(ENTRY.c.id > after_id).order_by(ENTRY.c.id).limit(PAGE))
            yield from rows
            if len(rows) < PAGE:
                return
            after_id = rows[-1].id

    def _entry(self, row: Row[tuple[Any, ...]]) -> Entry | None:
        try:
            return entry_of(row)
        except (ValueError, RecursionError) as error:
            self.unreadable += 1
            if len(self.unreadable_why) < FLOOD:
                self.unreadable_why.append(f"entry {row.id}: {error}")
            return None

    def _rows(self, wanted: Select[tuple[Any, ...]]) -> Sequence[Row[tuple[Any, ...]]]:
        try:
            with self._engine.connect() as connection:
                return connection.execute(wanted).all()
        except SQLAlchemyError as error:
            raise self._error(error) from None

    def _last_at(self, night: NightRow) -> float:
        newest = select(ENTRY.c.at).where(ENTRY.c.night == night.id).order_by(ENTRY.c.id.desc()).limit(1)
        return max([night.last_at, *(float(row.at) for row in self._rows(newest))])

    def _error(self, error: SQLAlchemyError) -> JournalError:
        out = "; `ralphd start` sets it aside and restores what it can" if journal_db.is_damage(error) else ""
        return JournalError(f"can't read the journal {journal_db.shown(self._place)}: {journal_db.cause(error)}{out}")


def _end_of(row: Row[tuple[Any, ...]]) -> dict[str, Any]:
    """Return what a frame entry changes of its night: a night that is taken up again has no end any more."""
    if row.type == "NightStarted":
        return {"ended_at": None, "why_ended": ""}
    try:
        body = entry_of(row).body
    except ValueError:  # a newer ralphd's: the night has ended all the same
        return {"ended_at": row.at}
    assert isinstance(body, NightEnded)
    return {"ended_at": row.at, "why_ended": body.why}
