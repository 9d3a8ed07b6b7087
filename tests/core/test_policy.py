"""What is decided from what is known, and what may be asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.nights import START, Night, a_bare_night, a_good_night, a_null_night, commit

from ralphd.core import actions, events, policy, records
from ralphd.core.actions import EndNight, Pause, RestartLoop, Resume, SpawnRunner, StopLoop, Tell, Verify
from ralphd.core.fold import fold
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.policy import Head, LoopNow, Present, conclude, decide, vet


def begun(*, command: str = "pytest -q", goal: float | None = None, loops: tuple[str, ...] = ("a", "b")) -> Night:
    """A night of two loops whose base has been judged: 7."""
    night = Night()
    night.started()
    night.task(command=command, goal=goal)
    for name in loops:
        night.loop(name)
        night.say(records.RunnerStarted(pid=1, start_ticks=1, boot_id="b"), name)
    if command:
        night.verdict(7.0)
    return night


def now(night: Night, *, at: float = START + 60, in_flight=(), **loops: LoopNow) -> tuple:
    """The folded state and a moment in which every loop lives, but for those that are given."""
    state = fold(night.entries)
    seen = {name: loops.get(name, LoopNow(alive=True)) for name in state.loops}
    return state, Present(now=at, loops=seen, in_flight=frozenset(in_flight))


def decided(night: Night, **moment) -> list[actions.Action]:
    return [decision.action for decision in decide(*now(night, **moment))]


DEAD = LoopNow()


def test_a_new_night_spawns_its_runners_and_measures_its_base():
    night = Night()
    night.started()
    night.task()
    night.loop("a")
    spawn, verify = decided(night, a=DEAD)
    assert spawn == SpawnRunner(loop="a")
    assert isinstance(verify, Verify)
    assert (verify.candidate.loop, verify.candidate.commit) == ("", commit(1))


def test_without_a_verifier_nothing_is_verified():
    assert decided(begun(command="")) == []
    ((loop, body),) = conclude(
        *now(begun(command="", loops=("a",)), a=LoopNow(alive=True, head=Head(commit=commit(2), tree="t")))
    )
    assert loop == "a"
    assert isinstance(body, events.VerdictGiven)
    assert (body.verdict.unverified, body.submission) == (True, False)


def test_what_is_in_flight_is_not_decided_again():
    assert decided(begun(), a=DEAD) == [SpawnRunner(loop="a")]
    assert decided(begun(), a=DEAD, in_flight={"SpawnRunner a"}) == []


def test_a_runner_that_shows_no_life_is_spawned_ever_more_slowly():
    """20 s after the first, 40 s after the second, never more than a minute."""
    for spawns, wait in ((1, 20), (2, 40), (3, 60), (50, 60)):
        seen = LoopNow(spawns=spawns, spawned_at=START)
        assert decided(begun(), at=START + wait - 1, a=seen) == []
        assert decided(begun(), at=START + wait, a=seen) == [SpawnRunner(loop="a")]


def test_a_night_ends_when_its_time_is_up_or_its_tasks_are_done():
    night = begun(goal=9.0)
    assert decided(night, at=START + 8 * 3600) == [EndNight()]
    night.verdict(9.0, "a", 1, of=commit(2), passed=True, submission=True)
    assert decided(night) == [EndNight(), StopLoop(loop="a", now=True), StopLoop(loop="b", now=True)]


def test_a_night_that_is_over_spawns_nobody_before_it_ends():
    """Its machine was down until after its time: it is closed, not begun again."""
    night = Night()
    night.started(ends_at=START + 50)
    night.task()
    night.loop("a")
    assert EndNight() in decided(night, a=DEAD)
    assert SpawnRunner(loop="a") not in decided(night, a=DEAD)


def test_an_ending_night_stops_its_loops_and_spawns_none():
    night = begun()
    night.acted(EndNight(), "", "asked", by="operator")
    assert decided(night, a=DEAD) == [StopLoop(loop="a", now=True), StopLoop(loop="b", now=True)]
    night.acted(StopLoop(loop="a", now=True), "a", "the night ends")
    night.acted(StopLoop(loop="b", now=True), "b", "the night ends")
    assert decided(night, a=DEAD) == []
    night.over()
    assert decided(night, a=DEAD) == []


def test_a_closed_window_is_a_persons_wish():
    """The loop is paused, not brought back; when the whole server went it was nobody's wish."""
    night = begun()
    night.say(records.RunnerStopped(why="SIGHUP: the pane was closed"), "a")
    (decision,) = decide(*now(night, a=DEAD))
    assert (decision.action, decision.by) == (Pause(loop="a", now=True), "operator")
    assert "ralphd resume a" in decision.why
    assert decided(night, a=replace(DEAD, server_lives=False)) == [SpawnRunner(loop="a")]


def test_a_refused_credential_holds_every_loop():
    night = begun()
    night.say(records.Held(kind=Kind.AUTH, why="401"), "a")
    told, pause = decided(night)
    assert pause == Pause(loop="b")
    assert (told.title, told.body) == ("the credential is refused", "a: 401. Mend it, then `ralphd resume`.")


def test_a_refused_credential_holds_no_loop_of_another_account():
    night = begun(loops=("a", "b", "c", "d"))
    for loop, account in (("a", "x"), ("b", "x")):
        night.say(records.AgentStarted(pid=1, start_ticks=1, attempt=1, account=account), loop)
    night.say(records.RunnerStarted(pid=1, start_ticks=1, boot_id="b", account="y"), "c")  # it runs no agent yet
    night.say(records.Held(kind=Kind.AUTH, why="401"), "a")
    assert [one.loop for one in decided(night) if isinstance(one, Pause)] == ["b", "d"]  # of d nothing is known yet


def test_new_heads_and_what_sessions_left_are_verified_once():
    """A commit whose tree was judged already gets its verdict without a run."""
    night = begun()
    head = Head(commit=commit(2), tree="t2")
    (verify,) = decided(night, a=LoopNow(alive=True, head=head))
    assert (verify.candidate.loop, verify.candidate.tree) == ("a", "t2")
    night.ended("b", 1, after=commit(3))
    (left,) = decided(night)
    assert (left.candidate.loop, left.candidate.commit) == ("b", commit(3))
    night.verdict(8.0, "b", 1, of=commit(3), submission=True)
    assert decided(night) == []
    same = LoopNow(alive=True, head=Head(commit=commit(4), tree=commit(3)[::-1]))
    assert decided(night, a=same) == []
    ((loop, body),) = conclude(*now(night, a=same))
    assert (loop, body.verdict.commit, body.verdict.score, body.submission) == ("a", commit(4), 8.0, True)


def test_a_head_that_is_the_base_is_nothing_to_judge():
    seen = LoopNow(alive=True, head=Head(commit=commit(1), tree=commit(1)[::-1]))
    assert decided(begun(), a=seen) == []
    assert list(conclude(*now(begun(), a=seen))) == []


@pytest.mark.parametrize(
    ("passed", "kind", "settled"),
    [(True, None, Kind.FINISHED), (False, None, Kind.FALSE_DONE), (True, Kind.TAMPERED, Kind.FALSE_DONE)],
)
def test_a_claim_is_settled_by_the_verdict(passed, kind, settled):
    night = begun(goal=9.0)
    claim = night.ended("a", 1, claims_done=True, after=commit(2))
    assert [action.candidate.commit for action in decided(night)] == [commit(2)]
    night.verdict(9.0, "a", 1, of=commit(2), passed=passed, kind=kind)
    ((loop, body),) = conclude(*now(night))
    assert (loop, body.entry, body.outcome.kind) == ("a", claim.id, settled)


def test_a_claim_about_the_base_is_settled_at_once():
    night = begun(goal=9.0)
    night.ended("a", 1, claims_done=True)
    ((_, body),) = conclude(*now(night))
    assert body.outcome.kind is Kind.FALSE_DONE


def test_a_refuted_claim_is_told_to_the_loop_once():
    night = begun(goal=9.0)
    claim = night.ended("a", 1, claims_done=True, after=commit(2))
    night.verdict(7.0, "a", 1, of=commit(2))
    night.say(events.ClaimSettled(entry=claim.id, outcome=Outcome(kind=Kind.FALSE_DONE)), "a", 1)
    (tell,) = decided(night)
    assert isinstance(tell, Tell)
    assert (tell.loop, tell.template) == ("a", "repair-false-done")
    night.acted(tell, "a", "its claim was refuted")
    assert decided(night) == []


def test_tampering_is_told_to_the_loop_once():
    night = begun()
    night.verdict(99.0, "a", 1, of=commit(2), kind=Kind.TAMPERED)
    (tell,) = decided(night)
    assert tell.template == "repair-tampered"
    night.acted(tell, "a", "x")
    assert decided(night) == []


@pytest.mark.parametrize("told_where", [True, False], ids=["by-this-runner", "by-an-older-runner"])
def test_parked_work_is_told_once_however_far_the_loop_gets_after_it(told_where):
    """And the commit in the note is where the worktree was set back to, not what the loop has built since."""
    night = begun()
    night.verdict(8.0, "a", 1, of=commit(2))
    name, args = events.action_to_json(RestartLoop(loop="a", reset_to=commit(2)))
    night.say(events.ActionIntended(type=name, args=args, why="asked", by="operator"), "a", generation=2)
    clean = Outcome(kind=Kind.STOPPED)
    head = commit(2) if told_where else ""
    parked = records.Repaired(outcome=clean, what="begins again", ref="refs/ralphd/rescue/1", head=head)
    night.say(parked, "a", 2, generation=2)
    (tell,) = decided(night)
    assert (tell.template, tell.slots["commit"]) == ("repair-worktree", commit(2)[:12])
    night.acted(tell, "a", "work of it was parked")
    night.verdict(9.0, "a", 3, of=commit(3))
    assert decided(night) == []


def test_a_runner_that_left_no_word_gets_a_typed_end():
    for up, kind in ((True, Kind.PANE_LOST), (False, Kind.SERVER_LOST)):
        ((loop, body),) = conclude(*now(begun(), a=replace(DEAD, server_lives=up)))
        assert (loop, body.outcome.kind) == ("a", kind)


def test_what_may_be_asked_for():
    """A refusal says why; an unknown loop is named with those that are known."""
    night = begun()
    night.acted(StopLoop(loop="b", now=True), "b", "asked")
    state = fold(night.entries)
    for fine in (
        Pause(loop="a"),
        Resume(loop="a"),
        Resume(loop="b"),
        RestartLoop(loop="b"),
        StopLoop(loop="a"),
        EndNight(),
    ):
        assert vet(state, fine) == ""
    assert "b has been stopped" in vet(state, Pause(loop="b"))
    assert "b has been stopped" in vet(state, StopLoop(loop="b"))
    assert vet(state, Pause(loop="c")) == "no loop named 'c'; there are: a, b"
    night.acted(EndNight(), "", "asked")
    assert vet(fold(night.entries), Resume(loop="a")) == "the night is ending"
    night.over()
    assert vet(fold(night.entries), EndNight()) == "the night has ended"


@pytest.mark.parametrize("story", [a_good_night, a_bare_night, a_null_night])
@pytest.mark.parametrize("alive", [True, False])
def test_at_every_moment_of_a_night_something_sane_is_decided(story, alive):
    """No accident, no key twice, nothing that is in flight, nothing that the same policy would refuse."""
    entries = story().entries
    for length in range(1, len(entries) + 1):
        state = fold(entries[:length])
        flying = frozenset({"SpawnRunner fix-1"})
        head = Head(commit=commit(9), tree="t9")
        present = Present(
            now=START, loops=dict.fromkeys(state.loops, LoopNow(alive=alive, head=head)), in_flight=flying
        )
        keys = [actions.key(decision.action) for decision in decide(state, present)]
        assert len(keys) == len(set(keys))
        assert not flying.intersection(keys)
        assert all(policy.vet(state, decision.action) == "" for decision in decide(state, present))
        assert all(loop in state.loops for loop, _ in conclude(state, present))
