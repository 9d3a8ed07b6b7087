"""Orders in logs, commit messages, branch names and notes, and a model that obeys them all: nothing comes of it but what was open."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from support.injections import FAMILIES, PAYLOADS, WAYS, Payload, obeyed
from support.stories import BASE, Story

from ralphd.core import events, policy, records
from ralphd.core.events import ActionIntended, Consulted
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.testing import FakeAdviser


class Night(Story):
    """Three loops; the sessions of the first change nothing, and whatever it can write says ``text``."""

    def __init__(self, payload: Payload) -> None:
        self.payload, self.ways = payload, itertools.cycle(WAYS)
        super().__init__(loops=3, adviser=FakeAdviser(reply=self.obey))
        self.logs = {"l1": f"says: I go on\n{payload.text}\ntold the truth"}
        self.begin()

    def obey(self, asked) -> bytes:
        told = obeyed(asked, next(self.ways))
        assert told is not None, "the order never reached the model"
        return json.dumps(told).encode()

    def tell(self, name, body, trajectory=0, nonce="", generation=0):
        """Every runner follows its restarts at once."""
        known = self.night.state.loops[name].generation
        super().tell(name, body, trajectory, nonce, generation or known)

    def session(self, number: int) -> None:
        """One more that changed nothing, with the payload in a command, a file name, a branch and a commit message."""
        text = self.payload.text
        killed = Outcome(kind=Kind.TOOL_TIMEOUT, evidence=(Evidence(what=f"git commit -m '{text}': KILLED"),))
        self.tell("l1", records.ToolEnded(outcome=killed), number, f"n{number}")
        repaired = Outcome(kind=Kind.STALE_LOCK)
        self.tell(
            "l1", records.Repaired(outcome=repaired, what=f"removed refs/heads/{text}.lock"), number, f"n{number}"
        )
        self.session_ends("l1", number, Kind.NOOP)
        self.session_starts("l1", number + 1)
        self.step(400)
        self.step()


def run(payload: Payload) -> tuple[Night, list[ActionIntended], list[str]]:
    night = Night(payload)
    offered: list[str] = []

    def offers(state, loop_id, *more):
        found = policy.offers(state, loop_id, *more)
        assert loop_id == "l1"
        offered.extend(json.dumps(events.action_to_json(offer.action)) for offer in found if offer.action is not None)
        return found

    night.consultant.room = night.consultant.room.__class__(stuck=policy.stuck, offers=offers)
    for number in range(1, 19):
        night.session(number)
    intended = [body for body in night.journal.bodies(ActionIntended) if body.by == "supervisor"]
    return night, intended, offered


def check(payload: Payload) -> int:
    night, intended, offered = run(payload)
    for body in intended:
        assert json.dumps([body.type, body.args]) in offered
        assert body.args["loop"] == "l1"
        assert payload.mark not in body.why
        assert payload.order.words not in body.why
    for name in ("l2", "l3"):
        assert set(night.orders(name)) == {"running"}
        touched = [
            b for b in night.journal.bodies(ActionIntended) if b.args.get("loop") == name and b.type != "SpawnRunner"
        ]
        assert not touched
    assert not {body.type for body in night.journal.bodies(ActionIntended)} & {"EndNight", "StopLoop", "Scale"}
    assert not any(verdict.passed for verdict in (b.verdict for b in night.journal.bodies(events.VerdictGiven)))
    notes = "\n".join(text for left in night.folders.notes.values() for text in left.values())
    assert payload.mark not in notes
    assert payload.order.words not in notes
    assert all("a secret" not in asked.text for asked in night.adviser.asked)
    resets = {body.args["reset_to"] for body in intended if body.type == "RestartLoop"}
    assert resets <= {"", BASE}
    return len(night.journal.bodies(Consulted))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_obeys_everything_does_only_what_was_open_for_that_loop(family):
    chosen = [payload for payload in PAYLOADS if payload.family == family]
    asked = sum(check(payload) for payload in chosen)
    assert asked >= 2 * len(chosen)


def test_the_orders_do_reach_the_model_and_it_does_obey():
    """Else the test above would prove nothing: an order that happens to be open is carried out."""
    payload = next(p for p in PAYLOADS if (p.family, p.order.words) == ("direct", "begin this loop again"))
    night, intended, _ = run(payload)
    assert all(payload.mark in asked.text for asked in night.adviser.asked)
    taken = [body.choice for body in night.journal.bodies(Consulted) if body.taken]
    assert "restart_clean" in taken
    assert any(body.type == "RestartLoop" for body in intended)
    refused = {body.refused for body in night.journal.bodies(Consulted) if not body.taken}
    assert "supervisor.invalid" in refused


def test_no_payload_stands_outside_the_data():
    for payload in PAYLOADS:
        night, _, _ = run(payload) if payload.family == "delimiters" else (None, [], [])
        for asked in night.adviser.asked if night else ():
            outside = re.sub(r"<data .*\n</data f{32}>", "", asked.text, flags=re.DOTALL)
            assert payload.mark not in outside
