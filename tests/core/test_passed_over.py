"""A commit that nobody judged because a newer one came: it is judged after all when the newer one is no gain."""

from __future__ import annotations

from concurrent.futures import Executor, Future

from support.nights import Night, commit

from ralphd.core import events, policy, records
from ralphd.core.actions import EndNight, RestartLoop, Verify
from ralphd.core.fold import apply, fold
from ralphd.core.model import Candidate
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.policy import Head, LoopNow, Present
from ralphd.core.policy.judging import passed_over
from ralphd.core.state import NightState
from ralphd.daemon.verify import VerifyQueue
from ralphd.testing import FakeJudge


class Trial(Night):
    """One loop whose base scores 7; each session leaves a commit, and only some are judged."""

    def __init__(self) -> None:
        super().__init__()
        self.started(width=1, ends_at=None)
        self.task()
        self.loop("a")
        self.verdict(7.0)
        self.sessions, self.head = 0, commit(1)

    def session(self, score: float | None = None, *, kind: Kind | None = None, submission: bool = False) -> str:
        self.sessions += 1
        before, self.head = self.head, commit(self.sessions + 1)
        self.began("a", self.sessions, head=before)
        self.ended("a", self.sessions, before=before, after=self.head)
        if score is not None:
            self.judge(self.head, self.sessions, score, kind=kind, submission=submission)
        return self.head

    def judge(self, of: str, session: int, score: float, **more) -> None:
        self.verdict(score, "a", session, of=of, **more)

    def say_verdict(self, of: str, session: int, score: float) -> events.Entry:
        self.judge(of, session, score)
        return self.entries[-1]

    def state(self) -> NightState:
        return fold(self.entries)

    def open(self) -> str:
        state = self.state()
        session = passed_over(state, state.loops["a"])
        return session.after if session is not None else ""

    def decided(self, kind: type) -> list:
        state = self.state()
        for loop, body in policy.conclude(state, self.present(state)):
            self.say(body, loop)
        state = self.state()
        return [d.action for d in policy.decide(state, self.present(state)) if isinstance(d.action, kind)]

    def present(self, state: NightState) -> Present:
        return Present(now=self.now, loops=dict.fromkeys(state.loops, LoopNow(alive=True)))


def test_what_came_before_a_worse_commit_is_judged_the_newest_first():
    trial = Trial()
    first, second = trial.session(), trial.session()
    trial.session(0.0)
    assert trial.open() == second
    assert [action.candidate.commit for action in trial.decided(Verify)] == [second]
    trial.judge(second, 2, 0.0)
    assert trial.open() == first
    trial.judge(first, 1, 9.0, submission=True)
    assert trial.open() == ""


def test_nobody_asks_for_an_older_one_while_the_newest_gains_or_has_no_verdict_yet():
    trial = Trial()
    trial.session()
    assert trial.open() == ""
    trial.session()
    trial.session(9.0, submission=True)
    assert trial.open() == ""


def test_what_is_older_than_the_last_gain_can_not_be_better_news():
    trial = Trial()
    trial.session()
    trial.session(9.0, submission=True)
    trial.session(0.0)
    assert trial.open() == ""


def test_a_gain_belongs_to_the_session_that_left_it_though_the_next_one_runs_when_it_is_judged():
    trial = Trial()
    first = trial.session()
    trial.judge(first, 2, 9.0, submission=True)  # as seen on the branch while the second runs
    second = trial.session()
    trial.session(0.0)
    assert trial.state().loops["a"].past.gains[-1].key == (1, 1)
    assert trial.open() == second


def test_what_a_session_left_may_be_better_than_what_it_gained_with_on_the_way():
    trial = Trial()
    trial.session(8.0, submission=True)
    left = trial.session()
    trial.judge(commit(90), 2, 9.0, submission=True)
    trial.session(0.0)
    assert trial.open() == left


def test_a_gain_below_a_tampered_commit_is_found():
    trial = Trial()
    gain = trial.session()
    trial.session(99.0, kind=Kind.TAMPERED)
    assert trial.open() == gain


def test_a_loop_begins_again_only_when_that_verdict_is_there_and_then_from_the_gain():
    trial = Trial()
    for score in (7.5, 8.0, 8.5, 9.0):
        trial.session(score, submission=True)
    gain = trial.session()
    trial.session(0.0)
    assert trial.decided(RestartLoop) == []
    trial.judge(gain, 5, 10.0, submission=True)
    assert [action.reset_to for action in trial.decided(RestartLoop)] == [gain]


def test_what_a_newer_commit_took_the_place_of_is_asked_for_again_only_if_that_one_is_no_gain():
    trial = Trial()
    older, newer = trial.session(), trial.session()
    state = trial.state()
    state.loops["a"].ended.head = older  # the newer session is still running, and has committed already
    head = Present(now=trial.now, loops={"a": LoopNow(alive=True, head=Head(commit=newer, tree=newer[::-1]))})

    def asked() -> list[str]:
        decisions = policy.decide(state, head)
        return [d.action.candidate.commit for d in decisions if isinstance(d.action, Verify)]

    assert asked() == [older, newer]
    candidate = Candidate(task="main", loop="a", generation=1, trajectory=1, commit=older, tree="")
    type_, args = events.action_to_json(Verify(candidate=candidate))
    intent = trial.say(events.ActionIntended(type=type_, args=args, why="so", by="policy"), "a")
    apply(state, intent)
    apply(state, trial.say(events.ActionSettled(intent=intent.id, result="overtaken", detail=newer), "a"))
    assert asked() == [newer]
    trial.judge(newer, 2, 9.0, submission=True)
    apply(state, trial.entries[-1])
    assert asked() == []


def test_one_that_was_overtaken_by_a_commit_that_is_no_gain_is_judged_after_all():
    trial = Trial()
    older, newer = trial.session(), trial.session()
    state = trial.state()
    state.loops["a"].overtaken[older] = newer
    apply(state, trial.say_verdict(newer, 2, 0.0))
    assert passed_over(state, state.loops["a"]).after == older


def test_at_the_end_of_a_night_they_are_judged_for_as_long_as_one_verification_may_take_and_no_longer():
    trial = Trial()
    sessions = [trial.session() for _ in range(4)]
    trial.session(0.0)
    trial.now += 3600  # however long the night was
    trial.acted(EndNight(), "", "asked", by="operator")
    trial.now += 400  # of the 600 s that the verifier may take
    trial.judge(sessions[3], 4, 0.0)
    assert trial.open() == sessions[2]
    trial.now += 200
    trial.judge(sessions[2], 3, 0.0)
    assert trial.open() == ""
    assert trial.decided(Verify) == []


def test_a_repair_that_moved_the_branch_is_taken_for_nobody_s_commit():
    trial = Trial()
    trial.session(9.0, submission=True)
    outcome = Outcome(kind=Kind.BRANCH_MOVED)
    trial.say(records.Repaired(outcome=outcome, what="the branch had moved back; it is at … again"), "a", 2)
    trial.began("a", 2, head=commit(50))
    assert trial.state().loops["a"].past.visited == ""


def test_a_person_s_commit_between_two_sessions_is_known_for_one():
    trial = Trial()
    trial.session(9.0, submission=True)
    trial.began("a", 2, head=commit(50))
    assert trial.state().loops["a"].past.visited == commit(50)


class Never(Executor):
    def submit(self, _fn, *_args, **_more):
        return Future()


def test_no_newer_head_takes_its_place_in_the_queue_and_it_takes_nobody_s():
    trial, superseded = Trial(), []
    gain = trial.session()
    trial.session(0.0)
    newest = trial.session()
    state = trial.state()
    queue = VerifyQueue(
        judge=FakeJudge(), pool=Never(), done=lambda *_: None, superseded=lambda *told: superseded.append(told)
    )

    def add(intent: int, of: str, session: int) -> None:
        one = Candidate(task="main", loop="a", generation=1, trajectory=session, commit=of, tree=of[::-1])
        queue.add(state, intent, one)

    state.loops["a"].past.sessions.pop()  # it is still to end
    add(1, newest, 3)
    add(2, gain, 1)
    add(3, commit(77), 4)
    assert [waiting.intent for waiting in queue.waiting] == [2, 3]
    assert superseded == [(1, commit(77))]
    add(4, newest, 3)  # older than what waits
    assert [waiting.intent for waiting in queue.waiting] == [2, 3]
    assert superseded == [(1, commit(77)), (4, commit(77))]
