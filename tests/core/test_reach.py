"""An endpoint that failed is tried again for ever, at growing and jittered intervals, and not before it may be."""

from __future__ import annotations

from ralphd.core.reach import PROBE_MAX_S, PROBE_MIN_S, Reach


def test_it_is_looked_at_once_before_the_first_question():
    assert Reach().due(0.0)
    assert not Reach().answered().due(1e9)


def test_it_is_tried_for_ever_and_never_more_often_than_every_few_minutes_at_last():
    reach, now, waits = Reach(), 0.0, []
    for _ in range(2000):
        reach = reach.failed(now, "refused", chance=0.999)
        waits.append(reach.probe_at - now)
        assert not reach.due(reach.probe_at - 0.01)
        now = reach.probe_at
        assert reach.due(now)
    assert waits[0] >= PROBE_MIN_S
    assert waits[:6] == sorted(waits[:6])
    assert PROBE_MAX_S * 0.9 < waits[-1] <= PROBE_MAX_S


def test_the_wait_is_spread_down_to_its_least():
    down = Reach(up=False, failures=20)
    assert down.failed(0.0, "x", chance=0.0).probe_at == PROBE_MIN_S
    assert 0.4 * PROBE_MAX_S < down.failed(0.0, "x", chance=0.5).probe_at < 0.6 * PROBE_MAX_S


def test_what_the_server_names_is_a_floor():
    assert Reach().failed(10.0, "429", chance=0.0, floor_s=600.0).probe_at == 610.0


def test_an_answer_ends_the_count():
    assert Reach().failed(0.0, "x", chance=0.5).failed(9.0, "x", chance=0.5).answered() == Reach(up=True)
