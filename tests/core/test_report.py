from __future__ import annotations

import json

import pytest
from support.nights import NIGHT, START, Night, a_good_night, commit

from ralphd.core import events, records
from ralphd.core.actions import Pause
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.report import report, to_json

NOW = START + 9 * 3600


def told(night):
    return report(iter(night.entries), NOW)


def a_task(**options):
    night = Night()
    night.started()
    night.task(**options)
    night.loop("fix-1")
    return night


def gaps(value):
    return {(gap.what, gap.subject, gap.count) for gap in value.unknown}


KEYS = {
    "": {"schema", "night", "tasks", "loops", "outcomes", "actions", "throughput", "totals"},
    "tasks": {"name", "direction", "base_score", "best", "submissions", "verdicts"},
    "loops": {
        "id", "task", "pod", "trajectories", "healthy", "submissions", "best_score", "best_commit", "commits", "tokens_in",
        "tokens_out", "cost_usd", "outcomes",
    },
    "actions": {"at", "loop", "action", "by", "why", "result"},
    "throughput": {"at", "best_score", "submissions", "width"},
}  # fmt: skip


def test_the_json_has_every_name_that_others_build_on():
    data = json.loads(json.dumps(to_json(told(a_good_night())), allow_nan=False))
    assert data["schema"] == "ralphd.report/1"
    assert data.keys() >= KEYS[""]
    for part in ("tasks", "loops", "actions", "throughput"):
        assert data[part]
        assert all(item.keys() >= KEYS[part] for item in data[part])
    assert data["tasks"][0]["best"].keys() >= {"score", "loop", "commit"}
    assert data["totals"].keys() >= {"healthy_with_submission", "hours", "healthy_with_submission_per_h"}
    assert data["night"]["started_at"] == "2026-11-30T22:00:00Z"
    assert data["actions"][0]["at"].endswith("Z")
    assert data["throughput"][0]["at"].endswith("Z")


def test_what_is_better_by_how_much_and_which_commit():
    (task,) = told(a_good_night()).tasks
    assert (task.base_score, task.best.score, task.improved, task.improved_by) == (7.0, 12.0, True, 5.0)
    assert (task.best.loop, task.best.commit, task.goal_reached) == ("fix-1", commit(4), True)
    assert task.take[0] == f"git merge --ff-only {commit(4)}"
    assert task.ref == f"refs/ralphd/{NIGHT}/fix-1"
    assert (task.submissions, task.verdicts) == (2, 3)


def test_each_loop_has_its_own_figures():
    one, two = told(a_good_night()).loops
    assert (one.trajectories, one.healthy, one.submissions, one.best_score, one.commits) == (2, 2, 2, 12.0, 2)
    assert (one.tokens_in, one.tokens_out, one.cost_usd) == (2000, 200, 0.02)
    assert one.outcomes == {"done.finished": 1, "done.next": 1, "git.stale_lock": 1, "tool.timeout": 1}
    assert (two.trajectories, two.healthy, two.submissions, two.best_score, two.commits) == (2, 0, 0, 7.0, 1)
    assert (two.tokens_in, two.tokens_out, two.cost_usd) == (None, None, None)
    assert two.outcomes == {"agent.hung": 1, "verify.false_done": 1}


def test_a_settled_claim_takes_the_place_of_its_trajectorys_outcome():
    value = told(a_good_night())
    assert value.outcomes == {
        "agent.hung": 1, "done.finished": 1, "done.next": 1, "git.stale_lock": 1, "tool.timeout": 1, "verify.false_done": 1,
    }  # fmt: skip
    assert sum(value.outcomes.values()) == value.totals.trajectories + 2


def test_a_claim_about_an_entry_that_is_not_there_changes_nothing():
    night = a_task()
    night.say(events.ClaimSettled(entry=99, outcome=Outcome(kind=Kind.FALSE_DONE)), "fix-1", 1)
    assert told(night).outcomes == {}


def test_lower_is_better_when_the_task_says_so():
    night = a_task(direction="min")
    for score, number in ((10.0, 1), (12.0, 2), (4.0, 3)):
        night.verdict(score, "fix-1" if number > 1 else "", of=commit(number))
    (task,) = told(night).tasks
    assert (task.best.score, task.improved, task.improved_by) == (4.0, True, 6.0)
    assert [point.best_score for point in told(night).throughput] == [10.0, 4.0]


@pytest.mark.parametrize("kind", [Kind.TAMPERED, Kind.FLAKY])
def test_tampered_and_flaky_verdicts_are_never_the_best(kind):
    night = a_task()
    night.verdict(1.0)
    night.verdict(9.0, "fix-1", of=commit(2), kind=kind, passed=True)
    night.verdict(2.0, "fix-1", of=commit(3))
    (task,) = told(night).tasks
    assert task.best.commit == commit(3)
    assert [point.best_score for point in told(night).throughput] == [1.0, 2.0]


def test_a_tree_that_turns_out_flaky_later_loses_its_first_verdict_too():
    night = a_task()
    night.verdict(1.0)
    night.verdict(9.0, "fix-1", of=commit(2), passed=True, submission=True)
    night.verdict(None, "fix-1", of=commit(2), kind=Kind.FLAKY)
    value = told(night)
    assert value.tasks[0].best is None
    assert (value.tasks[0].submissions, value.loops[0].submissions, value.totals.submissions) == (0, 0, 0)
    assert value.tasks[0].improved is False
    assert ("flaky", "main", 1) in gaps(value)


def test_without_a_verifier_nothing_is_the_best_and_nobody_knows():
    night = a_task(command="")
    night.verdict(5.0, "fix-1", of=commit(2), unverified=True)
    value = told(night)
    assert (value.tasks[0].best, value.tasks[0].improved, value.tasks[0].verified) == (None, None, False)
    assert ("no_verifier", "main", 1) in gaps(value)
    assert value.loops[0].best_commit is None


def test_an_equal_score_is_no_gain_and_the_first_of_equals_is_the_best():
    night = a_task()
    night.verdict(3.0)
    night.verdict(3.0, "fix-1", of=commit(2))
    night.verdict(3.0, "fix-1", of=commit(3))
    (task,) = told(night).tasks
    assert (task.improved, task.improved_by, task.best.commit) == (False, None, commit(2))


def test_when_the_start_was_never_scored_the_gain_is_unknown():
    night = a_task()
    night.verdict(3.0, "fix-1", of=commit(2))
    value = told(night)
    assert (value.tasks[0].base_score, value.tasks[0].improved, value.tasks[0].improved_by) == (None, None, None)
    assert ("no_base_score", "main", 1) in gaps(value)


def test_a_pass_without_a_score_counts_against_a_start_that_failed():
    night = a_task()
    night.verdict(None)
    night.verdict(None, "fix-1", of=commit(2), passed=True)
    (task,) = told(night).tasks
    assert (task.improved, task.improved_by, task.best.commit) == (True, None, commit(2))


def test_a_healthy_trajectory_counts_once_however_much_it_submitted():
    night = a_task()
    night.began("fix-1", 1)
    night.ended("fix-1", 1, after=commit(3))
    night.verdict(1.0, "fix-1", 1, of=commit(2), submission=True)
    night.verdict(2.0, "fix-1", 1, of=commit(3), submission=True)
    night.began("fix-1", 2)
    night.ended("fix-1", 2, Kind.HUNG)
    night.verdict(3.0, "fix-1", 2, of=commit(4), submission=True)
    assert told(night).totals.healthy_with_submission == 1


def test_hours_run_to_the_end_or_to_the_last_thing_recorded():
    night = a_task()
    night.now = START + 7200
    night.began("fix-1", 1)
    assert told(night).totals.hours == 2.0
    night.now = START + 4 * 3600
    night.over()
    assert told(night).totals.hours == 4.0
    assert told(night).totals.healthy_with_submission_per_h == 0.0


def test_no_time_gives_no_rate():
    night = Night()
    night.started()
    totals = told(night).totals
    assert (totals.hours, totals.healthy_with_submission_per_h) == (0.0, None)
    assert report([], NOW).totals.hours is None


def test_tokens_of_a_session_that_was_killed_are_those_it_told_before():
    night = a_task()
    night.began("fix-1", 1)
    usage = records.Usage(tokens_in=70, tokens_out=7)
    night.say(records.Progressed(usage=usage, compactions=0, output_bytes=1, calls=0, quiet_for_s=0.0), "fix-1", 1)
    night.ended("fix-1", 1, Kind.SIGNALLED, tokens=None)
    assert (told(night).loops[0].tokens_in, told(night).loops[0].cost_usd) == (70, None)


def test_tokens_nobody_told_are_unknown_and_said_so():
    value = told(a_good_night())
    assert ("tokens", "fix-2", 2) in gaps(value)
    assert ("tokens", "fix-1", 1) not in gaps(value)
    assert value.totals.tokens_in == 2000


def test_actions_carry_their_result_and_runner_repairs_stand_among_them():
    night = a_good_night()
    night.acted(Pause(loop="fix-1"), "", "asked", by="operator", result=None)
    actions = told(night).actions
    assert [(a.action, a.loop, a.by, a.result) for a in actions] == [
        ("Verify", "fix-1", "policy", "done"),
        ("RestartLoop", "fix-2", "policy", "done"),
        ("Repair", "fix-1", "runner", "done"),
        ("Pause", "fix-1", "operator", None),
    ]
    assert ("unsettled", "", 1) in gaps(told(night))


def test_throughput_has_a_point_where_something_changed_and_only_there():
    points = told(a_good_night()).throughput
    assert [(p.best_score, p.submissions, p.width) for p in points] == [(7.0, 0, 2), (9.0, 1, 2), (12.0, 2, 2)]
    assert [p.at for p in points] == sorted(p.at for p in points)


def test_tasks_are_kept_apart():
    night = a_task()
    night.task("other")
    night.loop("go-1", task="other")
    night.verdict(1.0)
    night.verdict(100.0, task="other")
    night.verdict(2.0, "fix-1", of=commit(2))
    night.verdict(50.0, "go-1", of=commit(3), task="other")
    main, other = told(night).tasks
    assert (main.best.score, main.improved, other.best.score, other.improved) == (2.0, True, 50.0, False)
    assert [(p.task, p.best_score) for p in told(night).throughput] == [("main", 1.0), ("other", 100.0), ("main", 2.0)]


def test_failures_point_to_the_bytes_and_good_ends_to_nothing():
    traces = told(a_good_night()).evidence
    assert {trace.kind for trace in traces} == {"agent.hung", "verify.false_done", "tool.timeout", "git.stale_lock"}
    (lie,) = [trace for trace in traces if trace.kind == "verify.false_done"]
    assert (lie.loop, lie.trajectory, lie.what, lie.start, lie.end) == ("fix-2", 1, "said: all tests pass", 120, 141)


def test_a_failure_without_evidence_points_to_its_log():
    night = a_task()
    night.began("fix-1", 1)
    night.ended("fix-1", 1, Kind.EXITED)
    assert told(night).evidence[0].file == night.log("fix-1", 1)


def test_a_thousand_failures_of_a_kind_leave_a_few_places_to_look_and_the_whole_count():
    night = a_task()
    for number in range(1, 1001):
        night.ended("fix-1", number, Kind.EXITED, evidence=(Evidence(what="x"),) * 3)
    value = told(night)
    assert value.outcomes == {"agent.exited": 1000}
    assert len(value.evidence) == 5


def test_attempts_that_inference_ended_count_and_do_not_end_the_trajectory():
    night = a_task()
    night.began("fix-1", 1)
    night.say(records.AttemptEnded(attempt=1, outcome=Outcome(kind=Kind.OVERLOADED), wait_s=2.0), "fix-1", 1)
    night.ended("fix-1", 1)
    assert told(night).loops[0].trajectories == 1
    assert told(night).outcomes == {"done.next": 1, "inference.overloaded": 1}


def test_outcomes_of_no_loop_count_for_the_night():
    night = a_task()
    night.say(events.OutcomeNoted(outcome=Outcome(kind=Kind.SERVER_LOST)))
    value = told(night)
    assert value.outcomes == {"tmux.server_lost": 1}
    assert [loop.id for loop in value.loops] == ["fix-1"]


def test_sessions_that_run_or_were_lost_are_named():
    night = a_task()
    night.began("fix-1", 1)
    night.began("fix-1", 2)
    assert gaps(told(night)) >= {("still_running", "fix-1", 1), ("no_end", "fix-1", 1), ("night_open", "", 1)}
    night.over()
    assert gaps(told(night)) >= {("no_end", "fix-1", 2)}
    assert told(night).night.state == "ended"


def test_commits_that_were_never_judged_are_named():
    night = a_task()
    night.ended("fix-1", 1, after=commit(5))
    assert ("unjudged", "fix-1", 1) in gaps(told(night))


def test_a_night_taken_up_again_goes_on_from_its_first_start():
    night = a_task()
    night.over()
    night.started(width=5)
    value = told(night)
    assert (value.night.state, value.night.started_at, value.night.width) == ("running", START, 5)


def test_an_empty_night_is_a_report_of_nothing():
    value = report([], NOW, unreadable=lambda: 3)
    assert (value.tasks, value.loops, value.outcomes, value.night.started_at) == ((), (), {}, None)
    assert ("unreadable", "", 3) in gaps(value)
    json.dumps(to_json(value), allow_nan=False)


def test_a_time_that_no_calendar_has_is_unknown():
    night = Night()
    night.now = 1e300
    night.started()
    night.now = -5.0
    night.over()
    data = to_json(told(night))
    assert (data["night"]["started_at"], data["night"]["ended_at"]) == (None, None)
    assert data["totals"]["hours"] == 0.0


def test_the_clis_own_cost_wins_and_a_price_list_fills_in_only_where_it_told_none():
    night = a_task()
    own = records.Usage(tokens_in=10, tokens_out=1, cost_usd=0.5, model="m")
    for loop, usage in (("fix-1", own), ("fix-2", records.Usage(tokens_in=10, tokens_out=1, model="m"))):
        night.began(loop, 1)
        night.ended(loop, 1, usage=usage)
    asked = []

    def price(usage):
        asked.append(usage)
        return 0.25

    value = report(night.entries, NOW, price=price)
    assert [(loop.cost_usd, loop.cost_estimated) for loop in value.loops] == [(0.5, False), (0.25, True)]
    assert (value.totals.cost_usd, value.totals.cost_estimated) == (0.75, True)
    assert [usage.cost_usd for usage in asked] == [None]


def test_a_cost_that_nobody_knows_is_null():
    night = a_task()
    night.ended("fix-1", 1, usage=records.Usage(tokens_in=10, tokens_out=1))
    data = to_json(report(night.entries, NOW, price=lambda _: None))
    assert (data["totals"]["cost_usd"], data["totals"]["cost_estimated"]) == (None, False)
