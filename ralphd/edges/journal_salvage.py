"""What can still be read out of a journal that was set aside: the rows that their checksums prove."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING, Any

from ralphd.edges.journal_health import has_checksums, is_sound, opened_read_only, rows_of
from ralphd.edges.journal_mark import ID_MAX
from ralphd.edges.journal_schema import CHECKED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def salvage(path: str, first_id: int, last_id: int) -> list[dict[str, Any]]:
    """Return the sound rows from ``first_id`` to ``last_id`` (0: any), ready to be inserted.

    The file is read from both ends, since SQLite stops at the first page it can't follow.
    """
    found: dict[int, tuple[Any, ...]] = {}
    for order in ("ASC", "DESC"):
        rows: list[tuple[Any, ...]] = []
        with contextlib.suppress(sqlite3.Error, OSError), opened_read_only(path) as connection:
            if os.path.getsize(path) and has_checksums(connection):
                rows.extend(
                    row for row in rows_of(connection, order) if _is_ours(row)
                )  # keeps what came before an error
        found.update((row[0], row) for row in _in_order(rows if order == "ASC" else rows[::-1]))
    return [_ready(found[id_]) for id_ in sorted(found) if first_id <= id_ <= (last_id or ID_MAX)]


def gapless(rows: list[dict[str, Any]], last_seq: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """Leave out what a runner recorded after a record that is missing: all of it is read again from its own file.

    ``last_seq`` tells, by night and loop, how far the journal has come without these rows.
    """
    known, kept = dict(last_seq), []
    for row in rows:
        loop = (row["night"], row["loop"])
        if row["seq"] is not None and row["seq"] != known.get(loop, 0) + 1:
            known[loop] = -1  # no further record of this loop can follow it
            continue
        if row["seq"] is not None:
            known[loop] = row["seq"]
        kept.append(row)
    return kept


def _is_ours(row: tuple[Any, ...]) -> bool:
    return isinstance(row[0], int) and row[-1] is not None and is_sound(row)


def _in_order(rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Leave out rows whose id is damaged: no checksum holds it, but the rows lie in its order."""
    before = 0
    for row, after in zip(rows, [*rows[1:], (ID_MAX,)], strict=False):  # none of none
        if before < row[0] < after[0]:
            before = row[0]
            yield row


def _ready(row: tuple[Any, ...]) -> dict[str, Any]:
    text = [value.decode() if isinstance(value, bytes) else value for value in row]
    return dict(zip(("id", *CHECKED, "checksum"), text, strict=True))
