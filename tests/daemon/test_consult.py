"""A model is asked about loops in trouble, within bounds; nothing it says is done unless it is offered, fresh and vetted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.endpoint import message
from support.garbage import garbage
from support.stories import Story

from ralphd.core import actions, events
from ralphd.core.actions import Action
from ralphd.core.advice import Question
from ralphd.core.errors import AdviserError
from ralphd.core.events import Consulted
from ralphd.core.outcomes import Kind
from ralphd.core.policy import Offer, Rung
from ralphd.daemon.inbox import Reached
from ralphd.testing import FakeAdviser

TROUBLE = "the last 3 sessions changed nothing at all"


def open_(name: str, action: Action | None = None) -> Offer:
    return Offer(name=name, rung=Rung.CARRY_ON, action=action, why=TROUBLE, rows=(), cause="idle")


def choose(name: str, why: str = "It goes in circles."):
    def reply(asked: Question) -> bytes:
        return json.dumps(message(name, {"evidence": [max(asked.rows)], "why": why})).encode()

    return reply


class Ward(Story):
    """A night in which the loops named in ``ill`` are stuck, with four things open for each."""

    def __init__(self, reply=None, **more) -> None:
        self.ill: list[str] = []
        super().__init__(adviser=FakeAdviser(reply=reply or choose("pause")), **more)
        self.adviser: FakeAdviser
        self.begin()
        self.step()

    def start_daemon(self) -> None:
        self.stuck = lambda _state, _now: tuple(self.ill)
        self.offers = lambda _state, loop: (
            open_("carry_on"),
            open_("restart_clean", actions.RestartLoop(loop=loop, reset_to="c" * 40)),
            open_("pause", actions.Pause(loop=loop)),
        )
        super().start_daemon()

    def falls_ill(self, name: str, sessions: int = 1) -> None:
        """It ends sessions without a commit, and from then on counts as stuck."""
        for _ in range(sessions):
            number = self.loop_state(name).trajectory
            self.session_ends(name, number)
            self.session_starts(name, number + 1)
            self.step()
        self.ill = [*self.ill, name]
        self.step()
        self.step()

    def consulted(self) -> list[Consulted]:
        return self.journal.bodies(Consulted)

    def noted(self, kind: Kind) -> int:
        return sum(body.outcome.kind is kind for body in self.journal.bodies(events.OutcomeNoted))

    def by_supervisor(self) -> list[events.ActionIntended]:
        return [body for body in self.journal.bodies(events.ActionIntended) if body.by == "supervisor"]


def test_what_it_chooses_of_what_is_offered_is_done_and_recorded():
    ward = Ward(choose("pause"))
    ward.falls_ill("l1", 2)
    (body,) = ward.consulted()
    assert (body.choice, body.taken, body.offered) == ("pause", True, ("carry_on", "restart_clean", "pause"))
    assert body.prompt_sha256 == ward.adviser.asked[0].sha256
    assert (body.tokens_in, body.tokens_out, body.why, body.trouble) == (1000, 60, "It goes in circles.", TROUBLE)
    assert body.evidence
    assert {entry.loop for entry in ward.journal.stored if entry.id in body.evidence} == {"l1"}
    (intended,) = ward.by_supervisor()
    assert (intended.type, intended.args["loop"], intended.why) == ("Pause", "l1", TROUBLE)
    assert ward.orders("l1")[-1] == "paused"
    assert "paused" not in ward.orders("l2")


def test_it_is_told_of_one_loop_only():
    ward = Ward(choose("carry_on"))
    ward.logs = {"l1": "says: a secret of the daemon, and more", "l2": "the log of another"}
    ward.falls_ill("l1")
    (asked,) = ward.adviser.asked
    assert "[redacted], and more" in asked.text
    assert "another" not in asked.text
    others = {entry.id for entry in ward.journal.stored if entry.loop != "l1"}
    assert asked.rows
    assert not asked.rows & others


def test_left_alone_by_advice_until_the_next_session_has_ended():
    ward = Ward(choose("carry_on"))
    ward.falls_ill("l1")
    assert ward.night.consult(ward.night) == {"l1"}
    for _ in range(50):
        ward.step(60)
    assert len(ward.adviser.asked) == 1
    assert ward.night.consult(ward.night) == {"l1"}
    ward.ill = []
    ward.falls_ill("l1")
    assert len(ward.adviser.asked) == 2


def test_garbage_is_typed_and_does_nothing_and_the_loop_is_the_policys():
    ward = Ward()
    ward.budget = 1000
    ward.start_daemon()
    corpus = garbage(
        ("carry_on", "restart_clean", "pause"), frozenset({max(e.id for e in ward.journal.stored) + 10**9})
    )
    bodies = iter(corpus)
    ward.adviser.reply = lambda _: next(bodies)[1]
    ward.step()
    ward.ill = ["l1"]
    for number in range(1, len(corpus) + 1):
        ward.session_ends("l1", number)
        ward.session_starts("l1", number + 1)
        ward.step(1300)
        ward.step()
        assert ward.night.consult(ward.night) == frozenset()
    assert len(ward.consulted()) == len(corpus)
    assert not any(body.taken for body in ward.consulted())
    assert ward.noted(Kind.SUPERVISOR_INVALID) + ward.noted(Kind.SUPERVISOR_FORBIDDEN) == len(corpus)
    assert not ward.by_supervisor()
    assert set(ward.orders("l1")) == {"running"}


def test_what_was_not_offered_is_forbidden():
    ward = Ward(choose("scale"))
    ward.falls_ill("l1")
    assert ward.consulted()[0].refused == "supervisor.forbidden"
    assert ward.noted(Kind.SUPERVISOR_FORBIDDEN) == 1


def test_an_offer_about_another_loop_is_never_taken():
    """Even if whoever offers it were wrong."""
    ward = Ward(choose("pause"))
    ward.consultant.room = ward.consultant.room.__class__(
        stuck=ward.stuck, offers=lambda _s, _l: (open_("pause", actions.Pause(loop="l2")),)
    )
    ward.falls_ill("l1")
    assert ward.consulted()[0].refused == "supervisor.forbidden"
    assert not ward.by_supervisor()


class Slow(list):
    """Calls that end when ``run`` is called."""

    def run(self):
        calls, self[:] = list(self), []
        for call in calls:
            call()


def slowly(ward: Ward) -> Slow:
    pool = Slow()
    ward.consultant.run = pool.append
    return pool


def test_the_policy_waits_half_a_minute_and_no_longer():
    ward = Ward(choose("pause"))
    pool = slowly(ward)
    ward.falls_ill("l1")
    assert ward.night.consult(ward.night) == {"l1"}
    ward.step(31)
    assert ward.night.consult(ward.night) == frozenset()
    pool.run()
    ward.drain()
    ward.step()
    assert ward.consulted()[0].refused == "supervisor.stale"
    assert not ward.by_supervisor()


@pytest.mark.parametrize("change", ["generation", "cured", "gone"])
def test_an_answer_about_what_is_over_is_stale(change):
    ward = Ward(choose("pause"))
    pool = slowly(ward)
    ward.falls_ill("l1")
    if change == "generation":
        ward.ask("restart", loops=["l1"])
    elif change == "cured":
        ward.ill = []
    else:
        ward.consultant.room = ward.consultant.room.__class__(
            stuck=ward.stuck, offers=lambda _s, _l: (open_("carry_on"),)
        )
    pool.run()
    ward.drain()
    ward.step()
    (body,) = ward.consulted()
    assert (body.taken, body.refused) == (False, "supervisor.stale")
    assert not ward.intents("Pause")


def test_what_the_policy_refuses_is_refused():
    ward = Ward(choose("pause"))
    pool = slowly(ward)
    ward.falls_ill("l1")
    ward.ask("stop", loops=["l1"])
    pool.run()
    ward.drain()
    ward.step()
    assert ward.consulted()[0].refused == "supervisor.forbidden"


def test_no_loop_is_asked_about_more_than_three_times_an_hour():
    ward = Ward(choose("restart_clean"))
    ward.ill = ["l1"]
    for number in range(1, 30):
        ward.session_ends("l1", number)
        ward.session_starts("l1", number + 1)
        ward.step(60)
        ward.step()
    assert len(ward.adviser.asked) == 3
    ward.step(3600)
    ward.session_ends("l1", 30)
    ward.session_starts("l1", 31)
    ward.step()
    ward.step()
    assert len(ward.adviser.asked) == 4


def test_a_night_has_a_budget_that_a_new_daemon_keeps_to():
    ward = Ward(choose("carry_on"), loops=4)
    ward.consultant.budget = 2
    for name in ("l1", "l2", "l3"):
        ward.falls_ill(name)
    assert len(ward.adviser.asked) == 2
    ward.budget = 2
    ward.start_daemon()
    ward.ill = ["l4"]
    ward.step()
    ward.step()
    assert len(ward.adviser.asked) == 2
    assert ward.consultant.chronicle.calls == 2


def test_few_are_asked_at_once_and_the_rest_is_the_policys():
    ward = Ward(choose("carry_on"), loops=12)
    for number in range(1, 13):
        ward.session_ends(f"l{number}", 1)
    ward.step()
    pool = slowly(ward)
    ward.ill = [f"l{n}" for n in range(1, 13)]
    ward.step()
    assert len(pool) == 4
    assert len(ward.night.consult(ward.night)) == 4


def test_the_same_advice_three_times_without_effect_is_futile():
    ward = Ward(choose("restart_clean"))
    ward.ill = ["l1"]
    for number in range(1, 7):
        ward.session_ends("l1", number)
        ward.session_starts("l1", number + 1)
        ward.step(1300)
        ward.step()
    told = [(body.taken, body.refused) for body in ward.consulted()]
    assert told[:4] == [(True, ""), (True, ""), (True, ""), (False, "supervisor.futile")]
    assert ward.noted(Kind.SUPERVISOR_FUTILE) >= 1


# ---------------------------------------------------------------------------------------------- the endpoint


def test_an_endpoint_that_is_down_is_told_once_probed_and_asked_nothing():
    ward = Ward()
    ward.adviser.down = AdviserError("refused", floor_s=0.0)
    ward.falls_ill("l1")  # the first question finds it out
    assert len(ward.adviser.asked) == 1
    for number in range(2, 200):
        ward.session_ends("l1", number)
        ward.session_starts("l1", number + 1)
        ward.step(60)
        assert ward.night.consult(ward.night) == frozenset()
    assert len(ward.adviser.asked) == 1
    assert ward.noted(Kind.SUPERVISOR_UNAVAILABLE) == 1
    assert 20 < ward.adviser.probes < 200
    assert not ward.consulted()
    assert any("the policy decides alone" in line for line in ward.daemon.troubles.values())
    ward.adviser.down = None
    ward.step(400)
    ward.step()
    ward.session_ends("l1", 200)
    ward.session_starts("l1", 201)
    ward.step()
    ward.step()
    assert len(ward.adviser.asked) > 1
    assert "model" not in ward.daemon.troubles


def test_an_endpoint_that_comes_and_goes_is_no_flood():
    ward = Ward()
    ward.falls_ill("l1")
    for number in range(2, 100):
        ward.adviser.down = AdviserError("refused") if number % 2 else None
        ward.session_ends("l1", number)
        ward.session_starts("l1", number + 1)
        ward.step(300)
        ward.step()
    hours = 100 * 300 / 3600
    assert 1 <= ward.noted(Kind.SUPERVISOR_UNAVAILABLE) <= hours + 1


def test_whatever_breaks_in_a_call_is_an_endpoint_that_is_down():
    def reply(_asked):
        raise ZeroDivisionError

    ward = Ward(reply)
    ward.falls_ill("l1")
    assert ward.noted(Kind.SUPERVISOR_UNAVAILABLE) == 1
    assert not ward.by_supervisor()


def test_without_a_model_nobody_is_asked_or_probed():
    ward = Ward()
    ward.adviser.model = ""
    ward.falls_ill("l1", 3)
    ward.step(10_000)
    assert not ward.adviser.asked
    assert ward.night.consult(ward.night) == frozenset()
    assert ward.noted(Kind.SUPERVISOR_UNAVAILABLE) == 0


def test_an_answer_is_not_settled_while_the_journal_takes_nothing():
    """What it would do could be intended already, and not be known."""
    ward = Ward(choose("pause"))
    pool = slowly(ward)
    ward.falls_ill("l1")
    ward.journal.stuck = "full"
    ward.ask("pause", loops=["l1"])
    pool.run()
    ward.drain()
    assert not ward.consulted()
    ward.journal.unstick()
    ward.drain()
    ward.step()
    assert len(ward.consulted()) == 1
    assert len(ward.intents("Pause")) <= 2


def test_whatever_breaks_in_asking_the_policy_decides():
    """A prompt that is gone, a log that can't be read, a pattern that fails: the coordinator goes on."""
    ward = Ward()

    def broken(*_args):
        raise FileNotFoundError("prompts/supervisor.md")

    ward.consultant.system = broken
    ward.falls_ill("l1")
    assert ward.night.consult(ward.night) == frozenset()
    assert ward.noted(Kind.SUPERVISOR_UNAVAILABLE) == 1
    assert "FileNotFoundError" in ward.consultant.trouble
    ward.session_ends("l2", 1)
    ward.step()
    assert "a step failed" not in str(ward.daemon.troubles)


def test_an_endpoint_that_never_lets_a_call_go_is_down_and_asked_nothing_more():
    ward = Ward(loops=12)
    for number in range(1, 13):
        ward.session_ends(f"l{number}", 1)
    ward.step()
    pool = slowly(ward)
    ward.ill = [f"l{n}" for n in range(1, 13)]
    ward.step()
    held = list(pool)
    pool.clear()
    assert len(held) == 4
    for _ in range(20):
        ward.step(31)
        assert ward.night.consult(ward.night) == frozenset()
    assert ward.noted(Kind.SUPERVISOR_UNAVAILABLE) == 1
    assert len(pool) == 1  # a look whether it answers again, which it holds too


def edit(ward: Ward, **supervisor) -> None:
    ward.edited = replace(ward.edited, supervisor=replace(ward.edited.supervisor, **supervisor))
    ward.daemon._changed("/r/ralphd.toml")
    ward.drain()


def test_an_edit_of_the_supervisor_counts_at_once():
    ward = Ward()
    other = FakeAdviser(reply=choose("restart_clean"), model="other")
    ward.advisers["other"] = other
    edit(ward, model="fake", calls=0, width_max=3)
    ward.falls_ill("l1")
    assert ward.adviser.asked == []
    assert ward.ask("scale", width=4)[0]["code"] == 2
    edit(ward, model="other", calls=5)
    ward.step()
    ward.step()
    assert ward.adviser.asked == []
    assert {body.model for body in ward.consulted()} == {"other"}
    assert {body.type for body in ward.by_supervisor()} == {"RestartLoop"}
    asked = len(other.asked)
    edit(ward, model="")
    ward.falls_ill("l2")
    assert len(other.asked) == asked


def test_what_the_model_before_an_edit_still_says_is_not_heard():
    ward = Ward()
    waiting: list = []
    ward.consultant.run = waiting.append
    ward.falls_ill("l1")
    (asked,) = waiting
    waiting.clear()
    ward.advisers["other"] = FakeAdviser(reply=choose("carry_on"), model="other")
    edit(ward, model="other")
    asked()
    ward.drain()
    assert ward.consulted() == []
    ward.consultant.reached(ward.night, Reached(error=AdviserError("late"), of=0))
    assert ward.consultant.reach.up is None
