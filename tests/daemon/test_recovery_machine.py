"""The daemon dies at any message of any night, as a machine of rules over a small world; what must hold, holds."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.underfire import UnderFire

from ralphd.core import events
from ralphd.core.exchange import Want
from ralphd.core.outcomes import Kind
from ralphd.core.policy import SPAWN_BACKOFF_MAX_S
from ralphd.daemon import tick

LOOPS = ("l1", "l2")
loops = st.sampled_from(LOOPS)
EXAMPLES = int(os.environ.get("RALPHD_TEST_EXAMPLES", "60"))  # 1,500 take some two minutes
kinds = st.sampled_from([Kind.NEXT, Kind.NOOP, Kind.EXITED, Kind.SIGNALLED])


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is on one thread: who waits for a stuck journal waits in vain."""
    monkeypatch.setattr(tick, "JOURNAL_PATIENCE_S", 0.0)


class Nights(RuleBasedStateMachine):
    """Rules are what may happen; after each, what must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.story = UnderFire(loops=len(LOOPS))

    @initialize(up=st.sampled_from([True, True, True, False]))
    def begins(self, up: bool) -> None:
        if up:
            self.all_goes_well()
            self.all_goes_well()

    @rule()
    def all_goes_well(self) -> None:
        """Some time in which everybody does their part."""
        self.story.clock.pass_time(1.0)
        self.story.make_pass()
        self.story.drain()
        for name in LOOPS:
            self.story.run_up(name)
            if name in self.story.runners:
                self.story.obey(name)
        self.story.make_pass()
        self.story.drain()

    def going(self) -> bool:
        return not self.story.daemon.gone

    @precondition(going)
    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.story.clock.pass_time(seconds)
        self.story.make_pass()

    @rule(steps=st.integers(1, 12), work_first=st.booleans())
    def some_steps(self, steps: int, work_first: bool) -> None:
        for _ in range(steps):
            self.story.one_step(work_first=work_first)

    @rule()
    def all_steps(self) -> None:
        self.story.drain()

    def _ended(self) -> bool:
        return bool(self.story.journal.bodies(events.NightEnded))

    @precondition(lambda self: not self._ended())
    @rule()
    def daemon_crashes(self) -> None:
        self.story.crash()

    @rule(name=loops)
    def runner_comes_up(self, name: str) -> None:
        self.story.run_up(name)

    @rule(name=loops)
    def runner_hears_its_order(self, name: str) -> None:
        if name in self.story.runners:
            self.story.obey(name)

    @rule(name=loops, kind=kinds, commits=st.booleans(), claims=st.booleans(), next_=st.booleans())
    def session_ends(self, name: str, kind: Kind, commits: bool, claims: bool, next_: bool) -> None:
        runner = self.story.runners.get(name)
        if runner is not None and runner.session:
            self.story.end_session(name, kind, commits=commits, claims=claims)
            if next_ and runner.want is Want.RUNNING:
                self.story.begin_session(name)

    @rule(name=loops)
    def runner_is_killed(self, name: str) -> None:
        if name in self.story.runners:
            self.story.kill_runner(name)

    @rule(name=loops)
    def person_closes_a_window(self, name: str) -> None:
        if name in self.story.runners:
            self.story.hang_up(name)

    @rule(what=st.sampled_from(["dies", "hangs", "mends", "mends"]))
    def tmux(self, what: str) -> None:
        if what == "dies":
            self.story.server_dies()
        else:
            self.story.panes.broken = "it hangs" if what == "hangs" else ""

    @precondition(going)
    @rule(
        verb=st.sampled_from(["pause", "resume", "restart"]),
        names=st.lists(loops, min_size=1, max_size=2, unique=True),
        more=st.booleans(),
    )
    def person_asks(self, verb: str, names: list[str], more: bool) -> None:
        self.story.wish(verb, loops=names, **({"clean": more} if verb == "restart" else {"now": more}))

    @precondition(going)
    @rule(names=st.lists(loops, max_size=1))
    def person_stops(self, names: list[str]) -> None:
        self.story.wish("stop", loops=names)

    @rule(stuck=st.booleans())
    def journal(self, stuck: bool) -> None:
        if stuck:
            self.story.journal.stuck = "disk full"
        else:
            self.story.journal.unstick()

    @invariant()
    def holds(self) -> None:
        self.story.must_hold()

    def teardown(self) -> None:
        """Everything is mended; the night comes to rest as everybody wants it."""
        story = self.story
        story.journal.unstick()
        story.panes.broken = ""
        if story.daemon.gone and not self._ended():
            story.crash()
        for _ in range(12):
            story.clock.pass_time(SPAWN_BACKOFF_MAX_S)
            story.make_pass()
            story.drain()
            for name in LOOPS:
                story.run_up(name)
                if name in story.runners:
                    story.obey(name)
        state = story.night.state
        if self._ended():
            assert not story.runners
            assert_one_end(story)
            return
        story.must_hold_at_rest(
            [name for name, loop in state.loops.items() if loop.want is not Want.STOPPED and not _sleeps(story, name)]
        )
        for name, runner in story.runners.items():
            assert runner.want is state.loops[name].want
            # a session may be of the one before: an order to cut it that a newer order overtook is not read
            assert story.folders.assignments[f"/f/{name}"].generation == state.loops[name].generation


def _sleeps(story: UnderFire, name: str) -> bool:
    """A paused loop need not have a runner: it may have died since."""
    return story.loop_state(name).want is Want.PAUSED


def assert_one_end(story: UnderFire) -> None:
    assert len(story.journal.bodies(events.NightEnded)) == 1


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Nights,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_daemon_that_dies_at_any_message_loses_and_doubles_nothing() -> None:
    run(EXAMPLES, 40)
