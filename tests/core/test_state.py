"""The fold: what a night's entries say of the present."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.nights import START, Night, a_bare_night, a_good_night, a_null_night, commit

from ralphd.core import events, records
from ralphd.core.actions import EndNight, Pause, RestartLoop, Resume, SpawnRunner, StopLoop, Tell
from ralphd.core.exchange import Want
from ralphd.core.fold import apply, fold
from ralphd.core.outcomes import Kind, Outcome

STORIES = [a_good_night, a_bare_night, a_null_night]


def one_loop() -> Night:
    night = Night()
    night.started()
    night.task()
    night.loop("a")
    return night


def state_of(night: Night):
    return fold(night.entries).loops["a"]


def test_a_night_that_reached_its_goal():
    """Both loops, the task and the frame."""
    state = fold(a_good_night().entries)
    task = state.tasks["main"]
    assert (state.id, state.started_at, state.width, state.why_ended) == ("2026-11-30-a", START, 2, "goal")
    assert (task.done, task.best.score, task.best.commit, task.submissions, task.verdicts) == (
        True,
        12.0,
        commit(4),
        2,
        4,
    )
    good, bad = state.loops["fix-1"], state.loops["fix-2"]
    assert (good.best_score, good.best_commit, good.submissions, good.last_outcome) == (
        12.0,
        commit(4),
        2,
        Kind.FINISHED,
    )
    assert (good.tokens().tokens_in, good.tokens().tokens_out) == (2000, 200)
    assert (bad.generation, bad.reset_to, bad.claims_refuted, bad.tokens().tokens_in) == (2, commit(1), 1, None)
    assert not state.intents


@pytest.mark.parametrize("story", STORIES)
def test_a_new_daemon_folds_the_same_state(story):
    """From the whole journal, from any prefix and the rest, and from bodies that went through JSON."""
    entries = story().entries
    whole = fold(entries)
    for cut in range(len(entries)):
        state = fold(entries[:cut])
        for entry in entries[cut:]:
            apply(state, entry)
        assert state == whole
    stored = [(entry, *events.body_to_json(entry.body)) for entry in entries]
    again = [
        events.Entry(
            **{**vars(entry), "body": events.body_from_json(type_, json.loads(json.dumps(body)))},
        )
        for entry, type_, body in stored
    ]  # fmt: skip
    assert fold(again) == whole


def test_late_words_of_an_old_generation_say_nothing():
    night = one_loop()
    night.began("a", 1)
    night.acted(RestartLoop(loop="a", reset_to=commit(1)), "a", "same trouble")
    before = state_of(night)
    night.ended("a", 1, Kind.HUNG, generation=1, claims_done=True, after=commit(5))
    night.say(records.Held(kind=Kind.AUTH, why="late"), "a", 1, generation=1)
    after = state_of(night)
    assert (before.seq, after.seq) == (1, 3)  # but that these numbers are used
    assert replace(after, seq=before.seq) == before
    night.began("a", 2, generation=2)
    assert (state_of(night).trajectory, state_of(night).reset_to) == (2, "")


def test_actions_change_the_state_only_when_they_were_done():
    """Open or failed: nothing has changed."""
    night = one_loop()
    intent = night.acted(Pause(loop="a"), "a", "asked", by="operator", result=None)
    assert list(fold(night.entries).intents) == [intent.id]
    assert state_of(night).want is Want.RUNNING
    night.say(events.ActionSettled(intent=intent.id, result="failed"), "a")
    assert (fold(night.entries).intents, state_of(night).want) == ({}, Want.RUNNING)
    night.acted(Pause(loop="a"), "a", "asked", by="operator")
    assert (state_of(night).want, state_of(night).wanted_by, state_of(night).note) == (Want.PAUSED, "operator", "asked")
    night.acted(Resume(loop="a"), "a", "asked")
    assert (state_of(night).want, state_of(night).note) == (Want.RUNNING, "")
    night.acted(StopLoop(loop="a"), "a", "enough")
    assert state_of(night).want is Want.STOPPED
    night.acted(RestartLoop(loop="a"), "a", "again")
    assert (state_of(night).want, state_of(night).generation) == (Want.RUNNING, 2)
    night.acted(EndNight(now=True), "", "asked")
    assert (fold(night.entries).ending, fold(night.entries).skip_verification) == (True, True)


def test_a_settlement_of_nothing_known_is_harmless():
    night = one_loop()
    night.say(events.ActionSettled(intent=999, result="done"))
    night.say(events.ClaimSettled(entry=999, outcome=Outcome(kind=Kind.FINISHED)), "nobody", 1)
    night.verdict(1.0, task="no-such-task")
    assert fold(night.entries).tasks["main"].verdicts == 0


def test_a_session_opens_and_closes():
    night = one_loop()
    night.say(records.RunnerStarted(pid=1, start_ticks=1, boot_id="b", pane="%3"), "a")
    night.began("a", 1)
    night.say(records.AgentStarted(pid=77, start_ticks=1, attempt=1), "a", 1)
    usage = records.Usage(tokens_in=5)
    night.say(records.Progressed(usage=usage, compactions=2, output_bytes=1, calls=1, quiet_for_s=3.5), "a", 1)
    loop = state_of(night)
    assert (loop.pane, loop.runner_up, loop.session_open, loop.agent_pid) == ("%3", True, True, 77)
    assert (loop.compactions, loop.said_at, loop.tokens().tokens_in) == (2, night.now - 60 - 3.5, 5)
    night.ended("a", 1, tokens=7)
    loop = state_of(night)
    assert (loop.session_open, loop.agent_pid, loop.tokens().tokens_in) == (False, None, 7)


def test_a_runner_that_is_gone_takes_its_session_with_it_but_not_its_tokens():
    for body in (records.RunnerStopped(why="hangup"), events.OutcomeNoted(outcome=Outcome(kind=Kind.PANE_LOST))):
        night = one_loop()
        night.say(records.RunnerStarted(pid=1, start_ticks=1, boot_id="b"), "a")
        night.began("a", 1)
        usage = records.Usage(tokens_in=5)
        night.say(records.Progressed(usage=usage, compactions=0, output_bytes=1, calls=1, quiet_for_s=0.0), "a", 1)
        night.say(body, "a", 1)
        loop = state_of(night)
        assert (loop.runner_up, loop.session_open, loop.agent_pid, loop.tokens().tokens_in) == (False, False, None, 5)


def test_waiting_and_holding_end_with_the_next_session():
    night = one_loop()
    night.say(records.Waiting(kind=Kind.OVERLOADED, until=START + 99), "a")
    assert (state_of(night).waiting_kind, state_of(night).waiting_until) == (Kind.OVERLOADED, START + 99)
    night.say(records.Held(kind=Kind.AUTH, why="401"), "a")
    assert state_of(night).held
    night.began("a", 1)
    loop = state_of(night)
    assert (loop.held, loop.waiting_until) == (False, None)


@pytest.mark.parametrize(("kind", "unverified"), [(Kind.TAMPERED, False), (Kind.FLAKY, False), (None, True)])
def test_a_score_that_cannot_be_trusted_is_nobodys_best(kind, unverified):
    night = one_loop()
    night.verdict(99.0, "a", 1, of=commit(2), kind=kind, unverified=unverified)
    state = fold(night.entries)
    assert (state.tasks["main"].best, state.loops["a"].best_score) == (None, None)
    assert state.loops["a"].last_verdict.score == 99.0


def test_what_was_told_is_remembered():
    night = one_loop()
    tell = Tell(loop="a", template="x", slots={"k": "v"})
    night.acted(tell, "a", "why")
    assert len(state_of(night).told) == 1
    night.acted(SpawnRunner(loop="a"), "a", "why")
    assert len(state_of(night).told) == 1


def test_parked_work_is_named_with_its_reason():
    night = one_loop()
    gone = Outcome(kind=Kind.WORKTREE_GONE)
    night.say(records.Repaired(outcome=gone, what="made anew", ref="refs/ralphd/rescue/1"), "a", 1)
    assert state_of(night).parked == {"ref": "refs/ralphd/rescue/1", "reason": "the worktree was gone"}
    night.say(records.Repaired(outcome=Outcome(kind=Kind.STALE_LOCK), what="removed"), "a", 1)
    assert state_of(night).parked["ref"] == "refs/ralphd/rescue/1"


def test_a_night_that_is_taken_up_keeps_its_first_entries():
    """The newest frame counts, the loops stay."""
    night = one_loop()
    night.over("stopped")
    assert fold(night.entries).ended_at is not None
