"""A night over clocks that jump and a machine that sleeps: nobody is ended for it, and it is told once.

Both are simulated by the daemon's own clocks, of which the one counts a suspend and the other does not; no machine slept.
"""

from __future__ import annotations

import random

import pytest
from support.stories import NIGHT, Story

from ralphd.core import events, records
from ralphd.core.fold import fold
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.report import report, to_json
from ralphd.daemon.recover import note_reboot

HOUR, DAY = 3600.0, 86_400.0
TO_2038 = 2_147_483_648.0 - 1_800_000_000.0
JUMPS = (HOUR, -HOUR, DAY, -DAY, TO_2038, -600.0)


class Clocks(Story):
    """A story of a night by duration (``for_s``) or by the wall's clock."""

    def __init__(self, *, loops: int = 2, for_s: float | None = None, ends_in_s: float | None = None) -> None:
        super().__init__(loops=loops, ends_in_s=ends_in_s if for_s is None else for_s)
        if for_s is not None:
            first = self.journal.stored[0]
            assert isinstance(first.body, events.NightStarted)
            started = events.NightStarted(width=loops, ends_at=first.body.ends_at, version="0", config={}, for_s=for_s)
            self.journal.stored[0] = events.Entry(at=first.at, night=NIGHT, id=first.id, body=started)
            self.start_daemon()

    def undisturbed(self) -> bool:
        return all(set(self.orders(name)) <= {"running"} for name in self.night.state.loops)

    def kinds(self) -> list[Kind]:
        found = (events.outcome_of(entry.body) for entry in self.journal.stored)
        return [outcome.kind for outcome in found if outcome is not None]

    def tells_of_a_gap(self, name: str, seconds: float) -> None:
        outcome = Outcome(kind=Kind.SUSPENDED, detail={"seconds": seconds})
        self.tell(name, records.Repaired(outcome=outcome, what="nobody could work"), 1, "n1")


@pytest.mark.parametrize("seed", range(30))
def test_a_jump_of_the_clock_ends_nobody_and_moves_no_end(seed: int) -> None:
    """One row a jump, no loop stopped or spawned anew, the night as long as it was to be, no hour negative."""
    dice = random.Random(seed)
    jumps = [*dice.sample(JUMPS, k=dice.randint(1, 3))]
    story = Clocks(loops=3, for_s=1000.0)
    begun = story.clock.monotonic()
    story.begin()
    for jump in jumps:
        for _ in range(dice.randint(3, 40)):
            story.step()
        story.clock.jump(jump)
        story.step()
        assert not story.night.state.ending
    assert story.kinds().count(Kind.CLOCK_JUMP) == len(jumps)
    assert len(story.intents("SpawnRunner")) == 3
    assert story.undisturbed()
    while not story.night.state.ending:
        story.step(5)
    assert 1000.0 <= story.clock.monotonic() - begun <= 1010.0
    made = to_json(report(story.journal.stored, story.clock.now()))
    assert made["totals"]["hours"] == pytest.approx(1000 / 3600, abs=0.005)  # type: ignore[index,call-overload]
    status = story.ask("status")[0]["data"]
    assert status["fleet"]["submissions_per_h"] is not None  # type: ignore[index,call-overload]


def test_an_end_by_the_clock_on_the_wall_follows_that_clock() -> None:
    story = Clocks(ends_in_s=7200.0)
    story.begin()
    story.clock.jump(HOUR)
    story.step()
    assert not story.night.state.ending
    story.clock.jump(HOUR)
    story.step()
    assert story.night.state.ending


def test_a_message_that_comes_right_after_a_jump_ends_no_night() -> None:
    """Between two passes the daemon decides upon what was stored: the jump must be seen before that."""
    story = Clocks(for_s=1000.0)
    story.begin()
    story.clock.jump(DAY)
    story.night.advance()
    story.drain()
    assert not story.night.state.ending
    assert story.kinds().count(Kind.CLOCK_JUMP) == 1


def test_a_jump_is_remembered_by_the_next_daemon() -> None:
    story = Clocks(for_s=1000.0)
    story.begin()
    story.clock.jump(DAY)
    story.step()
    story.start_daemon()
    story.step()
    assert not story.night.state.ending
    assert fold(story.journal.stored).ends_at == pytest.approx(1_800_000_000.0 + 1000 + DAY)


def test_a_window_that_opened_before_the_clock_went_back_is_waited_for_no_longer_than_before() -> None:
    story = Clocks(loops=1, for_s=100_000.0)
    story.step()
    assert len(story.intents("SpawnRunner")) == 1
    story.clock.jump(-DAY)
    for _ in range(150):
        story.step()
    assert len(story.intents("SpawnRunner")) >= 2


@pytest.mark.parametrize("seconds", [1800.0, 2 * DAY])
def test_a_suspended_machine_is_one_row_for_the_fleet(seconds: float) -> None:
    """Every runner tells of it, the journal holds it once; nobody is called hung."""
    story = Clocks(loops=4, ends_in_s=10 * DAY)
    story.begin()
    story.clock.suspend(seconds)
    for name in story.night.state.loops:
        story.tells_of_a_gap(name, seconds - 1)
    for _ in range(5):
        story.step()
    assert story.kinds().count(Kind.SUSPENDED) == 1
    assert Kind.CLOCK_JUMP not in story.kinds()
    assert len(story.intents("SpawnRunner")) == 4
    assert story.undisturbed()


def test_a_gap_that_the_journal_has_is_no_second_row_to_a_new_daemon() -> None:
    """It reads the runners' words on the gap again, or for the first time; each loop's own record stays in its file."""
    story = Clocks(loops=3, ends_in_s=DAY)
    story.begin()
    story.clock.suspend(1800.0)
    story.tells_of_a_gap("l1", 1799.0)
    story.step()
    story.start_daemon()
    for name in story.night.state.loops:
        story.tells_of_a_gap(name, 1799.0)
    story.step()
    assert story.kinds().count(Kind.SUSPENDED) == 1
    assert to_json(report(story.journal.stored, story.clock.now()))["outcomes"]["host.suspended"] == 1  # type: ignore[index,call-overload]
    assert story.night.state == fold(story.journal.stored)


def test_a_suspend_over_the_end_ends_the_night_on_waking() -> None:
    """A night of so many hours counts those that the machine slept: a person waits for them all the same."""
    for story in (Clocks(for_s=1000.0), Clocks(ends_in_s=1000.0)):
        story.begin()
        story.clock.suspend(2000.0)
        story.step()
        assert story.night.state.ending


def test_a_daemon_that_was_stopped_says_so_and_ends_nobody() -> None:
    """SIGSTOP for ten minutes."""
    story = Clocks(for_s=10_000.0)
    story.begin()
    story.step(600.0)
    assert story.kinds() == [Kind.SUSPENDED]
    assert story.undisturbed()


def test_a_reboot_is_told_once_however_often_daemons_come_before_a_runner_does() -> None:
    story = Clocks()
    story.begin()  # its runners are of boot "b"
    for boot in ("b", "c", "c"):
        story.start_daemon()
        note_reboot(story.night, boot)
        story.drain()
    assert story.kinds() == [Kind.REBOOTED]


def test_one_loop_that_was_stopped_is_told_as_that_loops() -> None:
    story = Clocks()
    story.begin()
    story.tells_of_a_gap("l1", 40.0)
    story.step()
    for _ in range(100):
        story.step()
    story.tells_of_a_gap("l2", 300.0)
    story.step()
    told = [e.loop for e in story.journal.stored if isinstance(e.body, records.Repaired)]
    assert told == ["l1", "l2"]
