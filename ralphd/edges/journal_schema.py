"""How an entry lies in the database: the one table, and an entry as a row and back."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any
from zlib import crc32

from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, Table, Text

from ralphd.core import events
from ralphd.core.events import Entry, OutcomeNoted
from ralphd.core.outcomes import Evidence, Kind, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row

    from ralphd.core.redact import Redactor

REVISION = "0002"  # the newest in migrations/versions, which this table matches

# Made and changed by migrations/ only; this is what the code of today reads and writes.
ENTRY = Table(
    "entry",
    MetaData(),
    Column("id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True),
    Column("at", Double(), nullable=False),
    Column("night", Text(), nullable=False),
    Column("loop", Text(), nullable=False),
    Column("generation", Integer(), nullable=False),
    Column("trajectory", Integer(), nullable=False),
    Column("seq", BigInteger(), nullable=True),  # NULL: said by the daemon, never a duplicate
    Column("nonce", Text(), nullable=False),
    Column("type", Text(), nullable=False),
    Column("kind", Text(), nullable=True),
    Column("body", Text(), nullable=False),
    Column("checksum", BigInteger(), nullable=True),  # NULL: written before there was one
    sqlite_autoincrement=True,
)


def row_of(entry: Entry, redact: Redactor) -> dict[str, Any]:
    """Return the row of an entry, its body redacted. The id is the database's to give.

    Total: a body that can't be written as JSON is stored as a note that says so, under the same seq.
    """
    try:
        return _row(entry, redact)
    except (ValueError, TypeError, RecursionError) as error:
        what = f"a {type(entry.body).__name__} could not be stored: {error!r}"[:300]
        note = OutcomeNoted(outcome=Outcome(kind=Kind.JOURNAL_ERROR, evidence=(Evidence(what=what),)))
        return _row(replace(entry, body=note), redact)


def _row(entry: Entry, redact: Redactor) -> dict[str, Any]:
    type_, data = events.body_to_json(entry.body)
    outcome = events.outcome_of(entry.body)
    row: dict[str, Any] = {
        "at": entry.at if isfinite(entry.at) else 0.0,
        "night": _sound(entry.night),
        "loop": _sound(entry.loop),
        "generation": _whole(entry.generation, 31),
        "trajectory": _whole(entry.trajectory, 31),
        "seq": _whole(entry.seq, 63) or None,
        "nonce": _sound(entry.nonce),
        "type": type_,
        "kind": None if outcome is None else outcome.kind.value,
        "body": _json(redact.data(data)),
    }
    return {**row, "checksum": checksum([row[name] for name in CHECKED])}


CHECKED = ("at", "night", "loop", "generation", "trajectory", "seq", "nonce", "type", "kind", "body")


def checksum(values: Sequence[object]) -> int:
    """Return the checksum of a row's values in the order of CHECKED; text may be given as its bytes."""
    # In one expression, for a start computes it of every row of the journal.
    return crc32(
        b"\x1f".join(
            [
                value if type(value) is bytes else (value if type(value) is str else repr(value)).encode()
                for value in values
            ]
        )
    )


def entry_of(row: Row[Any]) -> Entry:
    """Build the entry of a row. Raises a ValueError on a damaged row, or a body that this version doesn't know."""
    values: list[Any] = list(row)  # in the order of ENTRY's columns
    id_ = values.pop(0)
    told = values[: len(CHECKED)]
    proof = values[len(CHECKED)] if len(values) > len(CHECKED) else None
    if proof is not None and proof != checksum(told):
        raise ValueError("its checksum is wrong: it is not what was written")
    at, night, loop, generation, trajectory, seq, nonce, type_, _kind, body = told
    return Entry(
        id=id_,
        at=at,
        night=night,
        loop=loop,
        generation=generation,
        trajectory=trajectory,
        seq=seq or 0,
        nonce=nonce,
        body=events.body_from_json(type_, json.loads(body)),
    )


def _json(data: object) -> str:
    """ASCII only, so that no text an agent can make (lone surrogates, NUL) is refused by a database."""
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)


def _finite(data: object) -> object:
    if isinstance(data, float) and not isfinite(data):
        return None
    if isinstance(data, list):
        return [_finite(item) for item in data]
    if isinstance(data, dict):
        return {key: _finite(item) for key, item in data.items()}
    return data


def _sound(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _whole(number: int, bits: int) -> int:
    return max(0, min(number, (1 << bits) - 1))
