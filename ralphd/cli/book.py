"""One night of the journal, as the verbs that list it read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ralphd.core import events
from ralphd.core.events import Entry
from ralphd.core.status import iso
from ralphd.edges.journal import JournalReader

Line = dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Book:
    """One night of an open journal; ``loop`` empty: all of them."""

    reader: JournalReader
    night: str
    loop: str

    def entries(self, *types: str) -> Iterator[Entry]:
        found = self.reader.entries(self.night, types=types or None)
        return (entry for entry in found if self.loop in ("", loop_of(entry)))


def loop_of(entry: Entry) -> str:
    """Return the loop an entry is about: an intent names it in its arguments."""
    if entry.loop or not isinstance(entry.body, events.ActionIntended):
        return entry.loop
    return str(entry.body.args.get("loop") or "")


def frame(entry: Entry) -> Line:
    return {
        "id": entry.id,
        "at": iso(entry.at),
        "night": entry.night,
        "loop": entry.loop,
        "generation": entry.generation,
        "trajectory": entry.trajectory,
    }
