"""A CLI that asks the model in vain, without a pause and without end, is ended and asked again by us, with pauses."""

from __future__ import annotations

import json

import pytest
from support.paneloop import PaneLoop

STEP = {"type": "step_start", "sessionID": "ses_one", "part": {"type": "step-start"}}
BROKEN = {"type": "step_finish", "sessionID": "ses_one", "part": {"reason": "unknown", "tokens": {}}}
AGENT = f"""#!/bin/sh
echo "$@" >> "$ROOT/starts"
while :; do
    echo '{json.dumps(STEP)}'
    echo '{json.dumps(BROKEN)}'
    sleep 0.1
done
"""


@pytest.fixture
def loop(tmp_path):
    loop = PaneLoop(tmp_path, AGENT, cli="opencode")
    yield loop
    loop.clean_up()


def test_answers_that_break_off_for_ever_are_waited_out_and_asked_for_again_in_the_same_session(loop):
    loop.start()
    attempts = loop.wait_for("AttemptEnded", 2)
    loop.stop()
    assert {attempt["outcome"]["kind"] for attempt in attempts} == {"inference.truncated"}
    assert len(loop.bodies("TrajectoryStarted")) == 1
    first, second = (loop.root / "starts").read_text().splitlines()[:2]
    assert "--session" not in first
    assert "--session ses_one" in second
    assert "asks the model in vain" in loop.text()
