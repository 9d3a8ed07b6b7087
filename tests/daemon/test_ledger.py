"""The ledger that holds a killed daemon's journal to what must be so sees each way in which it can be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.invariants import Ledger
from support.nights import Night

from ralphd.core import actions, events
from ralphd.core.events import Entry

LOOP = "loop-1"


def a_night() -> list[Entry]:
    """An intent and its outcome, then two records of a runner."""
    night = Night()
    type_, args = events.action_to_json(actions.Resume(loop=LOOP))
    intent = night.say(events.ActionIntended(type=type_, args=args, why="", by="operator"), LOOP)
    night.say(events.ActionSettled(intent=intent.id, result="done"), LOOP)
    night.began(LOOP, 1)
    night.began(LOOP, 2)
    return night.entries


def test_a_sound_night_is_taken_in_piece_by_piece() -> None:
    ledger = Ledger()
    ledger.wrote(LOOP, [1, 2])
    for entry in a_night():
        ledger.took([entry])
    assert ledger.stored[LOOP] == 2


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        ((1, 2, 3), "without its intent"),
        ((0, 1, 1, 2, 3), "settled twice"),
        ((0, 1, 3), "lost, doubled or out of order"),
        ((0, 1, 2, 2, 3), "lost, doubled or out of order"),
    ],
)
def test_what_is_wrong_is_seen(order: tuple[int, ...], complaint: str) -> None:
    entries, ledger = a_night(), Ledger()
    ledger.wrote(LOOP, [1, 2])
    with pytest.raises(AssertionError, match=complaint):
        ledger.took(replace(entries[place], id=number) for number, place in enumerate(order, 1))


def test_an_id_that_is_given_twice_is_seen() -> None:
    ledger = Ledger()
    ledger.took(a_night()[:2])
    with pytest.raises(AssertionError, match="given before"):
        ledger.took(a_night()[:1])
