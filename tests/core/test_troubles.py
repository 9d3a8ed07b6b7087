"""What is wrong with a loop, from facts alone; and what is done about it, rung by rung."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.nights import Night, commit

from ralphd.core import actions, events, policy, records
from ralphd.core.actions import Park, Pause, RestartLoop, Tell
from ralphd.core.fold import fold
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.policy import LoopNow, Present, Rung, offers, stuck
from ralphd.core.policy.rungs import HOUR_S, PROBE_AFTER_S
from ralphd.core.policy.troubles import TABLE, Cause, troubles
from ralphd.core.state import NightState


class Trial(Night):
    """A night of loops whose base scores 7; every session ends with a verdict on what it left."""

    def __init__(self, loops: tuple[str, ...] = ("a",)) -> None:
        super().__init__()
        self.started(width=len(loops), ends_at=None)
        self.task()
        self.heads: dict[str, str] = {}
        self.sessions: dict[str, int] = {}
        self.generations = dict.fromkeys(loops, 1)
        self.commits = 1
        for name in loops:
            self.loop(name)
            self.say(records.RunnerStarted(pid=1, start_ticks=1, boot_id="b"), name)
            self.heads[name] = commit(1)
        self.verdict(7.0)

    def session(
        self, loop: str = "a", score: float | None = None, kind: Kind = Kind.NEXT, *, judged: bool = True, **more
    ) -> None:
        """A session that commits something with this score; without a score it leaves the branch alone."""
        number = self.sessions[loop] = self.sessions.get(loop, 0) + 1
        before = self.heads[loop]
        generation = self.generations[loop]
        of = more.pop("of", "")
        self.began(loop, number, head=before, generation=generation)
        if score is not None or of:
            self.commits += 1
            self.heads[loop] = of or commit(self.commits)
        verdict_kind = more.pop("verdict_kind", None)
        self.ended(loop, number, kind, before=before, after=self.heads[loop], generation=generation, **more)
        if score is not None and judged:
            state = fold(self.entries)
            known = state.loops[loop].best_score
            better = verdict_kind is None and score > max(7.0, known or 7.0)
            self.verdict(
                score, loop, number, of=self.heads[loop], submission=better, kind=verdict_kind, generation=generation
            )

    def go_on(self, **moment) -> list[actions.Action]:
        """Record what follows, carry out what is decided, and return it."""
        state, present = self.moment(**moment)
        for loop, body in policy.conclude(state, present):
            self.say(body, loop)
        state, present = self.moment(**moment)
        done = []
        for decision in policy.decide(state, present):
            name = getattr(decision.action, "loop", "")
            type_, args = events.action_to_json(decision.action)
            said = events.ActionIntended(type=type_, args=args, why=decision.why, by=decision.by, cause=decision.cause)
            intent = self.say(said, name, generation=self.generations.get(name, 0))
            self.say(events.ActionSettled(intent=intent.id, result="done"), name)
            if isinstance(decision.action, RestartLoop):
                self.generations[name] += 1
                to = decision.action.reset_to or self.heads[name]
                self.heads[name] = to
                prepared = records.Prepared(head=to, seconds=0.1)
                self.say(prepared, name, generation=self.generations[name])
            done.append(decision.action)
        return done

    def moment(self, **more) -> tuple[NightState, Present]:
        state = fold(self.entries)
        loops = dict.fromkeys(state.loops, LoopNow(alive=True))
        return state, Present(now=more.pop("now", self.now), loops=loops, **more)

    def causes(self, loop: str = "a") -> list[Cause]:
        state = fold(self.entries)
        return [trouble.cause for trouble in troubles(state, state.loops[loop])]


def test_a_loop_that_gains_has_no_trouble():
    night = Trial()
    for score in (8.0, 9.0, 9.0, 10.0, 9.5, 11.0):
        night.session(score=score)
        assert night.go_on() == []
    assert night.causes() == []


@pytest.mark.parametrize("left", [7.0, 2.0])
def test_who_loses_many_gains_at_once_begins_again_at_once(left):
    night = Trial()
    for score in (8.0, 8.5, 8.6, 8.7, 9.0):
        night.session(score=score)
    best = night.heads["a"]
    night.session(score=left)
    assert night.go_on() == [RestartLoop(loop="a", reset_to=best)]


def test_who_loses_it_bit_by_bit_may_be_trying_something():
    night = Trial()
    for score in (8.0, 9.0, 10.0, 9.0, 8.0, 7.0):
        night.session(score=score)
    assert Cause.BROKEN not in night.causes()


def test_a_candidate_that_cant_be_scored_is_broken_unless_the_verifier_is():
    night = Trial(("a", "b"))
    for name in ("a", "b"):
        for score in (8.0, 8.5, 8.6, 8.7, 9.0):
            night.session(name, score=score)
    best = night.heads["a"]
    for name in ("a", "b"):
        night.session(name, of=commit(700 + ord(name)))
        number = night.sessions[name]
        entry = night.verdict(None, name, number, of=night.heads[name], kind=Kind.VERIFY_FAILED)
        assert isinstance(entry.body, events.VerdictGiven)
        verdict = replace(entry.body.verdict, output="/verdicts/1.txt")
        night.entries[-1] = replace(entry, body=replace(entry.body, verdict=verdict))
        if name == "a":
            alone = fold(night.entries)
            assert [t.cause for t in troubles(alone, alone.loops["a"])][:1] == [Cause.BROKEN]
    assert night.causes("a") == night.causes("b") == []
    night.session("b", score=9.5)
    assert night.go_on() == [RestartLoop(loop="a", reset_to=best)]


def test_a_loop_that_stays_behind_while_the_others_gain_begins_again():
    """Something misleads it, in a way that no score shows."""
    night = Trial(("a", "b", "c", "d"))
    for n in range(8):
        assert Cause.LAGGING not in night.causes()
        for name in ("b", "c", "d"):
            night.session(name, score=8.0 + n)
        if n % 2:
            night.session("a", score=7.0)
        else:
            night.session("a", kind=Kind.EXITED)
        if night.causes()[:1] == [Cause.LAGGING]:
            break
    assert night.go_on() == [RestartLoop(loop="a", reset_to=commit(1))]


def test_a_loop_that_is_broken_before_its_first_gain_begins_again_after_two_sessions():
    """Whatever else a score means, nothing works any more of what did at the start; 3 of 7 may be work in progress."""
    night = Trial()
    night.session(score=0.0)
    assert night.causes() == []
    night.session(score=0.0)
    assert night.go_on() == [RestartLoop(loop="a", reset_to=commit(1))]
    other = Trial()
    for _ in range(3):
        other.session(score=3.0)
    assert other.causes() == []


def test_a_loop_whose_work_waits_to_be_judged_does_not_lag():
    """Seen with a verifier that many loops waited for: nine gains of nine sessions would have been set back."""
    night = Trial(("a", "b", "c", "d"))
    for n in range(20):
        for name in ("b", "c", "d"):
            night.session(name, score=8.0 + n)
        night.session("a", score=8.0 + n, judged=False)
    assert Cause.LAGGING not in night.causes()


def test_who_leads_and_stands_still_does_not_lag():
    night = Trial(("a", "b", "c", "d"))
    night.session("a", score=99.0)
    for n in range(8):
        for name in ("b", "c", "d"):
            night.session(name, score=8.0 + n)
        night.session("a", score=99.0)
    assert night.causes() == [Cause.FRUITLESS]


@pytest.mark.parametrize(("gains", "sessions"), [(1, 2), (2, 2), (3, 1)])
def test_who_loses_a_few_gains_at_once_begins_again_when_it_stays_so(gains, sessions):
    night = Trial()
    for n in range(gains):
        night.session(score=9.0 + n)
    best = night.heads["a"]
    for _ in range(sessions - 1):
        night.session(score=2.0)
        assert night.go_on() == []
    night.session(score=2.0)
    assert night.go_on() == [RestartLoop(loop="a", reset_to=best)]
    (noted,) = [e.body.outcome for e in night.entries if isinstance(e.body, events.OutcomeNoted)]
    assert (noted.kind, noted.detail["cause"], noted.detail["sessions"]) == (Kind.PROGRESS_NONE, "broken", sessions)
    by_id = {entry.id: entry.body for entry in night.entries}
    assert all(isinstance(by_id[row], records.TrajectoryEnded) for row in noted.detail["rows"])
    assert night.go_on() == []


def test_when_the_best_itself_misleads_the_next_restart_goes_further_back():
    night = Trial()
    night.session(score=8.0)
    first = night.heads["a"]
    night.session(score=9.0)
    second = night.heads["a"]
    targets = []
    while len(targets) < 6:
        for _ in range(3):
            night.session(score=2.0)
            targets += [action.reset_to for action in night.go_on() if isinstance(action, RestartLoop)]
        night.now += HOUR_S
        night.go_on()
    assert targets == [second, second, first, commit(1), commit(1), commit(1)]


def test_no_more_than_three_restarts_an_hour_and_then_a_pause_that_tries_again():
    night = Trial()
    night.session(score=8.0)
    for _ in range(3):
        for _ in range(3):
            night.session(score=2.0)
        assert isinstance(night.go_on()[0], RestartLoop)
    for _ in range(3):
        night.session(score=2.0)
    (park,) = night.go_on()
    assert park == Park(loop="a", because="trouble")
    assert night.go_on() == []
    assert night.go_on(now=night.now + PROBE_AFTER_S) == [actions.Unpark(loop="a")]


def test_a_gain_forgets_what_was_done_before():
    night = Trial()
    night.session(score=8.0)
    for _ in range(4):
        for _ in range(3):
            night.session(score=2.0)
        assert [type(action) for action in night.go_on()] == [RestartLoop]
        night.session(score=float(20 + night.commits))
        night.now += HOUR_S


def test_claims_that_are_refuted_again_and_again_begin_again():
    night = Trial()
    for _ in range(3):
        night.session(kind=Kind.NEXT, claims_done=True)
    assert night.causes()[0] is Cause.MISLED
    assert RestartLoop(loop="a", reset_to=commit(1)) in night.go_on()


def test_a_score_below_the_best_gets_a_note_first_and_then_a_restart():
    night = Trial()
    night.session(score=12.0)
    best = night.heads["a"]
    done = []
    for _ in range(16):
        night.session(score=11.0)
        done.append(night.go_on())
    assert [len(actions) for actions in done] == [0, 0, 0, 1] * 4
    (tell,) = done[3]
    assert (type(tell), tell.template, tell.slots["commit"]) == (Tell, "repair-falling", best[:12])
    assert done[-1] == [RestartLoop(loop="a", reset_to=best)]


def test_work_without_gain_gets_notes_and_is_never_restarted_or_paused():
    """It may be a hard question, or an answered one: stopping early is what is scarce."""
    night = Trial()
    done = []
    for _ in range(60):
        night.session(score=7.0)
        done += night.go_on()
    assert done
    assert {type(action) for action in done} == {Tell}
    assert len(done) == 60 // TABLE[Cause.FRUITLESS].after
    assert stuck(fold(night.entries), night.now) == ()


@pytest.mark.parametrize(("score", "cause"), [(7.0, Cause.FRUITLESS), (6.0, Cause.FALLING)])
def test_nobody_is_told_of_no_gain_while_newer_work_waits_to_be_judged(score, cause):
    after = TABLE[cause].after
    for last, told in ((9.0, []), (score, [Tell])):
        night = Trial()
        for _ in range(after - 1):
            night.session(score=score)
        night.session(score=score, judged=False)
        late = night.heads["a"]
        night.session(score=last, judged=False)
        night.verdict(score, "a", after, of=late)
        assert [a for a in night.go_on() if not isinstance(a, actions.Verify)] == []
        night.verdict(last, "a", after + 1, of=night.heads["a"], submission=bool(last > 7.0))
        assert [type(a) for a in night.go_on()] == told


@pytest.mark.parametrize("read", [True, False])
def test_a_note_that_a_gain_has_outdone_is_taken_back_unless_it_was_read(read):
    night = Trial()
    for _ in range(TABLE[Cause.FRUITLESS].after):
        night.session(score=7.0)
    assert [type(action) for action in night.go_on()] == [Tell]
    (name,) = fold(night.entries).loops["a"].unread
    if read:
        night.say(records.NotesGiven(names=(name,), how="prompt"), "a", 6)
    night.began("a", 6, head=night.heads["a"])
    assert night.go_on() == []
    night.verdict(9.0, "a", 6, of=commit(90), submission=True)
    taken_back = [] if read else [actions.Withdraw(loop="a", note=name)]
    assert night.go_on() == taken_back
    assert night.go_on() == []


def test_behind_a_verifier_that_is_always_late_twice_as_many_sessions_tell_it():
    night, late, done = Trial(), "", []
    for number in range(1, 2 * TABLE[Cause.FRUITLESS].after + 2):
        night.session(score=7.0, judged=False)
        if late:
            night.verdict(7.0, "a", number - 1, of=late)
        late = night.heads["a"]
        done.append([type(a) for a in night.go_on() if not isinstance(a, actions.Verify)])
    assert [told for told in done if told] == [done[-1]] == [[Tell]]


def test_a_late_verdict_on_what_a_reset_took_away_is_a_result_and_no_measure():
    """It may be the best that the loop ever had, and whoever takes it gets it; the loop stands on something else."""
    night = Trial()
    night.session(score=8.0)
    kept = night.heads["a"]
    night.session(score=12.0, judged=False)
    late = night.heads["a"]
    night.say(records.TrajectoryStarted(head=late, log="", prompt_sha256="", prompt_bytes=0), "a", 3)
    night.acted(RestartLoop(loop="a", reset_to=kept), "a", "asked", by="operator")
    night.generations["a"], night.heads["a"] = 2, kept
    night.verdict(12.0, "a", 2, of=late, submission=True)
    night.verdict(99.0, "a", 3, of=commit(98), kind=Kind.TAMPERED)
    loop = fold(night.entries).loops["a"]
    assert (loop.best_score, loop.best_commit, loop.submissions) == (12.0, late, 2)
    assert loop.last_verdict.commit == kept
    for score in (9.0, 10.0, 11.0, 11.0, 11.0, 11.0):
        night.session(score=score)
        assert night.go_on() == []
    state = fold(night.entries)
    assert [gain.score for gain in state.loops["a"].past.gains] == [8.0, 9.0, 10.0, 11.0]
    assert state.tasks["main"].best.commit == late
    assert offers(state, "a")[1].action.slots["commit"] not in {late[:12], ""}


def test_a_late_verdict_counts_where_the_loop_began_anew_without_a_reset():
    night = Trial()
    night.session(score=9.0, judged=False)
    night.acted(RestartLoop(loop="a"), "a", "asked", by="operator")
    night.verdict(9.0, "a", 1, of=night.heads["a"], submission=True)
    assert [gain.score for gain in fold(night.entries).loops["a"].past.gains] == [9.0]


def test_a_model_is_asked_where_figures_alone_dont_say_what_helps():
    night = Trial(("a", "b"))
    for _ in range(5):
        night.session("a", score=7.0)
        night.session("b", score=9.0 + night.commits)
    consulted = frozenset({"a"})
    assert night.go_on(consulted=consulted) == []
    state = fold(night.entries)
    assert stuck(state, night.now) == ("a",)
    names = [(offer.name, offer.rung) for offer in offers(state, "a")]
    assert names == [
        ("carry_on", Rung.CARRY_ON),
        ("note", Rung.REPAIR),
        ("restart_clean", Rung.RESTART),
        ("pause", Rung.PAUSE),
    ]
    assert all(getattr(offer.action, "loop", "a") == "a" and offer.rows for offer in offers(state, "a"))
    assert offers(state, "nobody") == ()


@pytest.mark.parametrize("kind", [Kind.EXITED, Kind.HUNG])
def test_the_same_error_again_and_again_climbs_the_rungs(kind):
    night = Trial()
    done = []
    for _ in range(60):
        night.session(kind=kind)
        done += night.go_on()
        night.now += 300
    kinds = [type(action) for action in done]
    assert kinds[:7] == [Tell, Tell, Tell, RestartLoop, RestartLoop, RestartLoop, Park]


def test_sessions_that_change_nothing_get_a_note_and_then_a_clean_start():
    night = Trial()
    for _ in range(3):
        night.session(kind=Kind.NOOP)
    (tell,) = night.go_on()
    assert tell.template == "repair-idle"
    for _ in range(3):
        night.session(kind=Kind.NOOP)
    assert night.go_on() == [RestartLoop(loop="a", reset_to=commit(1))]


def test_sessions_that_undo_one_another_are_told_so():
    night = Trial()
    night.session(score=7.0, of=commit(100))
    night.session(score=7.0, of=commit(101))
    for of in (100, 101):
        night.session(of=commit(of))
    assert night.causes() == [Cause.UNDOING]


def test_the_same_call_and_result_in_every_session_is_told():
    night = Trial()
    for n in range(3):
        night.session(score=7.0)
        ended = night.entries[-2]
        assert isinstance(ended.body, records.TrajectoryEnded)
        night.entries[-2] = replace(ended, body=replace(ended.body, repeated="d1"))
        assert night.causes() == ([Cause.REPEATING] if n == 2 else [])


@pytest.mark.parametrize("kind", [Kind.OVERLOADED, Kind.SIGNALLED, Kind.PANE_LOST, Kind.STOPPED, Kind.AUTH])
def test_what_infra_or_a_person_did_never_counts_against_a_loop(kind):
    night = Trial()
    for _ in range(40):
        night.session(kind=kind)
        assert night.go_on() == []
    assert night.causes() == []


def test_a_slow_verifier_is_nobodys_fault():
    night = Trial()
    for _ in range(40):
        night.session(score=9.0, judged=False)
        assert [a for a in night.go_on() if not isinstance(a, actions.Verify)] == []
    assert night.causes() == []


def test_a_persons_commits_are_never_reset_over():
    night = Trial()
    night.session(score=9.0)
    best = night.heads["a"]
    persons = night.heads["a"] = commit(500)
    for _ in range(3):
        night.session(score=2.0)
    (pause,) = night.go_on()
    assert pause == Pause(loop="a")
    (why,) = [e.body.why for e in night.entries if isinstance(e.body, events.ActionIntended)]
    assert persons[:12] in why
    assert "ralphd restart --clean a" in why
    assert not [o for o in offers(fold(night.entries), "a") if o.rung is Rung.RESTART]
    (notify,) = night.go_on()
    assert isinstance(notify, actions.Notify)
    assert night.go_on() == []
    assert night.go_on(now=night.now + 24 * HOUR_S) == []
    night.acted(actions.Resume(loop="a"), "a", actions.ASKED, by="operator")
    night.session(score=10.0)
    safe = night.heads["a"]
    for _ in range(3):
        night.session(score=2.0)
    assert night.go_on() == [RestartLoop(loop="a", reset_to=safe)]
    assert best != safe


def test_a_commit_of_a_repair_or_a_restart_is_no_persons():
    night = Trial()
    night.session(score=9.0)
    night.heads["a"] = commit(600)
    repaired = records.Repaired(outcome=Outcome(kind=Kind.BRANCH_MOVED), what="it is back", ref="refs/x")
    night.say(repaired, "a")
    night.session(score=2.0)
    assert fold(night.entries).loops["a"].past.visited == ""


def test_changed_protected_files_are_put_back_once_a_commit():
    night = Trial()
    night.session(score=9.0, verdict_kind=Kind.TAMPERED)
    entry = night.entries[-1]
    assert isinstance(entry.body, events.VerdictGiven)
    tampered = replace(entry.body.verdict, tampered=("tests/a.py",))
    night.entries[-1] = replace(entry, body=replace(entry.body, verdict=tampered))
    done = night.go_on()
    assert actions.Restore(loop="a", paths=("tests/a.py",), commit=night.heads["a"]) in done
    assert [a for a in night.go_on() if isinstance(a, actions.Restore)] == []


def test_a_session_that_goes_round_in_circles_is_told_while_it_runs():
    night = Trial()
    night.session(score=9.0)
    night.began("a", 2, head=night.heads["a"])
    night.say(records.Repeating(times=20, errors=True, file="log", start=10, end=20), "a", 2)
    (tell,) = night.go_on()
    assert (tell.template, tell.now) == ("repair-stuck", True)
    assert "the session that runs" in tell.slots["reason"]
    assert night.go_on() == []
    night.sessions["a"] = 2
    night.ended("a", 2, Kind.REPEATING, before=night.heads["a"])
    assert night.go_on() == []


def test_restarts_that_help_nothing_are_no_more_than_three_an_hour():
    night = Trial()
    for _ in range(60):
        night.session(kind=Kind.NOOP)
        night.go_on()
    intents = [e for e in night.entries if isinstance(e.body, events.ActionIntended) and e.body.type == "RestartLoop"]
    at = [entry.at for entry in intents]
    assert len(at) > 4
    assert max(sum(since <= one < since + HOUR_S for one in at) for since in at) == 3
