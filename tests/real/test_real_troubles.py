"""Every trouble with the model, met by each real agent CLI, ends with its right name and is sat out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from support.clients import Client
from support.model_script import Answer, bash, fault, reset, say, stall, too_long, truncate
from support.stage import Stage

from ralphd.pane.gatekeeper import OWN_RETRIES_FROM
from ralphd.pane.prompt import GO_ON

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

PAUSE_S = 2.0  # that a server asks for
SILENCE_S = 4.0
STALE = stall("delta", 600)
WELL = say("finished")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What the model answers, again and again the last; how the session or the attempt ends; why so, where arguable."""

    name: str
    answers: tuple[Answer, ...]
    kind: str
    why: str = ""
    stream_s: float = 600.0


def lasting(name: str, trouble: Answer, kind: str, why: str = "", **more: float) -> Scene:
    return Scene(name=name, answers=(trouble,), kind=kind, why=why, **more)


def passing(name: str, *troubles: Answer, why: str) -> Scene:
    """The CLI itself sits it out, and nothing ends."""
    return Scene(name=name, answers=(*troubles, WELL), kind="done.noop", why=why)


SCENES = (
    lasting("429", fault(429), "inference.rate_limited"),
    lasting("429, come back in 2 s", fault(429, retry_after_s=PAUSE_S), "inference.rate_limited"),
    lasting("500", fault(500), "inference.connection"),
    lasting("529", fault(529, "Overloaded"), "inference.overloaded"),
    lasting("reset", reset(), "inference.connection"),
    lasting("truncated", truncate(), "inference.truncated"),
    lasting("401", fault(401, "invalid key"), "inference.auth"),
    lasting("too long", too_long(), "inference.context_overflow"),
    lasting("silence", STALE, "inference.stalled", stream_s=SILENCE_S),
)
WORK = bash("echo worked")
CHAIN = (fault(429), WORK, fault(429, retry_after_s=PAUSE_S), WORK, fault(500), WORK, fault(529), WORK, reset())
IN_A_ROW = passing("one after another", *CHAIN, why="each start of this CLI takes 8 s of a processor: one must do")
BY_ITSELF = "it waits by itself for ever, and tells of each wait"
NO_REASON = "it tells only that the stream has no end, whatever ended it"
DIFFERENT: dict[str, tuple[Scene, ...]] = {
    "claude": (
        passing("429", fault(429), fault(429), why=BY_ITSELF),
        passing("429, come back in 2 s", fault(429, retry_after_s=PAUSE_S), why=BY_ITSELF),
        passing("529", fault(529), fault(529), why=BY_ITSELF),
        lasting("truncated", truncate(), "inference.connection", "it asks again without streaming, which is cut too"),
    ),
    "codex": (
        lasting("500", fault(500), "inference.overloaded", "it tells of high demand, and no status"),
        lasting("silence", STALE, "inference.stalled", "by its own clock: it tells nothing that ours could go by"),
    ),
    "gemini": (lasting("reset", reset(), "inference.truncated", NO_REASON),),
    "qwen": (
        passing("429", fault(429), fault(429), why=BY_ITSELF),
        passing("429, come back in 2 s", fault(429, retry_after_s=PAUSE_S), why=BY_ITSELF),
        passing("529", fault(529, "Overloaded"), fault(529, "Overloaded"), why=BY_ITSELF),
        lasting("reset", reset(), "inference.truncated", NO_REASON),
    ),
}
# opencode waits 79 s before it gives up on a server: see below. mini-swe-agent asks for whole answers: silence tells nothing, and nothing can be truncated.
CHOSEN = {
    "opencode": ("truncated", "401", "too long", "silence"),
    "mini": ("429", "500", "529", "401", "too long"),
}
LOSES_NOTHING = {"opencode": "truncated"}  # the scene before which it works, and after which it goes on; else the 500s


def scenes(cli: str) -> tuple[Scene, ...]:
    different = {scene.name: scene for scene in DIFFERENT.get(cli, ())}
    chosen = CHOSEN.get(cli)
    if chosen is None:
        return tuple(different.get(scene.name, scene) for scene in SCENES)
    return (IN_A_ROW, *(scene for scene in SCENES if scene.name in chosen))


def test_each_trouble_has_its_name_and_a_session_goes_on_after_it(stage: Callable[..., Stage], client: Client) -> None:
    here = stage(backoff_min_s=0.01, backoff_max_s=0.05)
    found = {}
    for scene in scenes(client.name):
        works_before = (WORK,) if scene.name == LOSES_NOTHING.get(client.name, "500") else ()
        ended = here.show(*works_before, *scene.answers, stream_s=scene.stream_s)
        found[scene.name] = ended["body"]["outcome"]["kind"]
    assert found == {scene.name: scene.kind for scene in scenes(client.name)}
    taken_up = [request for request in here.server.seen() if GO_ON.decode().strip() in request.news]
    assert any(request.turn > 0 for request in taken_up)
    assert not here.server.strangers
    assert here.loop.stop() == 0
    assert here.loop.left() == []


# It tells no status of what it waits for, only the server's words.
WAITED_FOR = (
    lasting("429", fault(429, "Rate limit reached for requests"), "inference.rate_limited"),
    lasting("500", fault(500, "The server had an error"), "inference.connection"),
    lasting("529", fault(529, "Overloaded"), "inference.overloaded"),
)


@pytest.mark.parametrize("client", ["opencode"], indirect=True)
def test_what_opencode_would_wait_for_is_named_and_left_to_the_gate_of_its_account(stage: Callable[..., Stage]) -> None:
    here = stage(backoff_min_s=0.01, backoff_max_s=0.05)
    here.loop.assign(replace(here.loop.assignment, account="shared"))
    found = {}
    for scene in WAITED_FOR:
        before = len([request for request in here.server.seen() if request.kind == "main"])
        outcome = here.show(WORK, *scene.answers)["body"]["outcome"]
        found[scene.name] = outcome["kind"]
        assert outcome["detail"]["client_wait_s"] > 0
        # One that works, one that is refused, and the client's first own retry, which the gate takes for a hiccup.
        asked = len([request for request in here.server.seen() if request.kind == "main"]) - before
        assert 2 <= asked <= 1 + OWN_RETRIES_FROM
    assert found == {scene.name: scene.kind for scene in WAITED_FOR}
    assert here.loop.stop() == 0
    assert here.loop.left() == []
