"""What a daemon that died, froze or was slow leaves behind, and how the next pass or the next daemon takes it up."""

from __future__ import annotations

import time

import pytest
from support.invariants import assert_one_outcome_each
from support.stories import BASE, Story
from support.underfire import UnderFire

from ralphd.core import actions, events, records
from ralphd.core.actions import Decision
from ralphd.core.exchange import Want
from ralphd.core.model import Loop
from ralphd.core.outcomes import Kind
from ralphd.core.policy import SPAWN_PATIENCE_S
from ralphd.daemon.tick import Night
from ralphd.ports import Told


def under_fire(loops: int = 1) -> UnderFire:
    """A night whose loops run, each in its first session."""
    story = UnderFire(loops=loops)
    story.make_pass()
    story.drain()
    for name in story.night.state.loops:
        story.run_up(name)
    story.make_pass()
    story.drain()
    return story


def test_a_session_that_begins_and_ends_while_the_journal_is_stuck_is_recorded() -> None:
    story = Story(loops=1)
    story.begin()
    story.session_ends("l1", 1)
    story.step()
    story.journal.stuck = "disk full"
    story.session_starts("l1", 2)
    story.step()
    story.session_ends("l1", 2)
    story.step()
    story.journal.unstick()
    story.drain()
    assert len(story.journal.bodies(records.TrajectoryEnded)) == 2


def test_the_last_session_before_a_restart_is_recorded_though_the_daemon_dies() -> None:
    story = UnderFire(loops=1)
    story.make_pass()
    story.drain()
    story.run_up("l1")  # its first session is not heard of yet
    story.wish("restart", loops=["l1"])
    story.drain()
    story.make_pass()
    story.drain()
    story.crash()
    story.obey("l1")
    story.make_pass()
    story.drain()
    assert [body.outcome.kind for body in story.journal.bodies(records.TrajectoryEnded)] == [Kind.STOPPED]


def test_records_of_one_loop_that_cannot_be_read_cost_no_other_loop_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(loops=2)
    story.begin()
    told = story.folders.told

    def broken(loop: Loop, night: str, after_seq: int) -> Told:
        if loop.id == "l2":
            raise OSError("input/output error")
        return told(loop, night, after_seq)

    monkeypatch.setattr(story.folders, "told", broken)
    story.session_ends("l1", 1)
    story.daemon._safely(story.daemon._pass)
    story.drain()
    assert len(story.journal.bodies(records.TrajectoryEnded)) == 1


def test_what_was_heard_is_kept_though_the_look_after_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(loops=1)
    story.begin()

    def broken(*_args: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(story.repositories, "heads", broken)
    story.session_ends("l1", 1)
    story.daemon._safely(story.daemon._pass)
    story.drain()
    assert len(story.journal.bodies(records.TrajectoryEnded)) == 1


def test_a_restart_that_its_runner_took_up_before_it_was_settled_is_one_restart() -> None:
    story = under_fire()
    story.wish("restart", loops=["l1"])
    story.one_step()  # the intent is stored, the assignment and the order are written; it is not settled
    story.obey("l1")  # and the runner is quick
    story.make_pass()
    story.drain()
    assert story.runners["l1"].generation == 2
    assert story.loop_state("l1").generation == 2


def test_a_restart_under_way_when_the_daemon_dies_is_one_restart() -> None:
    story = under_fire(loops=2)
    story.wish("restart", loops=["l1", "l2"])
    story.one_step()
    for name in ("l1", "l2"):
        story.obey(name)
    story.crash()
    story.one_step()
    story.make_pass()
    story.drain()
    assert {loop.generation for loop in story.night.state.loops.values()} == {2}
    assert {folder.generation for folder in story.folders.assignments.values()} == {2}


@pytest.mark.parametrize(("verb", "want"), [("pause", Want.PAUSED), ("stop", Want.STOPPED)])
@pytest.mark.parametrize("asked_first", [True, False])
def test_what_a_person_asks_while_a_runner_is_being_spawned_holds(verb: str, want: Want, *, asked_first: bool) -> None:
    story = UnderFire(loops=1)
    if asked_first:
        story.wish(verb, loops=["l1"])
    story.make_pass()
    while story.one_step() and not story.work:
        pass
    if not asked_first:
        story.wish(verb, loops=["l1"])
        while not story.inbox.empty():
            story.daemon._handle(story.inbox.get())  # the order is written before the slow spawn is
    story.drain()
    orders = story.folders.orders["/f/l1"]
    assert orders[-1].want is want
    assert orders == sorted(orders, key=lambda order: order.serial)


def test_a_window_that_the_dead_daemon_had_just_opened_gets_its_time() -> None:
    story = UnderFire(loops=1)
    story.make_pass()
    story.drain()
    assert "l1" in story.panes.windows
    story.crash()
    for _ in range(3):
        story.clock.pass_time(1)
        story.make_pass()
        story.drain()
    assert len(story.intents("SpawnRunner")) == 1
    story.clock.pass_time(SPAWN_PATIENCE_S)
    story.make_pass()
    story.drain()
    assert len(story.intents("SpawnRunner")) == 2


def test_a_new_daemon_decides_nothing_before_it_has_looked() -> None:
    """Its first message may come before its first pass, and then every loop would seem dead."""
    story = under_fire(loops=2)
    story.crash()
    story.drain()
    story.must_hold()
    assert len(story.intents("SpawnRunner")) == 2
    assert Kind.PANE_LOST not in noted(story)


def test_a_spawn_that_was_only_intended_is_made_up_for_at_once() -> None:
    story = UnderFire(loops=1)
    story.make_pass()
    story.one_step()
    assert not story.panes.windows
    story.crash()
    story.make_pass()
    story.drain()
    assert "l1" in story.panes.windows


def test_taking_up_a_night_that_was_ending_keeps_nobody_waiting() -> None:
    story = under_fire()
    story.wish("stop")
    story.drain()
    story.obey("l1")
    story.crash()
    story.ready.clear()
    story.make_pass()
    assert "was ending" in story.ready[0]


def test_an_action_that_breaks_leaves_none_after_it_undone() -> None:
    story = Story(loops=2)
    story.begin()

    def broken(*_args: object) -> None:
        raise KeyError("no such template")

    write = story.folders.order
    story.folders.order = lambda folder, order: broken() if folder == "/f/l1" else write(folder, order)  # type: ignore[method-assign]
    story.ask("pause", loops=["l1", "l2"])
    assert story.loop_state("l2").want is Want.PAUSED
    assert story.loop_state("l1").want is Want.RUNNING
    assert not story.night.state.intents


def test_sessions_of_512_loops_that_end_at_once_are_told_once_each_and_at_little_cost() -> None:
    story = Story(loops=512)
    story.begin()
    for name in story.night.state.loops:
        story.session_ends(name, 1, Kind.EXITED)
    before_s = time.process_time()
    story.step()
    story.step()
    cpu_s = time.process_time() - before_s
    ended = [entry.loop for entry in story.journal.stored if isinstance(entry.body, records.TrajectoryEnded)]
    assert len(ended) == 512
    assert sorted(ended) == sorted(story.night.state.loops)
    assert cpu_s < 60.0, "a minute of a processor at most, whatever else the machine does"
    assert_one_outcome_each(story.journal.stored, at_rest=True)


# ------------------------------------------------------------------ time in which nothing was seen


def noted(story: Story) -> list[Kind]:
    return [body.outcome.kind for body in story.journal.bodies(events.OutcomeNoted)]


@pytest.mark.parametrize("gap_s", [60.0, 600.0, 12 * 3600.0])
def test_a_frozen_daemon_notes_the_gap_once_and_ends_nothing(gap_s: float) -> None:
    story = Story(loops=2)
    story.begin()
    story.step()
    story.step(gap_s)
    story.step()
    assert noted(story) == [Kind.SUSPENDED]
    assert len(story.intents("SpawnRunner")) == 2
    assert {loop.want for loop in story.night.state.loops.values()} == {Want.RUNNING}


@pytest.mark.parametrize("jump_s", [-86400.0, -600.0, 3600.0, 86400.0])
def test_a_clock_that_jumps_is_noted_once_and_ends_nothing(jump_s: float) -> None:
    story = Story(loops=2)
    story.begin()
    story.step()
    story.clock.jump(jump_s)
    story.step()
    story.step()
    assert noted(story) == [Kind.CLOCK_JUMP]
    assert len(story.intents("SpawnRunner")) == 2


# ------------------------------------------------------------------ the check itself


def act_first(night: Night, decisions: list[Decision]) -> None:
    """What must never be: the effect, and then its intent."""
    decisions = list(decisions)
    night.doer.act(night.state, [(night.state.last_id + 1 + n, d.action) for n, d in enumerate(decisions)])
    night.record([night._intent(decision) for decision in decisions])


@pytest.mark.parametrize(
    "action",
    [
        actions.Pause(loop="l1"),
        actions.RestartLoop(loop="l1", reset_to=BASE),
        actions.Tell(loop="l1", template="repair-worktree", slots={}),
        actions.SpawnRunner(loop="l1"),
    ],
    ids=lambda action: type(action).__name__,
)
def test_an_effect_before_its_intent_is_caught(action: actions.Action, monkeypatch: pytest.MonkeyPatch) -> None:
    story = under_fire()
    if isinstance(action, actions.SpawnRunner):
        story.kill_runner("l1")
    story.night.intend([Decision(action=action, why="so")])
    story.drain()  # in the right order nobody complains
    story.must_hold()
    monkeypatch.setattr(Night, "intend", act_first)
    story.night.intend([Decision(action=action, why="so")])
    story.drain()
    with pytest.raises(AssertionError, match="without an intent in the journal"):
        story.must_hold()


def test_what_an_order_wanted_once_is_in_those_that_overtake_it_too() -> None:
    """A runner reads the newest order alone; the session that a restart ends must not run on for a word that came after."""
    story = under_fire()
    story.begin()
    story.wish("restart", loop="l1")
    story.drain()
    story.wish("resume", loop="l1")
    story.drain()
    restart, resume = story.folders.orders["/f/l1"][-2:]
    assert (restart.now, resume.now) == (True, False)
    assert restart.now_at == resume.now_at == restart.serial
    assert resume.retry_at == resume.serial


def test_what_an_order_wanted_once_outlives_the_daemon_that_gave_it() -> None:
    """The old daemon's last order may be unread when the new one's first takes its place."""
    story = under_fire()
    story.wish("restart", loops=["l1"])
    story.drain()
    (restart,) = [order for order in story.folders.orders["/f/l1"] if order.now]
    story.crash()
    story.drain()
    story.wish("resume", loops=["l1"])
    story.drain()
    resume = story.folders.orders["/f/l1"][-1]
    assert (resume.want, resume.now) == (Want.RUNNING, False)
    assert resume.serial > restart.serial
    assert resume.now_at == restart.serial
    assert resume.retry_at == resume.serial
