"""Each real agent CLI under the guard: what a call met is in the very next request to the model, with its figure."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.clients import Client
from support.model_script import Answer, Request, bash, call, hog, overlong, say
from support.paneloop import until
from support.stage import Stage

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

MIB = 2**20
TOOL_S = 20.0  # with eight sessions on one core, 5 s were too few for a call that only starts a process
QUICK_S = 8.0  # Codex waits ten seconds for a command, and then lets the model ask for more
COMMIT = bash("echo hello > made; git add made; git commit -qm Made; git log -1 --format='subject %s'")
# Gone from the call's session and process group, adopted by the runner.
DETACH = "(setsid sh -c 'echo $$ > {name}.pid; exec {command}' </dev/null >/dev/null 2>&1 &); "
HOG = "tail /dev/zero"  # seeks the last line of an endless one
HOG_IN_THE_DARK = bash(DETACH.format(name="hog", command=HOG) + "tail -f /dev/null")
DAEMON = bash(
    DETACH.format(name="daemon", command="tail -f /dev/null")
    + "while ! [ -s daemon.pid ]; do sleep 0.1; done; echo daemon runs"
)


def test_the_model_reads_which_limit_a_call_met(stage: Callable[..., Stage], client: Client) -> None:
    """One session: a commit, a call without end, two that ask for 2 GiB, a child that is left, and the end."""
    tool_s = QUICK_S if client.name == "codex" else TOOL_S
    here = stage(tool_seconds=tool_s, tool_memory_bytes=200 * MIB)
    ended = here.show(COMMIT, overlong(), hog(2048), HOG_IN_THE_DARK, DAEMON, say("finished"))
    assert (ended["type"], ended["body"]["outcome"]["kind"]) == ("TrajectoryEnded", "done.next")
    told = [request.news for request in here.server.seen() if request.kind == "main"]
    assert len(told) == 6
    assert "subject Made" in told[1]
    assert_killed(told[2], "time limit", f"{tool_s:g} s")
    assert_killed(told[3], "memory limit", "200.0 MiB")
    assert_killed(told[4], "memory limit", "200.0 MiB")
    assert "daemon runs" in told[5]
    kinds = [body["outcome"]["kind"] for body in here.loop.bodies("ToolEnded")]
    assert kinds[:3] == ["tool.timeout", "tool.memory", "tool.memory"]
    assert set(kinds[3:]) <= {"tool.timeout"}  # a CLI that is slow to end leaves the daemon time to meet its limit
    for name in ("hog", "daemon"):
        pid = int((Path(here.loop.worktree) / f"{name}.pid").read_text())
        until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), f"the detached {name} is ended")
    assert not here.server.strangers
    assert here.loop.stop() == 0
    assert here.loop.left() == []


@pytest.mark.parametrize("client", ["codex"], indirect=True)
def test_codex_reads_why_a_call_ended_that_it_had_left_running(stage: Callable[..., Stage]) -> None:
    """It waits ten seconds for a command, or less if asked, and then lets the model ask for more output."""
    here = stage(tool_seconds=QUICK_S)
    ended = here.show(call("exec_command", cmd="tail -f /dev/null", yield_time_ms=1000), ask_for_more, say("finished"))
    told = [request.news for request in here.server.seen() if request.kind == "main"]
    assert "running with session ID" in told[1]
    assert_killed(told[2], "time limit", f"{QUICK_S:g} s")
    assert ended["body"]["outcome"]["kind"] == "done.noop"
    assert [body["outcome"]["kind"] for body in here.loop.bodies("ToolEnded")] == ["tool.timeout"]


def ask_for_more(request: Request) -> Answer:
    running = re.search(r"session ID (\d+)", request.news)
    assert running, request.news
    return call("write_stdin", session_id=int(running[1]), chars="", yield_time_ms=30_000)


def assert_killed(told: str, limit: str, allowed: str) -> None:
    """The model reads the limit and what it allows."""
    reason = told.partition(f"[ralphd] KILLED by the {limit}: ")[2]
    assert allowed in reason, told
