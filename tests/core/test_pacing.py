from __future__ import annotations

import pytest

from ralphd.core import pacing
from ralphd.core.exchange import Limits
from ralphd.core.outcomes import RETRIED_FOR_EVER, TABLE, Kind, Outcome
from ralphd.core.pacing import Circumstances, Streak, Then

LIMITS = Limits()


def seen(*, seconds=1.0, worked=False, chance=0.0, now=1000.0):
    return Circumstances(seconds=seconds, worked=worked, now=now, chance=chance)


def run(kinds, limits=LIMITS, **more):
    streak, paces = Streak(), []
    for kind in kinds:
        streak, pace = pacing.after(streak, Outcome(kind=kind), seen(**more), limits)
        paces.append(pace)
    return paces


@pytest.mark.parametrize("kind", list(Kind))
def test_every_outcome_has_a_next_step(kind):
    (pace,) = run([kind])
    assert pace.then is (
        Then.ATTEMPT
        if kind in RETRIED_FOR_EVER
        else Then.HOLD
        if TABLE[kind].response in pacing.HELD_RESPONSES
        else Then.SESSION
    )
    assert pace.wait_s >= 0


def test_inference_is_asked_again_for_ever_with_a_wait_between_the_least_and_the_greatest():
    for chance in (0.0, 0.5, 0.999999):
        waits = [pace.wait_s for pace in run([Kind.OVERLOADED] * 2000, chance=chance)]
        assert all(LIMITS.backoff_min_s <= wait <= LIMITS.backoff_max_s for wait in waits)
    assert waits[0] <= 2.0
    assert waits[:5] == sorted(waits[:5])
    assert waits[-1] > 299


def test_what_the_server_names_is_a_floor_even_above_the_greatest_wait():
    for detail, least in (
        ({"retry_after_s": 600}, 600),
        ({"resets_at": 1000.0 + 7200}, 7200),
        ({"retry_after_s": 5, "resets_at": 1030.0}, 30),
    ):
        for chance in (0.0, 0.9):
            wait = pacing.inference_wait_s(0, Outcome(kind=Kind.QUOTA, detail=detail), seen(chance=chance), LIMITS)
            assert least <= wait <= least * 1.3
    late = pacing.inference_wait_s(0, Outcome(kind=Kind.QUOTA, detail={"resets_at": 10.0}), seen(), LIMITS)
    assert late == LIMITS.backoff_min_s


def test_a_success_ends_the_growth():
    assert run([Kind.OVERLOADED] * 9 + [Kind.NEXT, Kind.OVERLOADED], chance=0.999)[-1].wait_s <= 2.0


def test_quick_crashes_wait_longer_and_longer_and_the_fifth_is_a_crash_loop():
    paces = run([Kind.EXITED] * 12)
    assert [pace.wait_s for pace in paces[:6]] == [0, 1, 2, 4, 8, 16]
    assert max(pace.wait_s for pace in paces) == pacing.CRASH_WAIT_MAX_S
    assert [pace.outcome.kind for pace in paces[3:5]] == [Kind.EXITED, Kind.CRASH_LOOP]
    assert paces[4].outcome.detail["was"] == "agent.exited"
    assert {pace.then for pace in paces} == {Then.SESSION}


@pytest.mark.parametrize("kind", [Kind.EXITED, Kind.NOOP])
def test_the_pauses_grow_from_the_least_backoff_that_is_set(kind):
    quick = Limits(backoff_min_s=0.1)
    assert [pace.wait_s for pace in run([kind] * 5, quick, seconds=0.0)] == [0, 0.1, 0.2, 0.4, 0.8]
    assert run([kind] * 30, quick, seconds=0.0)[-1].wait_s >= pacing.NOOP_WAIT_MAX_S


@pytest.mark.parametrize("circumstances", [{"worked": True}, {"seconds": 600.0}])
def test_a_crash_after_real_work_waits_for_nothing(circumstances):
    paces = run([Kind.SIGNALLED] * 9, **circumstances)
    assert {(pace.wait_s, pace.outcome.kind) for pace in paces} == {(0.0, Kind.SIGNALLED)}


def test_doing_nothing_again_and_again_pauses_up_to_a_minute_less_what_the_session_took():
    assert [pace.wait_s for pace in run([Kind.NOOP] * 9, seconds=0.0)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert run([Kind.NOOP] * 9, seconds=45.0)[-1].wait_s == 15.0
    assert run([Kind.NOOP, Kind.NOOP, Kind.NEXT, Kind.NOOP], seconds=0.0)[-1].wait_s == 0.0


def test_a_full_disk_slows_the_loop_down_but_is_no_crash_loop():
    assert {pace.outcome.kind for pace in run([Kind.DISK_FULL] * 9)} == {Kind.DISK_FULL}
