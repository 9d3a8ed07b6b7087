"""Which signs of life in a journal say nothing any more, because a newer one of the same session does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ralphd.core.records import Progressed

if TYPE_CHECKING:
    from sqlalchemy import Row

SIGN = Progressed.__name__
# As the journal writes a sign of a session that neither waits nor asks: it undoes whatever the one before it said.
_PLAIN = ('"client_waits":""', '"asks":""')


def newest_signs(rows: Iterable[Row[Any]]) -> Iterator[Row[Any]]:
    """Leave out each sign of life that the next one of its loop outdates: a session has one every few seconds.

    A fold over what is left comes to the same state. So a sign is kept where anything of its loop, or of the daemon,
    stands between it and the next one.
    """
    held: dict[str, Row[Any]] = {}  # each loop's newest sign, while nothing came after it
    for row in rows:
        if row.type == SIGN:
            before = held.pop(row.loop, None)
            if before is not None and not _outdates(row, before):
                yield before
            held[row.loop] = row
            continue
        if row.seq is None:  # the daemon's own word: it may be about every loop
            yield from held.values()
            held.clear()
        elif row.loop in held:
            yield held.pop(row.loop)
        yield row
    yield from held.values()


def _outdates(newer: Row[Any], older: Row[Any]) -> bool:
    same = (newer.generation, newer.trajectory) == (older.generation, older.trajectory)
    return same and all(words in newer.body for words in _PLAIN)
