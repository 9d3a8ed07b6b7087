"""The daemon over whole nights, told as stories: what is seen, recorded, decided and done, in which order."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stories import BASE, Story

from ralphd.core import events, records
from ralphd.core.errors import ConfigError, JournalError
from ralphd.core.exchange import Order, Want
from ralphd.core.fold import fold
from ralphd.core.model import Verifier
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.policy import SPAWN_PATIENCE_S, Head
from ralphd.daemon.act import SPREAD_S, STEP_S, spread
from ralphd.daemon.inbox import Rang
from ralphd.daemon.recover import recover

GOOD, BETTER, BAD = "1" * 40, "2" * 40, "3" * 40


def test_a_night_starts_every_loop_once() -> None:
    story = Story(loops=3)
    story.begin()
    story.step()
    assert sorted(story.panes.windows) == ["l1", "l2", "l3"]
    assert len(story.intents("SpawnRunner")) == 3
    assert story.ready == ["3 of 3 loops run"]


def test_nothing_is_done_before_its_intent_is_stored() -> None:
    story = Story()
    story.journal.stuck = "disk full"
    story.step()
    story.step()
    assert not story.panes.windows
    assert "disk full" in story.daemon.troubles["journal"]
    story.journal.unstick()
    story.drain()
    assert sorted(story.panes.windows) == ["l1", "l2"]


def test_every_intent_is_settled_exactly_once() -> None:
    story = Story()
    story.begin()
    story.will_say(GOOD, 1.0)
    story.session_ends("l1", 1, head=GOOD)
    story.step(5)
    intents = {e.id for e in story.journal.stored if isinstance(e.body, events.ActionIntended)}
    settled = [e.body.intent for e in story.journal.stored if isinstance(e.body, events.ActionSettled)]
    assert sorted(settled) == sorted(intents)


def test_the_base_is_judged_before_any_candidate() -> None:
    story = Story()
    story.begin()
    story.will_say(GOOD, 1.0)
    story.session_ends("l1", 1, head=GOOD)
    story.step(5)
    assert story.judge.asked[0] == BASE
    assert story.loop_state("l1").best_score == 1.0
    assert story.loop_state("l1").submissions == 1


def test_a_gain_is_believed_only_after_a_second_run() -> None:
    story = Story()
    story.begin()
    story.will_say(GOOD, 1.0, 0.2)
    story.session_ends("l1", 1, head=GOOD)
    story.step(5)
    verdict = story.loop_state("l1").last_verdict
    assert verdict is not None
    assert verdict.kind is Kind.FLAKY
    assert verdict.score == 0.2
    assert story.loop_state("l1").submissions == 0
    assert story.night.state.tasks["main"].best is None or story.night.state.tasks["main"].best.commit == BASE


def test_a_verification_that_is_cut_off_is_run_again_and_holds_nothing_against_the_commit() -> None:
    story = Story(loops=2)
    story.begin()
    cut = story.verdict("l1", GOOD, score=None, kind=Kind.VERIFY_FAILED, cut_off=True)
    good = story.verdict("l1", GOOD, score=1.0, passed=True)
    story.judge.verdicts[GOOD] = [cut, good, cut, good]
    story.session_ends("l1", 1, head=GOOD, claims=True)
    story.step(5)
    assert (story.loop_state("l1").best_score, story.loop_state("l1").claims_refuted) == (1.0, 0)
    kinds = [body.outcome.kind for body in story.journal.bodies(events.OutcomeNoted)]
    assert not {Kind.FLAKY, Kind.VERIFY_FAILED} & set(kinds)


def test_what_was_cut_off_twice_is_unknown_and_judged_later_and_nobody_is_told_that_it_was_refuted() -> None:
    story = Story()
    story.begin()
    cut = story.verdict("l1", GOOD, score=None, kind=Kind.VERIFY_FAILED, why="the guard was killed", cut_off=True)
    story.judge.verdicts[GOOD] = [cut]
    story.session_ends("l1", 1, head=GOOD, claims=True)
    for _ in range(20):
        story.step(5)
    loop = story.loop_state("l1")
    assert (loop.claims_refuted, loop.submissions, loop.judged) == (0, 0, set())
    assert not story.folders.notes.get("/f/l1")
    assert not story.journal.bodies(events.ClaimSettled)
    assert GOOD not in {body.verdict.commit for body in story.journal.bodies(events.VerdictGiven)}
    asked = story.judge.asked.count(GOOD)
    assert 4 <= asked <= 16  # later and later, and twice each time
    [noted] = [b.outcome for b in story.journal.bodies(events.OutcomeNoted) if b.outcome.kind is Kind.VERIFY_FAILED]
    assert noted.evidence[0].what == "the guard was killed"
    assert noted.detail["cut_off"] is True
    story.judge.verdicts[GOOD] = [story.verdict("l1", GOOD, score=1.0, passed=True)]
    story.step(900)
    story.step(5)
    assert story.loop_state("l1").best_score == 1.0
    assert [body.outcome.kind for body in story.journal.bodies(events.ClaimSettled)] == [Kind.FINISHED]


def test_a_verification_that_costs_much_and_is_cut_off_each_time_leaves_the_verifier_to_others() -> None:
    story = Story()
    story.begin()
    cut = story.verdict("l1", GOOD, score=None, kind=Kind.VERIFY_FAILED, seconds=600.0, cut_off=True)
    story.judge.verdicts[GOOD] = [cut]
    story.session_ends("l1", 1, head=GOOD, claims=True)
    for _ in range(180):
        story.step(60)
    assert 4 <= story.judge.asked.count(GOOD) <= 6  # an hour of runs in three, of one of its two slots


def test_a_second_run_that_is_cut_off_makes_no_verifier_flaky() -> None:
    story = Story()
    story.begin()
    good = story.verdict("l1", GOOD, score=1.0)
    cut = story.verdict("l1", GOOD, score=None, kind=Kind.VERIFY_FAILED, cut_off=True)
    story.judge.verdicts[GOOD] = [good, cut, cut, good]
    story.session_ends("l1", 1, head=GOOD)
    story.step(5)
    assert story.night.state.tasks["main"].doubted == 0
    story.step(60)
    assert (story.loop_state("l1").best_score, story.loop_state("l1").submissions) == (1.0, 1)


def test_a_start_that_could_not_be_judged_yet_is_shown_and_judged_later() -> None:
    story = Story()
    good = story.judge.verdicts[BASE]
    story.judge.verdicts[BASE] = [
        story.verdict("", BASE, score=None, kind=Kind.VERIFY_FAILED, why="disk full", cut_off=True)
    ]
    story.begin()
    story.step()
    [reply] = story.ask("status")
    [trouble] = reply["data"]["daemon"]["trouble"]  # type: ignore[index]
    assert "can't judge the start: disk full; it is tried again" in trouble
    story.judge.verdicts[BASE] = good
    story.step(60)
    base = story.night.state.tasks["main"].base
    assert base is not None
    assert base.score == 0.0
    [reply] = story.ask("status")
    assert not reply["data"]["daemon"]["trouble"]  # type: ignore[index]


def test_a_night_whose_last_work_cannot_be_judged_ends_all_the_same() -> None:
    story = Story(loops=1)
    story.begin()
    cut = story.verdict("l1", GOOD, score=None, kind=Kind.VERIFY_FAILED, cut_off=True)
    story.judge.verdicts[GOOD] = [cut]
    story.session_ends("l1", 1, head=GOOD, claims=True)
    story.step()
    story.ask("stop")
    finish(story)
    assert story.daemon.gone
    assert len(story.journal.bodies(events.NightEnded)) == 1
    assert not story.journal.bodies(events.ClaimSettled)


def test_a_claim_is_not_refuted_by_a_verifier_that_cannot_judge_even_the_start() -> None:
    story = Story()
    story.judge.verdicts[BASE] = [story.verdict("", BASE, score=None, kind=Kind.VERIFY_FAILED)]
    story.begin()
    story.judge.verdicts[GOOD] = [story.verdict("l1", GOOD, score=None, kind=Kind.VERIFY_FAILED)]
    story.session_ends("l1", 1, head=GOOD, claims=True)
    for _ in range(5):
        story.step(5)
    assert story.loop_state("l1").claims_refuted == 0
    assert not story.folders.notes.get("/f/l1")


def test_a_tree_is_judged_once_whoever_commits_it() -> None:
    story = Story()
    story.begin()
    story.will_say(GOOD, 1.0)
    story.session_ends("l1", 1, head=GOOD)
    story.step(5)
    asked = len(story.judge.asked)
    story.session_ends("l2", 1, head=BETTER)
    story.repositories.tips["l2"] = replace(story.repositories.tips["l2"], tree=f"tree of {GOOD}")
    story.will_say(BETTER, 1.0, tree=f"tree of {GOOD}")
    story.step(5)
    assert story.loop_state("l2").best_score == 1.0
    assert len(story.judge.asked) <= asked + 2  # where the session ended is asked for by commit, and that is all


def test_a_commit_that_a_loop_took_over_from_another_is_its_own_best_too() -> None:
    story = Story()
    story.begin()
    story.will_say(GOOD, 1.0)
    story.session_ends("l1", 1, head=GOOD)
    story.step(5)
    asked = len(story.judge.asked)
    story.session_ends("l2", 1, head=GOOD)
    story.step(5)
    assert (story.loop_state("l2").best_score, story.loop_state("l2").best_commit) == (1.0, GOOD)
    assert len(story.judge.asked) == asked
    assert len([e for e in story.journal.stored if isinstance(e.body, events.VerdictGiven) and e.loop == "l2"]) == 1


def test_a_tampered_candidate_counts_for_nothing_and_its_loop_is_told() -> None:
    story = Story()
    story.begin()
    story.will_say(BAD, 9.0, kind=Kind.TAMPERED, tampered=("tests/test_a.py",))
    story.session_ends("l1", 1, head=BAD)
    story.step(5)
    story.step()
    assert story.loop_state("l1").submissions == 0
    assert story.loop_state("l1").best_score is None
    assert [text for name, text in story.folders.notes["/f/l1"].items() if "tampered" in name]
    outcomes = [e.body.outcome.kind for e in story.journal.stored if isinstance(e.body, events.OutcomeNoted)]
    assert outcomes == [Kind.TAMPERED]


def test_a_note_is_left_once() -> None:
    story = Story()
    story.begin()
    story.will_say(BAD, 9.0, kind=Kind.TAMPERED, tampered=("tests/test_a.py",))
    story.session_ends("l1", 1, head=BAD)
    for _ in range(5):
        story.step(5)
    assert len(story.folders.notes["/f/l1"]) == 1


def test_done_is_what_the_verdict_says() -> None:
    story = Story(verifier=Verifier(command="true", goal=5.0))
    story.begin()
    story.will_say(GOOD, 1.0)
    story.session_ends("l1", 1, head=GOOD, claims=True)
    story.step(5)
    story.step()
    assert story.loop_state("l1").last_outcome is Kind.FALSE_DONE
    assert story.loop_state("l1").want is Want.RUNNING
    assert [name for name in story.folders.notes["/f/l1"] if "false-done" in name]


def test_a_claim_that_the_verdict_bears_out_is_finished_and_ends_the_night() -> None:
    story = Story(loops=1, verifier=Verifier(command="true", goal=5.0))
    story.begin()
    story.will_say(GOOD, 5.0, passed=True)
    story.session_ends("l1", 1, head=GOOD, claims=True)
    story.step(5)
    assert [b.outcome.kind for b in story.journal.bodies(events.ClaimSettled)] == [Kind.FINISHED]
    story.step()
    assert story.orders("l1")[-1] == "stopped"


def test_a_claim_over_an_unchanged_base_is_settled_too() -> None:
    story = Story(verifier=Verifier(command="true", goal=5.0))
    story.begin()
    story.session_ends("l1", 1, Kind.NOOP, claims=True)
    story.step(5)
    assert story.loop_state("l1").last_outcome is Kind.FALSE_DONE


def test_without_a_verifier_nothing_is_ever_better() -> None:
    story = Story(verifier=Verifier())
    story.begin()
    story.session_ends("l1", 1, head=GOOD, claims=True)
    story.step(5)
    [given] = story.journal.bodies(events.VerdictGiven)
    assert given.verdict.unverified
    assert not given.submission
    assert story.loop_state("l1").best_score is None
    assert not story.judge.asked


def test_a_dead_runner_is_started_again_after_its_leftovers_are_ended() -> None:
    story = Story(loops=1)
    story.begin()
    story.runner_dies("l1")
    story.step()
    assert len(story.intents("SpawnRunner")) == 2
    assert story.host.ended == ["nonce-l1"]


def test_a_lost_pane_and_a_lost_server_are_typed_once_a_loop() -> None:
    story = Story(loops=2)
    story.begin()
    story.panes.up = True
    story.runner_dies("l1")
    story.step()
    story.step()
    story.runner_starts("l1")
    story.step()
    story.panes.up = False
    story.runner_dies("l1")
    story.runner_dies("l2")
    story.step()
    story.step()
    noted = [(e.loop, e.body.outcome.kind) for e in story.journal.stored if isinstance(e.body, events.OutcomeNoted)]
    assert noted == [("l1", Kind.PANE_LOST), ("l1", Kind.SERVER_LOST), ("l2", Kind.SERVER_LOST)]


def test_loops_that_come_back_together_begin_one_after_another_and_new_ones_at_once() -> None:
    story = Story(loops=3)
    story.begin()
    assert [argv[-1] for argv in story.panes.windows.values()] == ["0", "0", "0"]
    story.panes.up = False
    for loop in ("l1", "l2", "l3"):
        story.runner_dies(loop)
    story.step()
    story.step()
    assert [argv[-1] for argv in story.panes.windows.values()] == ["0", "0.5", "1"]


@given(st.lists(st.booleans(), max_size=600))
def test_all_that_come_back_begin_soon_and_none_with_another(back: list[bool]) -> None:
    late = spread(back)
    assert len(late) == len(back)
    assert all(seconds == 0.0 for seconds, again in zip(late, back, strict=True) if not again)
    again = [seconds for seconds, comes_back in zip(late, back, strict=True) if comes_back]
    assert again[:1] in ([], [0.0])
    assert all(0.0 < after - before <= STEP_S for before, after in itertools.pairwise(again))
    assert max(again, default=0.0) < SPREAD_S


def test_a_broken_tmux_meets_no_storm() -> None:
    story = Story(loops=1)
    story.panes.broken = "no server"
    for _ in range(120):
        story.step(1)
    assert 2 <= len(story.intents("SpawnRunner")) <= 5
    assert {b.outcome.kind for b in story.journal.bodies(events.OutcomeNoted)} == {Kind.SPAWN_FAILED}


def test_a_runner_that_never_says_a_word_is_told_of_at_each_new_try() -> None:
    story = Story(loops=1)
    for _ in range(50):
        story.step(1)
    outcomes = [body.outcome for body in story.journal.bodies(events.OutcomeNoted)]
    assert {outcome.kind for outcome in outcomes} == {Kind.SPAWN_FAILED}
    assert len(outcomes) == len(story.intents("SpawnRunner")) - 1
    assert "never said a word" in outcomes[0].evidence[0].what


def test_a_window_that_a_person_closed_is_not_opened_again() -> None:
    story = Story(loops=2)
    story.begin()
    story.panes.up = True
    story.tell("l1", records.RunnerStopped(why="SIGHUP: the pane was closed"))
    story.runner_dies("l1")
    story.step()
    for _ in range(3):
        story.step(SPAWN_PATIENCE_S)
    assert story.loop_state("l1").want is Want.PAUSED
    assert len(story.intents("SpawnRunner")) == 2
    story.ask("resume", loops=["l1"])
    story.step()
    assert len(story.intents("SpawnRunner")) == 3


def test_a_refused_credential_holds_every_loop() -> None:
    story = Story(loops=3)
    story.begin()
    story.session_ends("l1", 1, Kind.AUTH)
    story.tell("l1", records.Held(kind=Kind.AUTH, why="401"), 1, "n1")
    story.step()
    assert story.orders("l2")[-1] == story.orders("l3")[-1] == "paused"
    assert "credential" in story.loop_state("l2").note


def test_what_waits_for_a_person_is_told_once_also_over_a_restart_of_the_daemon() -> None:
    story = Story(loops=3)
    story.begin()
    story.session_ends("l1", 1, Kind.AUTH)
    story.tell("l1", records.Held(kind=Kind.AUTH, why="401 of sk-ant-0123456789abcdef"), 1, "n1")
    for _ in range(3):
        story.step()
    story.start_daemon()
    recover(story.night)
    story.step()
    story.step()
    assert story.notifier is not None
    [(title, body)] = story.notifier.told
    assert title == "ralphd: the credential is refused"
    assert body == "l1: inference.auth. Mend it, then `ralphd resume`."
    [reply] = story.ask("status")
    assert "Mend it, then `ralphd resume`." in str(reply["data"]["daemon"]["trouble"])  # type: ignore[index]


def test_a_way_to_the_person_that_fails_is_recorded_and_stops_nothing() -> None:
    story = Story(loops=2)
    assert story.notifier is not None
    story.notifier.broken = "no route to host"
    story.begin()
    story.tell("l1", records.Held(kind=Kind.CONFIG_ERROR, why="no such option"), 1, "n1")
    for _ in range(3):
        story.step()
    [intent] = story.intents("Notify")
    settled = [body for body in story.journal.bodies(events.ActionSettled) if body.intent == intent.id]
    assert [(body.result, body.detail) for body in settled] == [("failed", "no route to host")]
    assert "daemon" not in story.daemon.troubles


def test_without_a_way_to_the_person_that_is_recorded_too() -> None:
    story = Story(loops=2)
    story.notifier = None
    story.start_daemon()
    story.begin()
    story.tell("l1", records.Held(kind=Kind.CONFIG_ERROR, why="no such option"), 1, "n1")
    for _ in range(3):
        story.step()
    [intent] = story.intents("Notify")
    [settled] = [body for body in story.journal.bodies(events.ActionSettled) if body.intent == intent.id]
    assert (settled.result, settled.detail.split(";")[0]) == ("done", "nobody is configured to be told")


def test_a_disk_that_runs_full_is_told_though_nothing_can_be_recorded() -> None:
    story = Story(loops=1)
    story.begin()
    story.journal.stuck = "no space"
    story.step(40)
    story.step(40)
    assert story.notifier is not None
    assert [title for title, _ in story.notifier.told] == ["ralphd: this machine needs you"]


def test_a_person_s_now_reaches_the_runners() -> None:
    story = Story(loops=2)
    story.begin()
    story.ask("resume", loops=["l1"], now=True)
    story.ask("resume", loops=["l2"])
    story.step()
    [one], [two] = ([order for order in story.folders.orders[f"/f/{name}"] if order.retry] for name in ("l1", "l2"))
    assert (one.ask, two.ask) == (True, False)


def test_an_end_with_a_foreign_nonce_is_not_believed() -> None:
    story = Story(loops=1)
    story.begin()
    story.session_ends("l1", 1, Kind.NEXT, nonce="forged")
    story.step()
    assert story.journal.bodies(records.TrajectoryEnded) == []
    assert story.loop_state("l1").session_open


def test_an_end_is_believed_while_its_start_still_waits_for_the_journal() -> None:
    story = Story(loops=1)
    story.begin()
    story.journal.stuck = "database is locked"
    for number in (1, 2, 3):
        story.session_ends("l1", number)
        story.session_starts("l1", number + 1)
        story.step()
    story.journal.unstick()
    story.drain()
    assert len(story.journal.bodies(records.TrajectoryEnded)) == 3


def test_a_trouble_of_the_journal_is_recorded_once_it_is_over() -> None:
    story = Story(loops=1)
    story.begin()
    story.journal.stuck = "no space"
    story.step(40)
    assert "no space" in story.daemon.troubles["journal"]
    story.journal.unstick()
    story.step()
    assert "journal" not in story.daemon.troubles
    story.journal.stuck = "no space"  # a disk at its limit is full and not full in turn
    story.step()
    story.journal.unstick()
    story.step(5)
    assert Kind.DISK_FULL not in noted(story)
    story.step(10)
    story.step(10)
    assert noted(story).count(Kind.DISK_FULL) == 1


def test_a_disk_that_is_full_is_told_and_recorded_though_the_journal_never_missed_it() -> None:
    story = Story(loops=1)
    story.begin()
    story.daemon.hooks.room = lambda: (Kind.INODES, "no inodes left")
    story.step()
    story.step()
    assert story.daemon.troubles["disk"] == "no inodes left"
    story.daemon.hooks.room = lambda: None
    story.step(11)
    assert "disk" not in story.daemon.troubles
    assert noted(story).count(Kind.INODES) == 1


def test_a_backup_that_fails_is_a_trouble_and_nothing_more() -> None:
    story = Story(loops=1)
    story.begin()

    def fail() -> None:
        raise JournalError("no backup: too little space")

    story.daemon.hooks.backup = fail
    story.daemon._handle(Rang(name="backup"))
    story.step()
    assert story.daemon.troubles["backup"] == "no backup: too little space"
    story.daemon.hooks.backup = lambda: None
    story.daemon._handle(Rang(name="backup"))
    story.step()
    assert "backup" not in story.daemon.troubles


def test_records_stay_in_their_files_while_too_much_waits_for_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ralphd.daemon.tick.UNSTORED_MAX", 3)
    story = Story(loops=1)
    story.begin()
    story.journal.stuck = "no space"
    for number in range(1, 6):
        story.session_ends("l1", number)
        story.session_starts("l1", number + 1)
        story.step()
    assert story.folders.telling["l1"], "some of it was left where it is"
    story.journal.unstick()
    story.drain()
    story.step()
    story.step()
    assert len(story.journal.bodies(records.TrajectoryEnded)) == 5


def noted(story: Story) -> list[Kind]:
    return [body.outcome.kind for body in story.journal.bodies(events.OutcomeNoted)]  # type: ignore[union-attr]


def test_a_message_of_an_old_generation_says_nothing_about_the_present() -> None:
    story = Story(loops=1)
    story.begin()
    story.ask("restart", loops=["l1"])
    story.tell("l1", records.Held(kind="agent.config_error", why="late"), 1, "n1", generation=1)
    story.step()
    assert story.loop_state("l1").generation == 2
    assert not story.loop_state("l1").held


def test_a_clean_restart_begins_at_the_best_verified_commit() -> None:
    story = Story(loops=1)
    story.begin()
    story.will_say(GOOD, 1.0)
    story.session_ends("l1", 1, head=GOOD)
    story.step(5)
    story.ask("restart", loops=["l1"], clean=True)
    assert story.folders.assignments["/f/l1"].reset_to == GOOD
    assert story.folders.assignments["/f/l1"].generation == 2
    story.runner_dies("l1")  # before it began: the spawn must not forget the reset
    story.step(SPAWN_PATIENCE_S)
    assert story.folders.assignments["/f/l1"].reset_to == GOOD


def test_the_time_is_up() -> None:
    story = Story(ends_in_s=60)
    story.begin()
    story.step(30)
    assert story.orders("l1")[-1] == "running"
    story.step(40)
    story.step()
    assert story.orders("l1")[-1] == "stopped"
    finish(story)
    [end] = story.journal.bodies(events.NightEnded)
    assert end.why == "time"
    assert story.repositories.delivered == ["main"]
    assert not story.panes.up
    assert story.daemon.gone
    assert story.reports == 1


def test_stop_waits_for_the_verdict_of_the_last_commit() -> None:
    story = Story(loops=1)
    story.begin()
    replies = story.ask("stop")
    assert "ending 1" in str(replies[0]["progress"])
    story.will_say(GOOD, 1.0)
    story.session_ends("l1", 1, Kind.STOPPED, head=GOOD)
    finish(story)
    assert story.loop_state("l1").best_score == 1.0
    assert replies[-1]["ok"] is True


def test_stop_now_does_not() -> None:
    story = Story(loops=1)
    story.begin()
    story.ask("stop", now=True)
    story.session_ends("l1", 1, Kind.STOPPED, head=GOOD)
    finish(story)
    assert GOOD not in story.judge.asked
    assert story.daemon.gone


def test_a_runner_that_does_not_go_is_pushed() -> None:
    story = Story(loops=1)
    story.begin()
    story.ask("stop")
    for _ in range(40):
        story.step()
    assert "l1" not in story.panes.windows
    assert story.host.ended == ["nonce-l1"]


def test_a_runner_that_the_order_cannot_reach_is_pushed_at_once() -> None:
    story = Story(loops=2)
    story.begin()
    write = story.folders.order

    def full(folder: str, order: Order) -> None:
        if folder.endswith("l1"):
            raise OSError("No space left on device")
        write(folder, order)

    story.folders.order = full  # type: ignore[method-assign]
    story.ask("stop")
    for _ in range(4):
        story.step()
    assert sorted(story.panes.windows) == ["l2"]
    assert story.host.ended == ["nonce-l1"]


def test_results_that_cannot_be_brought_over_are_told() -> None:
    story = Story(loops=1)
    story.begin()

    def refuse(*_args: object) -> None:
        raise OSError("disk full")

    story.repositories.deliver = refuse  # type: ignore[method-assign]
    replies = story.ask("stop")
    finish(story)
    assert replies[-1]["ok"] is False
    assert "disk full" in str(replies[-1]["error"])


def test_asking_about_an_unknown_loop_names_it() -> None:
    story = Story()
    story.begin()
    [reply] = story.ask("pause", loops=["l9"])
    assert reply["ok"] is False
    assert reply["code"] == 3
    assert "l9" in str(reply["error"])


def test_pause_and_resume_reach_the_runner_in_order() -> None:
    story = Story()
    story.begin()
    story.ask("pause", loops=["l1"], now=True)
    story.ask("resume", loops=["l1"])
    orders = story.folders.orders["/f/l1"]
    assert [o.want for o in orders[-2:]] == [Want.PAUSED, Want.RUNNING]
    assert orders[-2].serial < orders[-1].serial
    assert orders[-1].retry


def test_a_new_daemon_folds_the_same_night_and_adopts_its_loops() -> None:
    story = Story()
    story.begin()
    story.will_say(GOOD, 1.0)
    story.session_ends("l1", 1, head=GOOD)
    story.step(5)
    before = fold(story.journal.stored)
    story.start_daemon()
    assert story.night.state == before
    spawned = len(story.intents("SpawnRunner"))
    for _ in range(5):
        story.step(SPAWN_PATIENCE_S)
    assert len(story.intents("SpawnRunner")) == spawned
    assert story.loop_state("l1").best_score == 1.0


def test_a_new_daemon_waits_for_no_loop_that_shall_not_run() -> None:
    story = Story(loops=2)
    story.begin()
    story.ask("pause", loops=["l2"])
    story.step()
    story.folders.living.discard("/f/l2")
    story.start_daemon()
    story.ready.clear()
    story.step()
    assert story.ready == ["1 of 2 loops run"]


def test_records_told_twice_are_recorded_once() -> None:
    story = Story(loops=1)
    story.begin()
    story.session_ends("l1", 1)
    told = list(story.folders.telling["l1"])
    story.step()
    story.folders.telling["l1"] = told
    story.night.sight.last_seq = {}
    story.step()
    assert len(story.journal.bodies(records.TrajectoryEnded)) == 1
    assert story.night.unstored == 0


def test_a_bad_edit_keeps_the_old_configuration_and_says_so() -> None:
    story = Story()
    story.begin()
    story.config_error = ConfigError("ralphd.toml:3: night.widht: no such setting")
    story.daemon._changed("/r/ralphd.toml")
    story.drain()
    assert "widht" in story.daemon.troubles["config"]
    [noted] = story.journal.bodies(events.OutcomeNoted)
    assert noted.outcome.kind is Kind.CONFIG_REJECTED
    story.config_error = None
    story.daemon._changed("/r/ralphd.toml")
    assert "config" not in story.daemon.troubles


def test_a_failing_step_does_not_stop_the_daemon() -> None:
    story = Story()
    story.begin()

    def explode() -> None:
        raise RuntimeError("boom")

    story.daemon._safely(explode)
    assert "boom" in story.daemon.troubles["daemon"]
    story.step()
    assert story.ask("status")[0]["ok"] is True


def test_status_never_calls_a_dead_loop_running() -> None:
    story = Story(loops=1)
    story.begin()
    story.runner_dies("l1")
    story.step()
    [reply] = story.ask("status")
    [row] = reply["data"]["loops"]  # type: ignore[index]
    assert row["state"] == "dead"
    assert row["pid"] is None
    assert row["tokens_in"] is None


def test_a_failure_is_an_outcome_and_the_loop_goes_on() -> None:
    story = Story(loops=1)
    story.begin()
    for number, kind in enumerate((Kind.EXITED, Kind.SIGNALLED, Kind.UNKNOWN, Kind.HUNG), 1):
        story.session_ends("l1", number, kind)
        story.session_starts("l1", number + 1)
        story.step()
    assert [b.outcome.kind for b in story.journal.bodies(records.TrajectoryEnded)] == [
        Kind.EXITED,
        Kind.SIGNALLED,
        Kind.UNKNOWN,
        Kind.HUNG,
    ]
    assert story.orders("l1") == ["running"]


def test_parked_work_is_told_to_the_next_session() -> None:
    story = Story(loops=1)
    story.begin()
    ref = "refs/ralphd/rescue/x"
    outcome = Outcome(kind=Kind.WORKTREE_DETACHED)
    story.tell("l1", records.Repaired(outcome=outcome, what="put back", ref=ref), 1, "n1")
    story.step()
    [text] = story.folders.notes["/f/l1"].values()
    assert ref in text


def finish(story: Story) -> None:
    """The runners leave, and the night closes."""
    story.step()
    story.folders.living.clear()
    for _ in range(10):
        story.step(5)


def test_a_verifier_that_cannot_judge_the_start_is_shown() -> None:
    story = Story()
    story.judge.verdicts[BASE] = [story.verdict("", BASE, score=None, kind=Kind.VERIFY_FAILED)]
    story.begin()
    story.step()
    [reply] = story.ask("status")
    [trouble] = reply["data"]["daemon"]["trouble"]  # type: ignore[index]
    assert "can't judge the start" in trouble


def test_a_resumed_loop_is_not_held_again_by_what_held_it_before() -> None:
    story = Story(loops=2)
    story.begin()
    story.tell("l1", records.Held(kind=Kind.AUTH, why="401"), 1, "n1")
    story.step()
    story.ask("resume")
    story.step()
    assert story.orders("l2")[-1] == "running"


def test_whatever_breaks_while_closing_the_person_gets_an_answer() -> None:
    story = Story(loops=1)
    story.begin()

    def explode(*_args: object) -> int:
        raise RuntimeError("boom")

    story.host.end_leftovers = explode  # type: ignore[method-assign]
    replies = story.ask("stop")
    finish(story)
    assert "boom" in str(replies[-1]["error"])
    assert story.daemon.gone


def test_a_report_that_cannot_be_written_does_not_keep_the_night_open() -> None:
    story = Story(loops=1)
    story.begin()

    def explode() -> None:
        raise OSError("disk full")

    story.daemon.hooks = replace(story.daemon.hooks, report=explode)
    replies = story.ask("stop")
    finish(story)
    assert "disk full" in str(replies[-1]["error"])
    assert len(story.journal.bodies(events.NightEnded)) == 1


def test_a_report_that_cannot_be_written_meanwhile_is_told_once_and_noted() -> None:
    story = Story(loops=1)
    story.begin()

    def explode() -> None:
        raise OSError("disk full")

    good = story.daemon.hooks
    story.daemon.hooks = replace(good, report=explode)
    for _ in range(3):
        story.inbox.put(Rang(name="report"))
        story.step()
    assert "disk full" in story.daemon.troubles["report"]
    noted = [body.outcome.kind for body in story.journal.bodies(events.OutcomeNoted)]
    assert noted == [Kind.REPORT_FAILED]
    story.daemon.hooks = good
    story.inbox.put(Rang(name="report"))
    story.step()
    story.step()
    assert "report" not in story.daemon.troubles


def test_best_commits_come_along_even_where_the_branch_left_them() -> None:
    story = Story(loops=1)
    story.begin()
    story.will_say(GOOD, 1.0)
    story.session_ends("l1", 1, head=GOOD)
    story.step(5)
    story.will_say(BAD, 0.0)
    story.session_starts("l1", 2)
    story.session_ends("l1", 2, head=BAD)
    story.step(5)
    story.ask("stop")
    finish(story)
    assert story.repositories.kept == {"l1": GOOD}


def test_a_failing_worker_still_settles_its_intents() -> None:
    story = Story(loops=1)

    def explode(*_args: object) -> None:
        raise RuntimeError("boom")

    story.repositories.add_worktrees = explode  # type: ignore[method-assign]
    story.step()
    [settled] = [e.body for e in story.journal.stored if isinstance(e.body, events.ActionSettled) and e.loop == "l1"]
    assert (settled.result, settled.detail) == ("failed", "boom")


def test_a_server_that_dies_hangs_up_on_its_loops_and_none_is_taken_for_a_closed_window() -> None:
    story = Story(loops=3)
    story.begin()
    story.panes.up = False
    for name in ("l1", "l2", "l3"):
        story.tell(name, records.RunnerStopped(why="SIGHUP: the pane was closed"))
        story.runner_dies(name)
        story.step()  # the first one is respawned, in a new server, before the last one's word is read
    for _ in range(3):
        story.step()
    assert all(loop.want is Want.RUNNING for loop in story.night.state.loops.values())
    noted = [(e.loop, e.body.outcome.kind) for e in story.journal.stored if isinstance(e.body, events.OutcomeNoted)]
    assert sorted(noted) == [(name, Kind.SERVER_LOST) for name in ("l1", "l2", "l3")]
    assert len(story.intents("SpawnRunner")) == 6


def hijacked(story: Story) -> None:
    """Somebody else puts l1's branch elsewhere."""
    theirs = Head(commit="e" * 40, tree="theirs")
    story.repositories.hijacked["l1"] = (BASE, theirs.commit)
    story.repositories.tips["l1"] = theirs


def test_a_branch_that_somebody_else_moved_is_put_back_and_never_judged() -> None:
    story = Story()
    story.begin()
    story.session_starts("l1", 1)
    story.step(5)
    hijacked(story)
    story.step(5)
    assert story.intents("ReturnBranch") == []  # git's logs follow its refs: once is not enough
    story.step(5)
    assert story.repositories.tips["l1"].commit == BASE
    assert list(story.repositories.kept.values()) == ["e" * 40]
    [noted] = story.journal.bodies(events.OutcomeNoted)
    assert noted.outcome.kind is Kind.FOREIGN_CHANGE
    assert noted.outcome.detail["loop"] == "l1"
    assert str(noted.outcome.detail["ref"]) in noted.outcome.evidence[0].what
    story.step(5)
    assert len(story.intents("ReturnBranch")) == 1
    assert not [e for e in story.intents("Verify") if e.body.args["candidate"]["commit"] == "e" * 40]


def test_who_insists_on_moving_a_branch_is_not_fought_all_night() -> None:
    story = Story()
    story.begin()
    story.session_starts("l1", 1)
    story.step(5)
    for _ in range(4):
        hijacked(story)
        story.step(5)
        story.step(5)
    assert len(story.intents("ReturnBranch")) == 1


def test_a_branch_that_cannot_be_put_back_is_told_once() -> None:
    story = Story()
    story.begin()
    story.session_starts("l1", 1)
    story.step(5)
    story.repositories.broken = "no space"
    hijacked(story)
    for _ in range(4):
        story.step(5)
    [noted] = [body for body in story.journal.bodies(events.OutcomeNoted) if body.outcome.kind is Kind.FOREIGN_CHANGE]
    assert "no space" in noted.outcome.evidence[0].what
    assert len(story.intents("ReturnBranch")) == 1


def test_a_branch_is_put_back_even_if_its_loop_had_just_moved_it() -> None:
    """The daemon looks every few seconds; the runner's records say what came between."""
    story = Story()
    story.begin()
    story.step(5)
    theirs, own = "e" * 40, "d" * 40
    story.repositories.hijacked["l1"] = (own, theirs)
    story.session_starts("l1", 1)
    story.session_ends("l1", 1, head=own)
    story.repositories.tips["l1"] = Head(commit=theirs, tree="theirs")
    story.step(5)
    story.step(5)
    story.step(5)
    assert story.repositories.tips["l1"].commit == own


def test_a_new_daemon_knows_where_a_branch_was() -> None:
    story = Story()
    story.begin()
    story.session_starts("l1", 1)
    story.step(5)
    story.start_daemon()
    hijacked(story)
    story.step(5)
    story.step(5)
    assert story.repositories.tips["l1"].commit == BASE


def test_a_branch_that_went_with_its_runner_is_made_again_where_it_was() -> None:
    story = Story()
    story.begin()
    story.session_starts("l1", 1)
    story.session_ends("l1", 1, head="d" * 40)
    story.step()
    story.folders.living.discard("/f/l1")
    del story.repositories.tips["l1"]
    for _ in range(10):
        story.step(10)
    assert story.repositories.tips["l1"].commit == "d" * 40


def test_a_daemon_whose_every_pass_fails_still_gives_its_word_to_whoever_waits() -> None:
    story = Story()

    def explode() -> None:
        story.clock.pass_time(7.0)
        if story.ready:
            story.daemon.gone = True
        raise RuntimeError("boom")

    story.night.tick = explode  # type: ignore[method-assign]
    story.daemon.run()
    assert story.ready == ["0 of 2 loops run"]
    assert "boom" in story.daemon.troubles["daemon"]


def test_a_window_that_the_ending_night_closes_was_not_closed_by_a_person() -> None:
    story = Story(loops=1)
    story.begin()
    story.journal.stuck = "disk full"
    story.ask("stop")
    story.tell("l1", records.RunnerStopped(why="SIGHUP: the pane was closed"))
    story.runner_dies("l1")
    story.step()
    story.journal.unstick()
    story.drain()
    story.step()
    assert not story.intents("Pause")
