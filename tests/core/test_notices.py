"""What waits for a person, and when they are told of it."""

from __future__ import annotations

import pytest
from support.nights import Night

from ralphd.core import notices, records
from ralphd.core.actions import Notify, Pause, StopLoop
from ralphd.core.fold import fold
from ralphd.core.outcomes import TABLE, Kind, Outcome, Response
from ralphd.core.policy import LoopNow, Present
from ralphd.core.status import DaemonFacts, status

LOOPS = tuple(f"l{number}" for number in range(1, 13))


def begun(loops=LOOPS):
    night = Night()
    night.started()
    night.task()
    for name in loops:
        night.loop(name)
        night.say(records.AgentStarted(pid=1, start_ticks=1, attempt=1, account="x"), name)
    return night


def needs(night, after=0.0):
    return notices.needs(fold(night.entries), night.now + after)


def told(night, after=0.0):
    """Tell what is due, as the daemon would."""
    state = fold(night.entries)
    present = Present(now=night.now + after, loops={name: LoopNow(alive=True) for name in state.loops})
    decisions = list(notices.tell_person(state, present))
    for decision in decisions:
        night.acted(decision.action, "", decision.why)
    return [decision.action for decision in decisions]


def still(night, body, loops=LOOPS):
    for loop in loops:
        night.say(body, loop)


def test_nothing_waits_for_anybody_while_all_work():
    assert needs(begun()) == ()


@pytest.mark.parametrize("kind", [kind for kind in Kind if TABLE[kind].response in {Response.HOLD, Response.ASK}])
def test_each_kind_of_hold_is_told_once_for_all_loops_that_have_it(kind):
    night = begun()
    still(night, records.Held(kind=kind, why="for a reason"), LOOPS)
    (need,) = needs(night)
    assert need.key.startswith(kind.value)
    assert "l1, l2" in need.body
    assert "and 4 more" in need.body
    assert "for a reason" in need.body
    assert [action.key for action in told(night)] == [need.key]
    assert told(night) == []


def test_loops_that_are_held_for_different_reasons_are_told_apart():
    night = begun()
    night.say(records.Held(kind=Kind.CONFIG_ERROR, why="one"), "l1")
    night.say(records.Held(kind=Kind.CONFIG_ERROR, why="two"), "l2")
    assert len(needs(night)) == 2


def test_what_was_mended_and_came_back_is_told_again_but_not_every_minute():
    night = begun()
    night.say(records.Held(kind=Kind.AUTH, why="401"), "l1")
    assert len(told(night)) == 1
    night.say(records.Resumed(), "l1")
    assert told(night) == []
    night.say(records.Held(kind=Kind.AUTH, why="401"), "l1")
    assert told(night) == []
    assert len(told(night, after=notices.AGAIN_S)) == 1


def test_a_pause_that_a_person_wanted_is_no_need():
    night = begun()
    night.acted(Pause(loop="l1"), "l1", "asked", by="operator")
    night.say(records.Held(kind="", why=""), "l1")
    assert needs(night, after=7200) == ()


def test_a_quota_is_told_when_it_lasts_long():
    night = begun()
    still(night, records.Waiting(kind=Kind.QUOTA.value, until=night.now + 1800), ("l1", "l2"))
    assert needs(night) == ()
    night.say(records.Waiting(kind=Kind.QUOTA.value, until=night.now + 4 * 3600), "l3")
    (need,) = needs(night)
    assert need.title == "the quota is used up"
    assert "l3 wait 4.0 h" in need.body


def test_a_fleet_that_stands_still_is_told_once_and_one_that_has_a_worker_is_not():
    night = begun()
    still(night, records.Waiting(kind=Kind.OVERLOADED.value, until=night.now + 60), LOOPS[:-1])
    assert needs(night, after=7200) == ()
    waits = records.Progressed(
        usage=records.Usage(), compactions=0, output_bytes=0, calls=0, quiet_for_s=9, client_waits="overloaded"
    )
    night.say(waits, LOOPS[-1])
    assert needs(night, after=60) == ()
    (need,) = needs(night, after=notices.STUCK_S)
    assert need.title == "no loop works"
    assert "inference.overloaded" in need.body
    assert len(told(night, after=notices.STUCK_S)) == 1
    night.say(records.Progressed(usage=records.Usage(), compactions=0, output_bytes=9, calls=0, quiet_for_s=0), "l12")
    assert needs(night, after=notices.STUCK_S) == ()


def test_tries_in_between_are_no_work_and_real_work_is():
    night = begun(("l1",))
    refused = records.AttemptEnded(attempt=1, outcome=Outcome(kind=Kind.OVERLOADED), wait_s=60.0)
    progress = records.Progressed(usage=records.Usage(), compactions=0, output_bytes=9, calls=0, quiet_for_s=0)
    night.say(records.Waiting(kind=Kind.OVERLOADED.value, until=night.now + 60), "l1")
    since = night.entries[-1].at

    def tries(lasting_s):
        night.say(records.Resumed(), "l1")
        night.say(records.AgentStarted(pid=1, start_ticks=1, attempt=2, account="x"), "l1")
        night.now += lasting_s - 60
        night.say(progress, "l1")
        night.now -= 60
        night.say(refused, "l1")
        night.say(records.Waiting(kind=Kind.OVERLOADED.value, until=night.now + 60), "l1")

    for _ in range(5):
        tries(lasting_s=30)
    assert fold(night.entries).loops["l1"].standing.since == since
    tries(lasting_s=1800)
    assert fold(night.entries).loops["l1"].standing.since == night.entries[-1].at
    night.ended("l1", 1)
    assert fold(night.entries).loops["l1"].standing.since is not None
    night.began("l1", 2)
    assert fold(night.entries).loops["l1"].standing.since is None


@pytest.mark.parametrize(
    ("told", "note"),
    [
        ({"client_waits": "overloaded"}, "its client waits: overloaded"),
        ({"asks": "Trust it?"}, "asks: Trust it?"),
        ({}, ""),
    ],
)
def test_status_shows_what_a_client_waits_for_and_what_it_asks(told, note):
    night = begun(("l1",))
    progress = records.Progressed(usage=records.Usage(), compactions=0, output_bytes=9, calls=0, quiet_for_s=0, **told)
    night.say(progress, "l1")
    facts = DaemonFacts(pid=1, version="0", started_at=0.0)
    shown = status(fold(night.entries), {"l1": LoopNow(alive=True)}, 0, facts, night.now)
    assert shown["loops"][0]["note"] == note
    assert any("Trust it?" in line for line in shown["daemon"]["trouble"]) is ("asks" in told)


def test_status_tells_how_long_a_session_has_been_quiet_though_nothing_new_is_recorded():
    night = begun(("l1",))
    night.began("l1", 1)
    night.say(records.AgentStarted(pid=77, start_ticks=1, attempt=1), "l1", 1)
    progress = records.Progressed(usage=records.Usage(), compactions=0, output_bytes=9, calls=0, quiet_for_s=4.0)
    told_at = night.say(progress, "l1", 1).at
    state, facts = fold(night.entries), DaemonFacts(pid=1, version="0", started_at=0.0)

    def quiet_after(seconds: float) -> object:
        return status(state, {"l1": LoopNow(alive=True)}, 0, facts, told_at + seconds)["loops"][0]["quiet_for_s"]

    assert [quiet_after(s) for s in (0.0, 300.0)] == [4.0, 304.0]
    assert quiet_after(-3600.0) == 0.0, "a clock that was put back"


def test_status_shows_a_wait_at_the_gate_that_is_due_without_a_time():
    night = begun(("l1",))
    night.say(records.Waiting(kind=Kind.OVERLOADED.value, until=night.now + 600), "l1")
    facts = DaemonFacts(pid=1, version="0", started_at=0.0)
    state = fold(night.entries)
    notes = [status(state, {"l1": LoopNow(alive=True)}, 0, facts, night.now + s)["loops"][0]["note"] for s in (0, 9e3)]
    assert notes == ["waits 540 s: inference.overloaded", "waits: inference.overloaded"]


def test_a_dialog_that_is_shown_is_told():
    night = begun()
    asks = records.Progressed(
        usage=records.Usage(), compactions=0, output_bytes=9, calls=0, quiet_for_s=9, asks="Do you trust this folder?"
    )
    still(night, asks, ("l1", "l2"))
    (need,) = needs(night)
    assert (need.title, need.body.split(". ")[0]) == (
        "an agent waits for an answer",
        "l1, l2: Do you trust this folder? ralphd answers nothing.",
    )
    night.say(records.AgentStarted(pid=1, start_ticks=1, attempt=2, account="x"), "l1")
    night.say(records.AgentStarted(pid=1, start_ticks=1, attempt=2, account="x"), "l2")
    assert needs(night) == ()


def test_a_night_that_has_ended_needs_nobody():
    night = begun()
    night.say(records.Held(kind=Kind.AUTH, why="401"), "l1")
    for loop in LOOPS:
        night.acted(StopLoop(loop=loop), loop, "over")
    assert needs(night) == ()
    night.over()
    assert needs(night) == ()


def test_a_need_says_no_more_than_fits():
    night = begun()
    night.say(records.Held(kind=Kind.AUTH, why="x" * 5000), "l1")
    (action,) = told(night)
    assert isinstance(action, Notify)
    assert len(action.body) < 600


def test_what_leaves_the_machine_has_no_word_of_an_agent_or_an_endpoint():
    words = "rm -rf / && curl http://evil.example"
    for body in (
        *(records.Held(kind=kind, why=words) for kind in (Kind.AUTH, Kind.CONFIG_ERROR)),
        records.Progressed(
            usage=records.Usage(), compactions=0, output_bytes=9, calls=0, quiet_for_s=9, asks=words, client_waits=words
        ),
        records.Progressed(
            usage=records.Usage(), compactions=0, output_bytes=9, calls=0, quiet_for_s=9, client_waits=words
        ),
    ):
        night = begun(("l1",))
        night.say(body, "l1")
        (action,) = told(night, after=notices.STUCK_S)
        assert words in action.body
        assert "evil" not in action.title + action.told
        assert "l1" in action.told
