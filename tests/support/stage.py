"""How does a test put one scene after another before a real agent CLI under the real runner, and see how each ends?"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support import clients
from support.clients import Client
from support.model_script import NOTHING_MORE, Answer, Request, Step, resolve
from support.model_server import ModelServer
from support.paneloop import PaneLoop, until

ENDINGS = ("AttemptEnded", "TrajectoryEnded")
SCENE_DEADLINE_S = 200.0  # a CLI that starts and retries on a machine that is busy with ten others


class Director:
    """A script that hands out the answers of the present scene one by one; the last one repeats.

    One client asks it, so a queue is in order here: what a scene shows does not depend on how a CLI retries.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scene: list[Step] = [NOTHING_MORE]

    def play(self, scene: Sequence[Step]) -> None:
        with self._lock:
            self._scene = list(scene)

    def answer(self, request: Request) -> Answer:
        with self._lock:
            step = self._scene.pop(0) if len(self._scene) > 1 else self._scene[0]
        return resolve(step, request)


class Stage:
    """A loop with a real CLI that pauses after each scene. `director` is the script of `server`."""

    def __init__(self, root: Path, client: Client, server: ModelServer, director: Director, **limits: float) -> None:
        root.mkdir(exist_ok=True)
        self.server, self.director = server, director
        env = clients.move_in(client, server.base_url, str(root / "home"))
        self.loop = PaneLoop(
            root,
            "",
            cli=client.name,
            limits=limits,
            env=env,
            program=clients.program(client.name),
            model=client.model,
            args=client.args,
        )
        self._begun = False

    def show(self, *scene: Step, **limits: float) -> dict[str, Any]:
        """Play a scene to one process of the CLI; return the record of its end, as `type` and `body`."""
        number = self.begin(*scene, **limits)
        return self.ended(number)

    def begin(self, *scene: Step, **limits: float) -> int:
        """Start a process on this scene; the loop pauses when it ends. Limits are taken by a new trajectory only."""
        self.director.play(scene)
        number = len(self.loop.bodies("AgentStarted"))
        if limits:
            told = self.loop.assignment
            self.loop.assign(replace(told, limits=replace(told.limits, **limits)))
        if self._begun:
            self.loop.order("running")
        else:
            self.loop.start()
            self._begun = True
        self._wait(lambda: len(self.loop.bodies("AgentStarted")) > number, "the agent starts")
        self.loop.order("paused")
        return number

    def ended(self, number: int) -> dict[str, Any]:
        """The record by which the process with that number ended, once the loop has paused after it."""
        ending = self._wait(lambda: self._ending(number), "the scene ends")
        self._wait(self._rests, "the loop pauses")
        return ending

    def _ending(self, number: int) -> dict[str, Any] | None:
        started = -1
        for record in self.loop.records():
            started += record["type"] == "AgentStarted"
            if record["type"] in ENDINGS and started == number:
                return record
        return None

    def _rests(self) -> bool:
        kinds = [record["type"] for record in self.loop.records() if record["type"] in ("Held", "Resumed")]
        return kinds[-1:] == ["Held"]

    def _wait(self, ask: Any, what: str) -> Any:
        def seen() -> Any:
            assert self.loop.processes[-1].poll() is None, "the runner has ended"
            return ask()

        try:
            return until(seen, what, SCENE_DEADLINE_S)
        except AssertionError as late:
            raise AssertionError(f"{what}: {late}\n{self.loop.text()[-3000:]}") from None
