"""What must hold of a night at every moment, whatever died: read from its journal and from what the runners wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ralphd.core import events
from ralphd.core.events import Entry


def intents_of(entries: Iterable[Entry]) -> dict[int, events.ActionIntended]:
    return {entry.id: entry.body for entry in entries if isinstance(entry.body, events.ActionIntended)}


def settled_of(entries: Iterable[Entry]) -> list[int]:
    return [entry.body.intent for entry in entries if isinstance(entry.body, events.ActionSettled)]


def assert_one_outcome_each(entries: Sequence[Entry], *, at_rest: bool = False) -> None:
    """Each intent is settled once or still open (``at_rest``: settled once), and nothing else is ever settled."""
    intents, settled = intents_of(entries), Counter(settled_of(entries))
    assert {intent: count for intent, count in settled.items() if count > 1} == {}, "settled twice"
    assert set(settled) <= set(intents), "an outcome without its intent"
    assert all(entry.body.intent < entry.id for entry in entries if isinstance(entry.body, events.ActionSettled))
    if at_rest:
        assert {intent: body for intent, body in intents.items() if intent not in settled} == {}, "left open"


class Ledger:
    """Holds a night to it piece by piece: what is taken in must follow from what was, so nothing is read twice.

    The same as ``assert_one_outcome_each`` and ``assert_each_record_once`` of the whole, but for what was changed behind
    its back: that shows when the whole is read at the end.
    """

    def __init__(self) -> None:
        self.last_id = 0
        self.intents: set[int] = set()
        self.settled: set[int] = set()
        self.written: dict[str, list[int]] = {}
        self.stored: Counter[str] = Counter()

    def wrote(self, loop: str, seqs: Iterable[int]) -> None:
        """Take in what the runner wrote down since the last time."""
        self.written.setdefault(loop, []).extend(seqs)

    def took(self, entries: Iterable[Entry]) -> None:
        """Take in what the journal has since the last time."""
        for entry in entries:
            assert entry.id > self.last_id, "an id that was given before"
            self.last_id = entry.id
            if isinstance(entry.body, events.ActionIntended):
                self.intents.add(entry.id)
            elif isinstance(entry.body, events.ActionSettled):
                assert entry.body.intent in self.intents, "an outcome without its intent"
                assert entry.body.intent not in self.settled, "settled twice"
                self.settled.add(entry.body.intent)
            if entry.seq:
                expected = self.written[entry.loop][self.stored[entry.loop]]
                assert entry.seq == expected, f"{entry.loop}: lost, doubled or out of order"
                self.stored[entry.loop] += 1


def assert_each_record_once(entries: Iterable[Entry], written: dict[str, list[int]], *, whole: bool = False) -> None:
    """The journal holds each loop's records in their order, once each; ``whole``: every one of them."""
    stored: dict[str, list[int]] = {loop: [] for loop in written}
    for entry in entries:
        if entry.seq:
            stored[entry.loop].append(entry.seq)
    for loop, seqs in written.items():
        have = stored[loop]
        assert have == (seqs if whole else seqs[: len(have)]), f"{loop}: lost, doubled or out of order"
