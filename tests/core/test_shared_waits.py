"""When do loops that wait for inference have one shared cause, worth telling a person?"""

from __future__ import annotations

import pytest
from support.nights import Night

from ralphd.core import records
from ralphd.core.fold import fold
from ralphd.core.outcomes import Kind
from ralphd.core.policy import LoopNow, Present
from ralphd.core.policy.sharing import WAITS_S, note_shared
from ralphd.core.state import WORKS_S

LOOPS = ("l1", "l2", "l3")


def begun() -> Night:
    night = Night()
    night.started()
    night.task()
    for name in LOOPS:
        night.loop(name)
        asks(night, name)
    return night


def said(night: Night, body: records.AgentStarted | records.Waiting, loop: str) -> None:
    at = night.now
    night.say(body, loop)
    night.now = at  # all of them at once


def asks(night: Night, loop: str) -> None:
    said(night, records.AgentStarted(pid=1, start_ticks=1, attempt=1, account="x"), loop)


def waits(night: Night, loop: str, seconds: float) -> None:
    said(night, records.Waiting(kind=Kind.OVERLOADED.value, until=night.now + seconds), loop)


def told(night: Night) -> list[str]:
    state = fold(night.entries)
    present = Present(now=night.now, loops={name: LoopNow(alive=True) for name in state.loops})
    return [body.outcome.evidence[0].what for _, body in note_shared(state, present)]


def test_a_wait_of_a_second_is_nothing_to_tell():
    night = begun()
    for loop in LOOPS:
        waits(night, loop, 1.0)
    assert told(night) == []


@pytest.mark.parametrize("kind", ["long ahead", "long behind"])
def test_a_long_wait_of_all_is_told(kind):
    night = begun()
    for loop in LOOPS:
        waits(night, loop, 2 * WAITS_S if kind == "long ahead" else 1.0)
    if kind == "long behind":
        night.now += WAITS_S + 1
    assert told(night) == ["3 of 3 loops wait for the same: inference.overloaded"]


def test_tries_that_are_refused_at_once_are_one_wait():
    night = begun()
    for _ in range(4):
        for loop in LOOPS:
            waits(night, loop, 20.0)
        night.now += 20.0
        for loop in LOOPS:
            asks(night, loop)
        night.now += 1.0
    for loop in LOOPS:
        waits(night, loop, 1.0)
    assert told(night) == ["3 of 3 loops wait for the same: inference.overloaded"]


def test_work_in_between_begins_a_new_wait():
    night = begun()
    for _ in range(4):
        for loop in LOOPS:
            waits(night, loop, 1.0)
        night.now += 20.0
        for loop in LOOPS:
            asks(night, loop)
        night.now += WORKS_S + 1
    for loop in LOOPS:
        waits(night, loop, 1.0)
    assert told(night) == []
