"""When an agent goes round in circles, and when it only seems to."""

from __future__ import annotations

from itertools import count

import pytest

from ralphd.core.repetition import ERRORS, RESULTS, Repetition
from ralphd.core.signals import Called, Returned, Said


def go(calls: list[tuple[str, str, bool]], *, every_s: float = 2.0, times: int = 1) -> Repetition:
    """(command, result, error) again and again, ``times`` times over."""
    seen, now, ids = Repetition(), 0.0, count()
    for _ in range(times):
        for command, result, error in calls:
            name = str(next(ids))
            seen.note(Called(id=name, tool="Bash", command=command), now)
            seen.note(Said(text="let me try once more"), now)
            seen.note(Returned(id=name, text=result, is_error=error), now)
            now += every_s
    seen.now = now  # type: ignore[attr-defined]
    return seen


def level(seen: Repetition) -> int:
    return seen.level(seen.now)  # type: ignore[attr-defined]


def test_the_same_error_is_told_and_then_ended():
    pair = [("make", "no rule", True)]
    assert level(go(pair, times=ERRORS - 1)) == 0
    seen = go(pair, times=ERRORS)
    assert level(seen) == 1
    seen.tell(seen.now)  # type: ignore[attr-defined]
    assert level(seen) == 1
    again(seen, ERRORS - 1)
    assert level(seen) == 1
    again(seen, 1)
    assert level(seen) == 2


def again(seen: Repetition, times: int) -> None:
    for _ in range(times):
        seen.note(Called(id="x", tool="Bash", command="make"), 0.0)
        seen.note(Returned(id="x", text="no rule", is_error=True), 0.0)
        seen.now += 2.0  # type: ignore[attr-defined]


def test_a_burst_is_no_circle_yet():
    """It may have been written over a long time, and read at once."""
    assert level(go([("make", "no rule", True)], times=50 * ERRORS, every_s=0.0)) == 0


def test_a_circle_of_three_is_one_too():
    circle = [(name, f"{name} failed", True) for name in "abc"]
    assert level(go(circle, times=ERRORS // 2)) == 1
    assert level(go([(name, "failed", True) for name in "abcd"], times=ERRORS)) == 0


def test_another_result_is_something_new():
    assert level(go([("pytest", f"{n} failed", True) for n in range(100)])) == 0


def test_working_calls_may_repeat_longer_and_waiting_ones_for_ever():
    poll = [("tail log", "still training", False)]
    assert level(go(poll, times=RESULTS - 1)) == 0
    assert level(go(poll, times=RESULTS)) == 1
    assert level(go(poll, every_s=30.0, times=1000)) == 0
    mixed = [("make", "no rule", True), ("ls", "Makefile", False)]
    assert level(go(mixed, times=ERRORS)) == 0


def test_what_came_of_it_begins_a_new_count():
    seen = go([("make", "no rule", True)], times=ERRORS - 1)
    seen.restart(0.0)
    assert level(seen) == 0
    assert seen.told()


@pytest.mark.parametrize(("times", "told"), [(4, False), (5, True)])
def test_a_session_tells_what_it_got_again_and_again(times, told):
    first, other = (go([(command, "no", True)], times=times).told() for command in ("make", "make all"))
    assert bool(first) is told
    assert first == go([("make", "no", True)], times=times + told).told()
    assert first != other or not told


def test_results_of_unknown_calls_and_floods_of_calls_are_borne():
    seen = Repetition()
    for n in range(10_000):
        seen.note(Called(id=str(n), tool="x"), 0.0)
        seen.note(Returned(id=f"never {n}", text="x", is_error=True), 0.0)
    assert level_of_nothing(seen) == 0
    assert len(seen._open) <= 64


def level_of_nothing(seen: Repetition) -> int:
    return seen.level(1.0)
