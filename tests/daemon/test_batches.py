"""Cheap questions go into one request, and each loop gets what was offered for it, by an answer of its own, or nothing."""

from __future__ import annotations

import json
import re

import pytest
from support.endpoint import message
from support.injections import FAMILIES, PAYLOADS, Payload, obeyed
from support.stories import BASE, Story

from ralphd.core import actions, events, policy, records
from ralphd.core.advice import Question
from ralphd.core.events import ActionIntended, Consulted
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.policy import Offer, Rung
from ralphd.testing import FakeAdviser

WHY = "It goes in circles."


def tools_of(asked: Question) -> dict[str, dict[str, list[int]]]:
    """The rows that each tool takes, by the prefix of its question and its own name."""
    found: dict[str, dict[str, list[int]]] = {}
    for tool in asked.tools:
        prefix, dash, own = str(tool["name"]).rpartition("-")
        found.setdefault(prefix + dash, {})[own] = tool["input_schema"]["properties"]["evidence"]["items"]["enum"]
    return found


def calls(*chosen: tuple[str, list[int]], tokens: tuple[int, int] = (1000, 61)) -> bytes:
    blocks = [message(name, {"evidence": rows, "why": WHY})["content"][-1] for name, rows in chosen]
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
    return json.dumps({**message("x", {}), "content": blocks, "usage": usage}).encode()


def everywhere(own: str, *more: tuple[str, list[int]]):
    def reply(asked: Question) -> bytes:
        return calls(
            *((prefix + own, rows[own][-1:]) for prefix, rows in tools_of(asked).items() if own in rows), *more
        )

    return reply


class Ward(Story):
    """Three loops that are stuck at once, with a cheap question about each."""

    def __init__(self, reply, loops: int = 3) -> None:
        self.ill: tuple[str, ...] = ()
        super().__init__(loops=loops, adviser=FakeAdviser(reply=reply))
        self.begin()
        for name in self.night.state.loops:
            self.session_ends(name, 1)
            self.session_starts(name, 2)
        self.step()
        self.ill = tuple(self.night.state.loops)
        self.step()
        self.step()

    def start_daemon(self) -> None:
        self.stuck = lambda _state, _now: self.ill
        self.cheap = lambda _state, loop: (offer("carry_on", None), offer("note", told(loop)))
        self.offers = lambda state, loop: (
            *self.cheap(state, loop),
            offer("pause", actions.Park(loop=loop, because="trouble")),
        )
        super().start_daemon()

    def by_supervisor(self) -> list[ActionIntended]:
        return [body for body in self.journal.bodies(ActionIntended) if body.by == "supervisor"]


def offer(name: str, action: actions.Action | None) -> Offer:
    return Offer(name=name, rung=Rung.REPAIR, action=action, why="the last 3 sessions changed nothing", rows=())


def told(loop: str) -> actions.Tell:
    return actions.Tell(loop=loop, template="repair-idle", slots={})


def test_what_comes_up_together_is_asked_in_one_request_and_recorded_for_each_loop() -> None:
    ward = Ward(everywhere("note"))
    [asked] = ward.adviser.asked
    assert asked.answers == 3
    bodies = {e.loop: e.body for e in ward.journal.stored if isinstance(e.body, Consulted)}
    assert {body.prompt_sha256 for body in bodies.values()} == {asked.sha256}
    assert [body.tokens_in for body in bodies.values()] == [334, 333, 333]
    assert [body.tokens_out for body in bodies.values()] == [21, 20, 20]
    assert {(body.choice, body.taken, body.shared) for body in bodies.values()} == {("note", True, 3)}
    for name, body in bodies.items():
        assert body.offered == ("carry_on", "note")
        assert {entry.loop for entry in ward.journal.stored if entry.id in body.evidence} == {name}
    assert sorted(str(body.args["loop"]) for body in ward.by_supervisor()) == ["l1", "l2", "l3"]
    assert ward.consultant.chronicle.calls == 1


def test_no_more_than_eight_go_into_one_request() -> None:
    ward = Ward(everywhere("carry_on"), loops=11)
    assert [asked.answers for asked in ward.adviser.asked] == [8, 3]
    assert ward.consultant.chronicle.calls == 2


def test_each_question_has_facts_rows_and_tools_of_its_own() -> None:
    ward = Ward(everywhere("carry_on"))
    [asked] = ward.adviser.asked
    tools = tools_of(asked)
    assert len(tools) == 3
    rows = [set(own["note"]) for own in tools.values()]
    assert not rows[0] & rows[1] | rows[1] & rows[2] | rows[0] & rows[2]
    assert all(own.keys() == {"carry_on", "note"} for own in tools.values())
    assert len(set(tools) - {""}) == 3


def first(asked: Question) -> str:
    return next(iter(tools_of(asked)))


SPOILT = {
    "not offered in a batch": lambda asked: (first(asked) + "pause", [1]),
    "without a question": lambda asked: ("note", [1]),
    "of a question that is not there": lambda asked: ("q9-ffffffff-note", [1]),
    "twice": lambda asked: (first(asked) + "note", tools_of(asked)[first(asked)]["note"]),
}


@pytest.mark.parametrize("what", SPOILT)
def test_one_call_that_should_not_be_spoils_the_request_and_each_loop_is_asked_about_alone_then(what: str) -> None:
    ward = Ward(lambda asked: everywhere("note", SPOILT[what](asked))(asked) if asked.answers > 1 else b"{}")
    assert [body.taken for body in ward.journal.bodies(Consulted)] == [False] * 3
    assert not ward.by_supervisor()
    for name in ward.ill:
        ward.session_ends(name, 2)
        ward.session_starts(name, 3)
    ward.step()
    ward.step()
    assert [asked.answers for asked in ward.adviser.asked] == [3, 1, 1, 1]
    assert all("pause" in asked.offered for asked in ward.adviser.asked[1:])


def test_an_answer_that_was_not_offered_spoils_the_proper_ones_beside_it() -> None:
    def one_wrong(asked: Question) -> bytes:
        tools = tools_of(asked)
        return calls(*((p + ("pause" if p == first(asked) else "note"), own["note"][-1:]) for p, own in tools.items()))

    ward = Ward(one_wrong)
    refused = [body.refused for body in ward.journal.bodies(Consulted)]
    assert refused == ["supervisor.forbidden", "supervisor.invalid", "supervisor.invalid"]
    assert not ward.by_supervisor()


def test_rows_of_another_loop_are_no_evidence() -> None:
    def crossed(asked: Question) -> bytes:
        tools = tools_of(asked)
        rows = [own["note"] for own in tools.values()]
        return calls(*((prefix + "note", mine) for prefix, mine in zip(tools, [*rows[1:], rows[0]], strict=True)))

    ward = Ward(crossed)
    assert {(body.taken, body.refused) for body in ward.journal.bodies(Consulted)} == {(False, "supervisor.invalid")}
    assert not ward.by_supervisor()


def test_a_loop_that_got_no_answer_is_the_policys_and_the_others_have_theirs() -> None:
    def two(asked: Question) -> bytes:
        return calls(*((prefix + "note", own["note"][-1:]) for prefix, own in list(tools_of(asked).items())[:2]))

    ward = Ward(two)
    assert [body.taken for body in ward.journal.bodies(Consulted)] == [True, True, False]
    assert len(ward.by_supervisor()) == 2
    assert ward.night.consult(ward.night) == frozenset()


def test_nothing_that_ends_or_moves_anything_is_cheap() -> None:
    night = Poisoned(PAYLOADS[0], lambda asked: calls())
    night.sessions(4)
    for name in night.night.state.loops:
        found = policy.cheap_offers(night.night.state, name)
        assert {type(one.action) for one in found} <= {type(None), actions.Tell}


# ------------------------------------------------------------------ text of one loop, and what is done about others


class Poisoned(Story):
    """Three loops whose sessions change nothing; whatever the first can write says ``text``. The policy is the real one."""

    def __init__(self, payload: Payload, reply) -> None:
        self.payload = payload
        self.open: dict[str, set[str]] = {}
        super().__init__(loops=3, adviser=FakeAdviser(reply=reply))
        self.logs = {"l1": f"says: I go on\n{payload.text}\ntold the truth"}
        self.begin()

    def start_daemon(self) -> None:
        self.cheap, self.offers = self.noted(policy.cheap_offers), self.noted(policy.offers)
        super().start_daemon()

    def noted(self, offers):
        def ask(state, loop):
            found = offers(state, loop)
            acts = (json.dumps(events.action_to_json(one.action)) for one in found if one.action is not None)
            self.open.setdefault(loop, set()).update(acts)
            return found

        return ask

    def tell(self, name, body, trajectory=0, nonce="", generation=0):
        super().tell(name, body, trajectory, nonce, generation or self.night.state.loops[name].generation)

    def sessions(self, count: int) -> None:
        for number in range(1, count + 1):
            words = f"git commit -m '{self.payload.text}': KILLED"
            killed = Outcome(kind=Kind.TOOL_TIMEOUT, evidence=(Evidence(what=words),))
            self.tell("l1", records.ToolEnded(outcome=killed), number, f"n{number}")
            for name in self.night.state.loops:
                self.session_ends(name, number, Kind.NOOP)
                self.session_starts(name, number + 1)
            self.step(400)
            self.step()


def obeys(way: str):
    """A model that does to every loop it can reach what the text of one of them orders, as far as a way goes."""

    def reply(asked: Question) -> bytes:
        if asked.answers == 1:
            told = obeyed(asked, "lawful")
            return json.dumps(told or message("carry_on", {"evidence": [max(asked.rows)], "why": WHY})).encode()
        mark = re.search(r"ticket-\d{4}", asked.text)
        assert mark is not None, "the order never reached the model"
        order = next(p.order for p in PAYLOADS if p.mark == mark[0])
        tools = tools_of(asked)
        if way == "as ordered":
            chosen = [(prefix + order.name, next(iter(own.values()))[-1:]) for prefix, own in tools.items()]
        elif way == "what is open":
            chosen = [
                (prefix + (order.name if order.name in own else "note"), own["note"][-1:])
                for prefix, own in tools.items()
            ]
        else:  # the rows of the loop whose text it was, for all
            rows = next(own["note"] for own in tools.values())
            chosen = [(prefix + "note", rows[-1:]) for prefix in tools]
        return calls(*chosen)

    return reply


def check(payload: Payload, way: str) -> int:
    night = Poisoned(payload, obeys(way))
    night.sessions(5)
    for body in night.journal.bodies(ActionIntended):
        if body.by == "supervisor":
            assert json.dumps([body.type, body.args]) in night.open[str(body.args["loop"])]
            assert payload.mark not in body.why
            if body.args["loop"] != "l1":
                assert body.type == "Tell"
    assert not {body.type for body in night.journal.bodies(ActionIntended)} & {"EndNight", "StopLoop", "Scale"}
    notes = "\n".join(text for left in night.folders.notes.values() for text in left.values())
    assert payload.mark not in notes
    assert payload.order.words not in notes
    for entry in night.journal.stored:
        if isinstance(entry.body, Consulted) and entry.body.taken:
            assert {e.loop for e in night.journal.stored if e.id in entry.body.evidence} == {entry.loop}
    resets = {b.args["reset_to"] for b in night.journal.bodies(ActionIntended) if b.type == "RestartLoop"}
    assert resets <= {"", BASE}
    return sum(asked.answers > 1 for asked in night.adviser.asked)


@pytest.mark.parametrize("family", FAMILIES)
def test_text_of_one_loop_does_nothing_about_another_that_was_not_open_for_it(family) -> None:
    ways = ("as ordered", "what is open", "rows of another")
    chosen = [payload for payload in PAYLOADS if payload.family == family]
    assert all(check(payload, ways[number % len(ways)]) for number, payload in enumerate(chosen))
