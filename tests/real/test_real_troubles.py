"""Every trouble with the model, met by each real agent CLI, ends with its right name and is sat out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from support.clients import Client
from support.model_script import Answer, fault, reset, say, stall, too_long, truncate
from support.stage import Stage

pytestmark = [pytest.mark.real, pytest.mark.slow]

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
BY_ITSELF = "it waits by itself for ever and tells of each wait"
DIFFERENT: dict[str, tuple[Scene, ...]] = {
    "claude": (
        passing("429", fault(429), fault(429), why=BY_ITSELF),
        passing("429, come back in 2 s", fault(429, retry_after_s=PAUSE_S), why=BY_ITSELF),
        passing("529", fault(529), fault(529), why=BY_ITSELF),
        lasting("truncated", truncate(), "inference.connection", "it asks again without streaming, which is cut too"),
    ),
    "qwen": (
        passing("429", fault(429), fault(429), why=BY_ITSELF),
        passing("429, come back in 2 s", fault(429, retry_after_s=PAUSE_S), why=BY_ITSELF),
        passing("529", fault(529, "Overloaded"), fault(529, "Overloaded"), why=BY_ITSELF),
        lasting("reset", reset(), "inference.truncated", "it says only that the stream ended"),
    ),
    "gemini": (lasting("reset", reset(), "inference.truncated", "it says only that the stream ended"),),
}


def scenes(cli: str) -> tuple[Scene, ...]:
    different = {scene.name: scene for scene in DIFFERENT.get(cli, ())}
    return tuple(different.get(scene.name, scene) for scene in SCENES)


def test_each_trouble_has_its_name(stage: Callable[..., Stage], client: Client) -> None:
    here = stage(backoff_min_s=0.01, backoff_max_s=0.05)
    found = {scene.name: played(here, scene) for scene in scenes(client.name)}
    assert found == {scene.name: scene.kind for scene in scenes(client.name)}
    assert not here.server.strangers
    assert here.loop.stop() == 0
    assert here.loop.left() == []


def played(here: Stage, scene: Scene) -> str:
    ended = here.show(*scene.answers, stream_s=scene.stream_s)
    return str(ended["body"]["outcome"]["kind"])
