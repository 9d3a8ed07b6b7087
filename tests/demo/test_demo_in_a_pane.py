"""Do the demo's troubles come out of the real runner and guard as the outcomes that they are?"""

from __future__ import annotations

import tomllib

import pytest
from support.paneloop import PaneLoop, git, until

from ralphd.core.configfile import read
from ralphd.demo.repository import build, settings

LIMITS = read(settings("python3")).limits


class DemoLoop(PaneLoop):
    def _repository(self) -> str:
        base = build(str(self.root / "source"))
        git("clone", "-q", "--bare", str(self.root / "source"), str(self.bare), cwd=self.root)
        git("worktree", "add", "-q", "--no-track", "-b", "ralphd/n1/one", str(self.worktree), "main", cwd=self.bare)
        return base


@pytest.fixture
def run(tmp_path):
    """Run a loop of that name to its third session's end; the loop, with its records."""
    started = []

    def start(name, tool_seconds=60.0):
        limits = {"tool_seconds": tool_seconds, "tool_memory_bytes": LIMITS.tool_memory_bytes}
        loop = DemoLoop(tmp_path, "", cli="demo", loop=name, limits=limits)
        started.append(loop)
        loop.start()
        until(lambda: len(loop.bodies("TrajectoryEnded")) >= 3, "three sessions", 200.0)
        return loop

    yield start
    for loop in started:
        loop.clean_up()


def test_the_settings_are_ones_that_ralphd_reads():
    """A misspelt key or limit would stop the demo at its start."""
    text = settings('/odd "path"/python')
    assert read(text).tasks[0].verify.command == tomllib.loads(text)["task"][0]["verify"]["command"]
    assert (LIMITS.tool_seconds, LIMITS.tool_memory_bytes) == (6.0, 96 << 20)


def outcomes(loop, kind):
    return [body["outcome"]["kind"] for body in loop.bodies(kind)]


@pytest.mark.slow
def test_an_overrun_and_a_false_claim(run):
    loop = run("loop-1", LIMITS.tool_seconds)
    assert set(outcomes(loop, "ToolEnded")) == {"tool.timeout"}
    assert loop.outcomes()[:3] == ["done.next"] * 3
    claims = [body["outcome"]["detail"].get("claimed_done", False) for body in loop.bodies("TrajectoryEnded")]
    assert claims[:3] == [False, False, True]
    assert "(exit 124): [ralphd] KILLED by the time limit" in loop.text()


@pytest.mark.slow
def test_a_memory_hog_and_a_crash(run):
    loop = run("loop-2")
    assert outcomes(loop, "ToolEnded") == ["tool.memory"]
    assert loop.outcomes()[:3] == ["done.next", "done.next", "agent.signalled"]
    assert "(exit 137): [ralphd] KILLED by the memory limit" in loop.text()


@pytest.mark.slow
def test_a_refused_request_and_a_changed_verifier(run):
    loop = run("loop-3")
    assert outcomes(loop, "AttemptEnded") == ["inference.connection"]
    assert loop.outcomes()[:3] == ["done.next"] * 3
    head = loop.bodies("TrajectoryEnded")[2]["head_after"]
    assert git("diff-tree", "--name-only", "-r", loop.base, head, "--", "score.py", cwd=loop.bare) == "score.py"


@pytest.mark.slow
def test_a_process_left_behind(run):
    loop = run("loop-4")
    assert [body["leftovers"] for body in loop.bodies("TrajectoryEnded")][:3] == [0, 2, 0]
    assert "processes that the session left behind" in loop.text()
