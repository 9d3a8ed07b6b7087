from __future__ import annotations

import json
import os
from dataclasses import replace
from math import inf

import pytest
from support.fleet import SILENT_S, Fleet

from ralphd.core import gate as gates
from ralphd.core.exchange import Limits
from ralphd.core.gate import Gate, Moment
from ralphd.core.outcomes import RETRIED_FOR_EVER, Kind, Outcome
from ralphd.core.pacing import Then
from ralphd.core.signals import Began, Called, Requesting, Resulted, Retrying, Said, Streamed
from ralphd.pane.gatekeeper import ALIVE_EVERY_S, ASSUMED_AFTER_S, ASSUMED_AT_LAST_S, SILENT_TRY_S, Gatekeeper

LIMITS = Limits()
THIRD_S = 1800.0
BEGAN = 1000.0


def least_tries(seconds, floor_s=0.0):
    """How often one asker alone would try in that time if it always waited the longest that the schedule has."""
    waited, tries = 0.0, 0
    while waited < seconds:
        tries += 1
        waited += gates.wait_s(tries, floor_s, 1.0, LIMITS)
    return tries


def overloaded(at, chance):
    return Outcome(kind=Kind.OVERLOADED)


def unreachable(at, chance):
    return Outcome(kind=Kind.CONNECTION)


def limited(at, chance):
    return Outcome(kind=Kind.RATE_LIMITED, detail={"retry_after_s": 30.0})


def out_of_quota(at, chance):
    return Outcome(kind=Kind.QUOTA, detail={"resets_at": 1.7e9 + BEGAN + THIRD_S})


REFUSING = {"overloaded": overloaded, "refused": unreachable, "limited": limited, "quota": out_of_quota}


def night(refuses, flaps):
    """Refuses everything in its first third, flaps in the second, works in the last."""

    def answer(at, chance):
        if at < BEGAN + THIRD_S:
            return refuses(at, chance)
        return unreachable(at, chance) if at < BEGAN + 2 * THIRD_S and flaps(at, chance) else None

    return answer


FLAPS = {
    "by the minute": lambda at, _: at % 120 < 60,
    "by chance": lambda _, chance: chance.random() < 0.5,
    "mostly down": lambda at, _: at % 300 < 280,
}


def outages(flaps):
    """The stretches in which the server answers nobody: its first third, and each of its flaps.

    One that refuses by chance refuses half of what is asked, whoever asks: of that nothing is to be measured.
    """
    found, began = [], None
    if flaps is FLAPS["by chance"]:
        return [(BEGAN, BEGAN + THIRD_S)]
    for second in range(int(THIRD_S) + 1):
        down = second < THIRD_S and flaps(BEGAN + THIRD_S + second, None)
        if down and began is None:
            began = second
        elif not down and began is not None:
            found.append((BEGAN + THIRD_S + began, BEGAN + THIRD_S + second))
            began = None
    return [(BEGAN, BEGAN + THIRD_S), *found]


def least_in_vain(fleet, flaps, floor_s):
    """The fewest refusals with which anybody could have done this night's work who can't look into the server.

    What is answered is the work itself, and is asked as often as there is work. In vain are, in each outage:

    * one request of each session that runs into it, since nothing but a refusal tells of one, and
    * the tries of one asker for all. In the first outage his waits double: it might be over in a second. In those that
      follow he tries once in eighty seconds, more seldom than which two minutes are not kept.
    """
    least = 0
    for since, until in outages(flaps):
        least += len({ask.loop for ask in refused(fleet, since, until) if not ask.closed})
        first = since == BEGAN
        least += least_tries(until - since, floor_s) if first else max(1, int((until - since) / gates.TRY_EVERY_MAX_S))
    return least


def refused(fleet, since, until):
    return [ask for ask in fleet.asked if ask.refused and since <= ask.ended < until]


@pytest.mark.parametrize("flaps", FLAPS.values(), ids=FLAPS.keys())
@pytest.mark.parametrize(
    ("refuses", "asks_again"),
    [
        *(pytest.param(refuses, False, id=name) for name, refuses in REFUSING.items()),
        pytest.param(overloaded, True, id="overloaded, and each client would ask again by itself"),
    ],
)
def test_a_night_against_a_server_that_refuses_then_flaps_then_works(tmp_path, refuses, asks_again, flaps):
    fleet = Fleet(tmp_path, night(refuses, flaps), asks_again=asks_again).run(3 * THIRD_S)
    # nobody failed
    assert {pace.then for pace in fleet.paces if pace.outcome.kind in RETRIED_FOR_EVER} == {Then.ATTEMPT}
    assert {pace.outcome.kind for pace in fleet.paces} <= RETRIED_FOR_EVER | {Kind.NEXT}
    # one asks at a time while the gate is closed, and no oftener than it must
    assert fleet.in_flight_while_closed() == 1
    tries = [ask for ask in fleet.asked if ask.closed and ask.began < BEGAN + THIRD_S]
    floor_s = {limited: 30.0, out_of_quota: THIRD_S}.get(refuses, 0.0)
    assert len(tries) <= 1.2 * least_tries(THIRD_S, floor_s)
    # nor does anybody in the whole night
    in_vain = sum(len(refused(fleet, *outage)) for outage in outages(flaps))
    assert in_vain <= 1.2 * least_in_vain(fleet, flaps, floor_s)
    # and all work again in time
    assert fleet.working_by(BEGAN + 2 * THIRD_S) <= BEGAN + 2 * THIRD_S + 120


def test_those_who_asked_before_the_gate_closed_are_all_that_is_asked_in_vain(tmp_path):
    fleet = Fleet(tmp_path, overloaded).run(600)
    assert len([ask for ask in fleet.asked if not ask.closed]) <= fleet.loops


def test_an_outage_costs_no_more_than_what_one_loop_alone_would_ask(tmp_path):
    one = Fleet(tmp_path / "one", overloaded, loops=1).run(1800)
    many = Fleet(tmp_path / "many", overloaded, loops=40).run(1800)
    assert sum(ask.closed for ask in many.asked) <= 1.2 * sum(ask.closed for ask in one.asked)


@pytest.mark.parametrize("seed", range(2))
def test_runners_that_die_while_they_try_keep_nobody_waiting(tmp_path, seed):
    fleet = Fleet(tmp_path, night(overloaded, FLAPS["by the minute"]), seed=seed, dies=0.2).run(3 * THIRD_S)
    assert fleet.deaths > 20
    assert fleet.in_flight_while_closed() == 1
    assert fleet.working_by(BEGAN + 2 * THIRD_S) <= BEGAN + 2 * THIRD_S + 180  # a dead runner may be on its way back


def test_a_server_that_takes_requests_and_stays_silent_holds_up_nobody_else(tmp_path):
    """Whoever tries is stuck in a request that nobody will answer; the server is well again long before it is ended."""

    def answer(at, chance):
        if at < BEGAN + 600:
            return overloaded(at, chance)
        return Outcome(kind=Kind.STALLED) if at < BEGAN + THIRD_S else None

    for seed in range(3):
        fleet = Fleet(tmp_path / str(seed), answer, seed=seed).run(THIRD_S + 600)
        stuck = {ask.loop for ask in fleet.asked if ask.refused and ask.began < BEGAN + THIRD_S < ask.ended}
        assert len(stuck) <= SILENT_S / SILENT_TRY_S + 1
        assert fleet.working_by(BEGAN + THIRD_S, but_for=stuck) <= BEGAN + THIRD_S + 120
        silent = [ask for ask in fleet.asked if ask.refused and ask.began >= BEGAN + 600]
        assert len(silent) <= 1.2 * (THIRD_S - 600) / SILENT_TRY_S


def test_a_limit_that_ends_while_a_loop_waits_is_found_out_in_two_minutes(tmp_path):
    for seed in range(3):
        fleet = Fleet(tmp_path / str(seed), night(limited, lambda *_: False), seed=seed).run(THIRD_S + 300)
        assert fleet.working_by(BEGAN + THIRD_S) <= BEGAN + THIRD_S + 120


# One gate, step by step.


class Clock:
    def __init__(self):
        self.now, self.chance = 5000.0, 0.5

    def __call__(self):
        return Moment(now=self.now, epoch=self.now + 1.7e9, chance=self.chance)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keeper(tmp_path, clock):
    def make(loop, account="a", boot="b", limits=LIMITS):
        made = Gatekeeper(boot, clock)
        made.assign(str(tmp_path / "loops" / loop), account, limits)
        return made

    return make


@pytest.mark.parametrize("kind", list(Kind))
def test_what_befalls_every_asker_closes_the_gate_and_nothing_else_does(keeper, kind):
    one, other = keeper("one"), keeper("other")
    one.judge(Outcome(kind=kind))
    assert other.look().closed is (kind in {Kind.RATE_LIMITED, Kind.QUOTA, Kind.OVERLOADED, Kind.CONNECTION})
    assert not one.trying


def test_the_first_whose_turn_has_come_tries_and_an_answer_opens_the_gate_for_all(keeper, clock):
    one, other, third = keeper("one"), keeper("other"), keeper("third")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    assert not one.may_go(asked=False)
    clock.now += one.wait_s()
    assert other.may_go(asked=False)
    assert not one.may_go(asked=False)
    other.heard(Began(session="s"))  # a CLI begins without any server
    other.heard(Requesting())
    assert not third.may_go(asked=False)
    other.heard(Streamed())
    assert not other.trying
    assert one.may_go(asked=False)
    assert third.may_go(asked=False)
    assert [one.trying, third.trying] == [False, False]


def test_a_turn_is_handed_on_although_a_child_that_is_just_starting_has_a_copy_of_the_lock(keeper, clock):
    one, other = keeper("one"), keeper("other")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    clock.now += one.wait_s()
    assert one.may_go(asked=False)
    copy = os.dup(one._lock)
    one.leave()
    assert other.may_go(asked=False)
    other.leave()
    os.close(copy)


@pytest.mark.parametrize("signal", [Said(text="x"), Streamed(), Called(id="1", tool="t"), Resulted(ok=True)])
def test_each_sign_of_an_answer_opens_it(keeper, clock, signal):
    one = keeper("one")
    one.judge(Outcome(kind=Kind.CONNECTION))
    clock.now += one.wait_s()
    assert one.may_go(asked=False)
    one.heard(Resulted(ok=False))
    assert keeper("other").look().closed
    one.heard(signal)
    assert not keeper("other").look().closed


def test_a_person_s_wish_lets_one_try_at_once_whatever_the_server_named(keeper):
    one, other = keeper("one"), keeper("other")
    one.judge(Outcome(kind=Kind.QUOTA, detail={"retry_after_s": 7200.0}))
    assert one.wait_s() >= 7200
    assert one.may_go(asked=True)
    assert not other.may_go(asked=True)


def test_a_try_that_told_nothing_of_inference_is_followed_by_one_that_waits(keeper, clock):
    one = keeper("one")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    clock.now += one.wait_s()
    assert one.may_go(asked=False)
    one.judge(Outcome(kind=Kind.EXITED))
    assert one.look().closed
    assert one.wait_s() >= LIMITS.backoff_min_s


def test_a_good_end_of_a_program_that_tells_nothing_opens_it(keeper, clock):
    one = keeper("one")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    clock.now += one.wait_s()
    assert one.may_go(asked=False)
    one.judge(Outcome(kind=Kind.NEXT))
    assert not one.look().closed


def test_a_program_that_tells_nothing_and_does_not_fail_was_answered(keeper, clock):
    one = keeper("one")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    clock.now += one.wait_s()
    assert one.may_go(asked=False)
    clock.now += ASSUMED_AFTER_S
    one.still_tries(tells=False, waits=True)
    assert one.trying
    one.still_tries(tells=False)
    assert not keeper("other").look().closed


def test_beside_a_try_that_hears_nothing_for_a_minute_another_one_tries(keeper, clock):
    one, other, third = keeper("one"), keeper("other"), keeper("third")
    for _ in range(9):
        one.judge(Outcome(kind=Kind.OVERLOADED))
        clock.now += one.wait_s()
        assert one.may_go(asked=False)
    began = clock.now
    clock.now += SILENT_TRY_S - 1
    one.still_tries(tells=True)
    assert not other.may_go(asked=False)
    clock.now += 1
    one.still_tries(tells=True)
    assert not one.trying
    assert not other.may_go(asked=False)
    clock.now = began + gates.TRY_EVERY_MAX_S
    assert other.may_go(asked=False)
    assert not third.may_go(asked=False)
    one.heard(Streamed())  # it was answered in the end, and that is true for all
    assert third.may_go(asked=False)


def test_a_cli_that_tells_of_answers_but_late_is_believed_after_ten_minutes(keeper, clock):
    one, other = keeper("one"), keeper("other")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    clock.now += one.wait_s()
    assert one.may_go(asked=False)
    for _ in range(int(ASSUMED_AT_LAST_S / ALIVE_EVERY_S)):
        assert other.look().closed
        clock.now += ALIVE_EVERY_S
        one.still_tries(tells=True)
    assert not other.look().closed


def test_an_end_that_tells_nothing_of_inference_is_forgotten_by_a_try_that_let_others_go(keeper, clock):
    one, other = keeper("one"), keeper("other")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    clock.now += one.wait_s()
    assert one.may_go(asked=False)
    clock.now += SILENT_TRY_S
    one.still_tries(tells=True)
    one.judge(Outcome(kind=Kind.STALLED))
    one.heard(Streamed())
    assert other.look().closed


def test_a_long_try_shows_that_it_lives_and_a_silent_one_keeps_nobody_for_ever(keeper, clock):
    one, other = keeper("one"), keeper("other")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    clock.now += one.wait_s()
    assert one.may_go(asked=False)
    for _ in range(60):
        clock.now += ALIVE_EVERY_S
        one.still_tries(tells=True, waits=True)
        assert not other.may_go(asked=False)
    clock.now += gates.OVERDUE_S + 1
    assert other.may_go(asked=False)
    assert not other.trying


def test_a_client_that_asks_again_by_itself_is_the_one_that_tries(keeper, clock):
    one, other = keeper("one"), keeper("other")
    one.heard(Retrying(status=529, attempt=1, delay_s=0.5))
    assert not other.look().closed
    one.heard(Retrying(status=529, attempt=2, delay_s=1.0))
    assert (other.look().closed, other.look().kind) == (True, Kind.OVERLOADED.value)
    clock.now += 3600
    one.still_tries(tells=True, waits=True)
    assert not other.may_go(asked=False)
    one.heard(Said(text="at last"))
    assert other.may_go(asked=False)


def test_a_client_that_would_ask_again_by_itself_leaves_that_to_a_closed_gate(keeper, clock):
    one, other = keeper("one"), keeper("other")
    first, second = Retrying(status=529, attempt=1, delay_s=0.5), Retrying(status=529, attempt=2, delay_s=1.0)
    assert not one.leaves_it(first)  # a hiccup
    assert one.leaves_it(second)
    other.judge(Outcome(kind=Kind.OVERLOADED))
    assert one.leaves_it(first)
    clock.now += other.wait_s()
    assert one.may_go(asked=False)
    assert one.leaves_it(first)  # the one that tries asks once


def test_a_wait_that_the_server_named_is_for_all_at_once(keeper):
    one, waits = keeper("one"), Retrying(status=429, attempt=1, delay_s=600.0)
    assert one.leaves_it(waits)
    one.judge(Outcome(kind=Kind.RATE_LIMITED, detail={"client_wait_s": 600.0}))
    assert 600 <= keeper("other").wait_s() <= 600 + gates.AFTER_FLOOR_S


def test_what_two_clients_meet_at_the_same_time_is_no_hiccup(keeper, clock):
    one, other, waits = keeper("one"), keeper("other"), Retrying(status=529, attempt=1, delay_s=0.5)
    one.heard(waits)
    assert not one.leaves_it(waits)
    assert other.leaves_it(waits)
    clock.now += gates.DOUBT_S
    assert not other.leaves_it(waits)


def test_what_a_client_meets_soon_after_an_outage_is_no_hiccup(keeper, clock):
    one, waits = keeper("one"), Retrying(status=529, attempt=1, delay_s=0.5)
    one.judge(Outcome(kind=Kind.OVERLOADED))
    clock.now += one.wait_s()
    assert one.may_go(asked=False)
    one.heard(Said(text="at last"))
    assert one.leaves_it(waits)
    clock.now += gates.UNSTEADY_S
    assert not one.leaves_it(waits)


@pytest.mark.parametrize(
    "waits",
    [Retrying(status=401, attempt=2), Retrying(error="compacting", delay_s=600.0), Retrying(attempt=2, silent_s=600.0)],
    ids=["a refused key", "a compaction", "a time that only the server and the client know"],
)
def test_what_is_no_outage_is_left_to_no_gate(keeper, waits):
    one = keeper("one")
    assert not one.leaves_it(waits)
    one.heard(waits)
    one.judge(Outcome(kind=Kind.OVERLOADED))
    assert not one.leaves_it(waits)
    assert not keeper("two", account="").leaves_it(Retrying(status=529, attempt=9))


@pytest.mark.parametrize("status", [401, 403])
def test_a_client_whose_key_is_refused_tries_for_nobody(keeper, status):
    keeper("one").heard(Retrying(status=status, attempt=3, delay_s=1.0))
    assert not keeper("other").look().closed


def test_accounts_have_gates_of_their_own_and_none_without_an_account(keeper):
    keeper("one", account="x").judge(Outcome(kind=Kind.OVERLOADED))
    keeper("two", account="").judge(Outcome(kind=Kind.OVERLOADED))
    assert keeper("three", account="x").look().closed
    assert not keeper("three", account="y").look().closed
    assert not keeper("three", account="").look().closed


def test_another_boot_and_another_account_begin_with_an_open_gate(keeper, tmp_path):
    one = keeper("one")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    assert not keeper("one", boot="another").look().closed
    one.assign(str(tmp_path / "loops" / "one"), "another", LIMITS)
    assert not one.look().closed


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"boot":"b","gate":{"refusals":"x"}}', '{"boot":"b","gate":{"refusals":1,"next_at":1e300}}',
     '{"boot":"b","gate":{"refusals":1,"since":1e9}}', '{"boot":"b","gate":{"refusals":-1}}', "[" * 4000, "x" * 5000],
)  # fmt: skip
def test_a_gate_that_somebody_spoilt_is_open(keeper, tmp_path, text):
    (tmp_path / "gates").mkdir()
    (tmp_path / "gates" / "a").write_text(text)
    assert keeper("one").may_go(asked=False)


def test_odd_things_in_its_place_make_nobody_wait(keeper, tmp_path):
    gates_folder = tmp_path / "gates"
    gates_folder.mkdir()
    os.mkfifo(gates_folder / "a")
    (gates_folder / "a.try").symlink_to("/etc/passwd")
    one = keeper("one")
    one.judge(Outcome(kind=Kind.OVERLOADED))
    assert one.may_go(asked=False)
    (tmp_path / "other").write_text("a file where the folder should be")
    other = Gatekeeper("b", one._moment)
    other.assign(str(tmp_path / "other" / "loops" / "x"), "a", LIMITS)
    other.judge(Outcome(kind=Kind.OVERLOADED))
    assert other.may_go(asked=False)


def test_only_its_owner_can_read_the_gate_and_it_holds_no_secret(keeper, tmp_path):
    keeper("one").judge(Outcome(kind=Kind.OVERLOADED, detail={"message": "sk-secret"}))
    assert (tmp_path / "gates").stat().st_mode & 0o77 == 0
    for path in (tmp_path / "gates").iterdir():
        assert path.stat().st_mode & 0o77 == 0
        assert "secret" not in path.read_text()
    assert json.loads((tmp_path / "gates" / "a").read_text())["gate"]["kind"] == "inference.overloaded"


# The pure part.


def test_waits_double_up_to_a_cap_that_leaves_two_minutes_enough():
    waits = [gates.wait_s(refusals, 0.0, 1.0, LIMITS) for refusals in range(1, 60)]
    assert waits[:6] == [2, 4, 8, 16, 32, 64]
    assert max(waits) == gates.TRY_EVERY_MAX_S
    assert gates.TRY_EVERY_MAX_S + gates.SPREAD_S < 120
    assert gates.wait_s(9, 0.0, 0.0, LIMITS) == 0.75 * gates.TRY_EVERY_MAX_S
    assert gates.wait_s(9, 0.0, 1.0, replace(LIMITS, backoff_max_s=10.0)) == 10.0


@pytest.mark.parametrize("floor_s", [30.0, 600.0, 86_400.0])
def test_what_the_server_names_is_a_floor_and_little_comes_on_top(floor_s):
    for chance in (0.0, 0.999):
        assert floor_s <= gates.wait_s(1, floor_s, chance, LIMITS) <= floor_s + gates.AFTER_FLOOR_S


def test_a_gate_that_closes_again_at_once_goes_on_with_half_its_count():
    at = Moment(now=1000.0, epoch=1.7e9, chance=0.5)
    gate = Gate()
    for _ in range(6):
        gate = gates.refuse(gate, Outcome(kind=Kind.OVERLOADED), at, LIMITS)
    opened = gates.open_(gate, 1000.0)
    again = gates.refuse(opened, Outcome(kind=Kind.OVERLOADED), replace(at, now=1030.0), LIMITS)
    assert (gate.refusals, again.refusals) == (6, 4)
    later = gates.refuse(opened, Outcome(kind=Kind.OVERLOADED), replace(at, now=1100.0), LIMITS)
    assert later.refusals == 1


def test_loops_that_waited_start_spread_out_and_after_a_hiccup_at_once():
    long = gates.open_(Gate(refusals=9, since=1000.0), 5000.0)
    assert gates.spread_s(long, 0.5, LIMITS) == gates.SPREAD_S / 2
    assert gates.spread_s(gates.open_(Gate(refusals=1, since=1000.0), 1002.0), 1.0, LIMITS) == 0.5


@pytest.mark.parametrize("floor", [inf, -5.0, 1e12])
def test_an_absurd_floor_is_none(floor):
    at = Moment(now=0.0, epoch=1.7e9, chance=0.0)
    for detail in ({"retry_after_s": floor}, {"resets_at": floor}):
        gate = gates.refuse(Gate(), Outcome(kind=Kind.QUOTA, detail=detail), at, LIMITS)
        assert gate.next_at <= LIMITS.backoff_max_s
