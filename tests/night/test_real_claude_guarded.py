"""The real Claude Code CLI under the real runner and guard: limits are explained to it, and inference faults are sat out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import real_claude
from support.model_script import (
    Session,
    Step,
    bash,
    fault,
    hog,
    once,
    overlong,
    reset_mid_stream,
    say,
    session,
    stories,
    story,
    times,
)
from support.model_server import ModelServer, serving
from support.paneloop import PaneLoop, until

from ralphd.core.exchange import note_name

pytestmark = [pytest.mark.real, pytest.mark.slow]

MIB = 2**20
CARRY_ON = bash("echo carried on")
Run = Callable[..., tuple[PaneLoop, ModelServer]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a loop on these steps until its agent has carried on after them, and gives the stopped loop and the server."""
    loops: list[PaneLoop] = []

    def go(*steps: Step, **limits: float) -> tuple[PaneLoop, ModelServer]:
        chapter: Session = session(*steps, say("done"))
        with serving(stories({"one": story(chapter, session(say("idle")))})) as server:
            env = real_claude.environment(server.base_url, str(tmp_path / "home"))
            loop = PaneLoop(tmp_path, "", cli="claude", limits=limits, env=env, program=real_claude.program())
            loops.append(loop)
            loop.start()
            until(lambda: server.contains("carried on"), "the session carries on", deadline_s=200)
            loop.stop()
        return loop, server

    yield go
    for loop in loops:
        loop.clean_up()


def after_the_call(server: ModelServer) -> str:
    return next(request.news for request in server.seen() if (request.session, request.turn) == (0, 1))


def test_a_call_past_its_time_is_ended_and_the_model_reads_why(run: Run) -> None:
    loop, server = run(overlong(), CARRY_ON, tool_seconds=2.0)
    assert after_the_call(server).startswith("Exit code 124\n")
    assert "KILLED by the time limit" in after_the_call(server)
    assert [body["outcome"]["kind"] for body in loop.bodies("ToolEnded")] == ["tool.timeout"]


def test_a_call_past_its_memory_is_ended_and_the_model_reads_why(run: Run) -> None:
    loop, server = run(hog(600), CARRY_ON, tool_memory_bytes=200 * MIB)
    assert after_the_call(server).startswith("Exit code 137\n")
    assert "KILLED by the memory limit" in after_the_call(server)
    assert [body["outcome"]["kind"] for body in loop.bodies("ToolEnded")] == ["tool.memory"]


@pytest.mark.parametrize(
    "trouble",
    [times(2, fault(529), CARRY_ON), once(fault(429, retry_after_s=1), CARRY_ON), once(reset_mid_stream(), CARRY_ON)],
    ids=["overloaded", "retry-after", "reset-mid-stream"],
)
def test_a_passing_fault_does_not_end_the_session(run: Run, trouble: Step) -> None:
    _, server = run(bash("echo before"), trouble)
    assert {request.session for request in server.seen() if "carried on" in request.news} == {0}


def test_a_fault_that_outlasts_the_client_does_not_end_the_trajectory(run: Run) -> None:
    """The client gives up on the 500s, the runner doesn't."""
    loop, _ = run(bash("echo before"), times(6, fault(500), CARRY_ON))
    assert len(loop.bodies("TrajectoryStarted")) == 1
    assert max(body["attempt"] for body in loop.bodies("AgentStarted")) > 1


def test_a_note_reaches_the_session_that_runs_and_the_session_still_ends(tmp_path: Path) -> None:
    """It comes while a call runs: the model reads it beside that call's result, in the same session."""
    waits = bash(f"until [ -e {tmp_path}/told ]; do read -t 0.1 _ </dev/zero; done; echo the call ended")
    chapter = session(waits, bash("echo carried on >>file.txt"), say("done"))
    with serving(stories({"one": story(chapter, session(say("idle")))})) as server:
        env = real_claude.environment(server.base_url, str(tmp_path / "home"))
        loop = PaneLoop(tmp_path, "", cli="claude", env=env, program=real_claude.program())
        try:
            loop.start()
            until(lambda: loop.bodies("AgentStarted") and [r for r in server.seen() if r.kind == "main"], "it asks")
            (loop.folder / "notes" / note_name(1, "repair-operator", now=True)).write_text("Look at tail() first.")
            loop.ring()
            assert loop.wait_for("NotesGiven")[0]["how"] == "live"
            (tmp_path / "told").touch()
            ended = loop.wait_for("TrajectoryEnded")[0]
        finally:
            loop.clean_up()
    assert (ended["outcome"]["kind"], ended["attempts"]) == ("done.next", 1)
    told = next(request for request in server.seen() if "Look at tail() first." in request.news)
    assert (told.session, told.turn) == (0, 1)
    assert "the call ended" in told.news
