"""A session that goes round in circles is told, and ended if it goes on; one that gets somewhere is left alone."""

from __future__ import annotations

import pytest
from support.paneloop import PaneLoop

from ralphd.core.repetition import ERRORS

# The same call, the same error, again and again; then the agent would work on for ever.
CIRCLE = """#!/bin/bash
cat >/dev/null
[ "$RALPHD_TRAJECTORY" -gt 1 ] && exec sleep 600
n=0
while :; do
    n=$((n + 1))
    printf '{"type":"call","id":"%d","tool":"Bash","command":"make it so"}\\n' $n
    printf '{"type":"return","id":"%d","error":true,"text":"make: no rule"}\\n' $n
    WORK
done
"""


@pytest.fixture
def start(tmp_path):
    loops = []

    def begin(work: str) -> PaneLoop:
        loops.append(PaneLoop(tmp_path, CIRCLE.replace("WORK", work)))
        loops[-1].start()
        return loops[-1]

    yield begin
    for loop in loops:
        loop.clean_up()


def test_the_same_error_for_ever_is_told_and_then_ends_the_session(start):
    loop = start("sleep 0.1")
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "progress.repeating"
    assert ended["repeated"]
    told, again = loop.bodies("Repeating")
    assert told["errors"]
    assert ERRORS <= told["times"] <= again["times"] - ERRORS
    with open(told["file"], "rb") as log:
        assert b"make: no rule" in log.read()[told["start"] : told["end"]]
    loop.wait_for("AgentStarted", 2)


def test_a_session_whose_files_change_all_the_while_is_none_of_it(start):
    """It may print the same lines each time; what counts is that something comes of it."""
    loop = start(f"echo $n >>file.txt; sleep 0.1; [ $n = {3 * ERRORS} ] && git commit -qam worked && exit 0")
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "done.next"
    assert loop.bodies("Repeating") == []
