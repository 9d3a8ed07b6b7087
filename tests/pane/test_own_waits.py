"""A CLI that waits by itself before it asks again is alive, though only its stderr says so."""

from __future__ import annotations

import pytest
from support.paneloop import PaneLoop

BEGIN = '{"type":"init","session_id":"s1","model":"gemini-2.5-pro"}'
DONE = '{"type":"result","status":"success","stats":{"input_tokens":9,"output_tokens":2,"cached":0}}'


@pytest.fixture
def run(tmp_path):
    loops = []

    def go(stderr: str, **limits: float) -> PaneLoop:
        agent = f"#!/bin/sh\necho '{BEGIN}'\nprintf '{stderr}' >&2\nsleep 9\necho '{DONE}'\ngit commit -qm x --allow-empty\n"
        loops.append(PaneLoop(tmp_path, agent, cli="gemini", limits=limits))
        loops[-1].start()
        return loops[-1]

    yield go
    for loop in loops:
        loop.clean_up()


def test_an_announced_wait_is_waited_for_and_counted(run):
    loop = run(r"Attempt 1 failed with status 429. Retrying with backoff... _ApiError: {\n    at here\n", quiet_s=4.0)
    (ended, *_) = loop.wait_for("TrajectoryEnded")
    assert ended["outcome"]["kind"] == "done.next"
    assert ended["usage"]["model"] == "gemini-2.5-pro"
    assert ended["outcome"]["detail"]["own_retries"]["rate_limited"] == 1


def test_other_words_on_stderr_are_no_wait(run):
    loop = run(r"the log says: Attempt 1 failed with status 429. Retrying with backoff...\n", quiet_s=4.0)
    (ended, *_) = loop.wait_for("TrajectoryEnded")
    assert ended["outcome"]["kind"] == "agent.hung"
