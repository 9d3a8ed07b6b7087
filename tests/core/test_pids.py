from __future__ import annotations

from ralphd.core.pids import PIDS, TURNS, all_in_turn


def told(*answers):
    left = list(answers)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_the_newest_come_first_and_what_began_meanwhile_last():
    assert list(all_in_turn({1, 7, 5}, told(9, 10, 10), before=7)) == [7, 5, 1, 9, 8, 10]


def test_the_smallest_follow_the_largest():
    assert list(all_in_turn({1, 4000}, told(3, 3), before=4000)) == [4000, 1, 3, 2]


def test_a_kernel_that_does_not_tell_leaves_the_list():
    assert list(all_in_turn({1, 7}, told(0), before=0)) == [7, 1]


def test_a_storm_of_forks_does_not_hold_it_for_ever():
    count = iter(range(10_000, 10**9, 10_000))
    assert len(list(all_in_turn({1}, lambda: next(count), before=1))) == 1 + TURNS * PIDS
