"""Silence shows a stalled request only where a CLI's answers come in pieces."""

from __future__ import annotations

import pytest
from support.paneloop import PaneLoop

# Asks the model and hears nothing for a while, as a CLI that speaks both ways would print it.
AGENT = """#!/bin/sh
echo '{"ralphd":"begin"}'
echo '{"type":"thread.started","thread_id":"t-1"}'
sleep 3
echo '{"ralphd":"result","status":"Submitted","text":"well"}'
echo '{"type":"turn.completed","usage":{"input_tokens":1}}'
"""


@pytest.fixture
def loop(tmp_path, request):
    loop = PaneLoop(tmp_path, AGENT, cli=request.param, limits={"stream_s": 0.5})
    yield loop
    loop.clean_up()


@pytest.mark.parametrize("loop", ["mini"], indirect=True)
def test_a_cli_that_asks_for_whole_answers_may_wait_long_for_one(loop):
    loop.start()
    (ended, *_) = loop.wait_for("TrajectoryEnded")
    assert ended["outcome"]["detail"]["result"] == "ok"
    assert ended["attempts"] == 1
    loop.stop()


@pytest.mark.parametrize("loop", ["codex"], indirect=True)
def test_a_cli_whose_answers_come_in_pieces_may_not(loop):
    loop.start()
    (ended, *_) = loop.wait_for("AttemptEnded")
    assert ended["outcome"]["kind"] == "inference.stalled"
    loop.stop()
