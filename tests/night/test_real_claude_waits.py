"""The real Claude Code CLI, told to wait for an hour, is relieved of waiting; a person sees that, and can cut it short."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import planted, real_claude
from support.chapters import repair
from support.model_script import Answer, Request, fault, session, stall, stories, story
from support.model_server import ModelServer, serving
from support.nightbox import NightBox, night_box
from support.planted import BUGS, Planted

from ralphd.core import records

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

LOOPS = ("loop-1", "loop-2")
WAITS = re.compile(r"waits 3[5-9]\d\d s: inference\.rate_limited|waits 4\d\d\d s: inference\.rate_limited")
CONFIG = """
[agent]
cli = "claude"
program = {program}
model = "claude-sonnet-4-5"
env = {{ {env} }}
env_pass = ["ANTHROPIC_API_KEY"]
[limits]
backoff_max_seconds = 1
[[task]]
name = "repair"
[task.verify]
command = {verifier}
score = "junit:report.xml"
protect = ["tests/**"]
"""


@dataclass(kw_only=True)
class Limited:
    """Repairs one bug and then says nothing more, but refuses for an hour whatever comes while ``used_up``."""

    used_up: bool = True

    def answer(self, request: Request) -> Answer:
        if self.used_up and request.turn > 0:
            return fault(429, "This would exceed your rate limit", retry_after_s=3600)
        work = story(session(*repair(BUGS[0])), session(stall("accept", 3600)))
        return stories(dict.fromkeys(LOOPS, work)).answer(request)


@pytest.fixture
def project(tmp_path: Path) -> Planted:
    return planted.plant(str(tmp_path / "project"))


@pytest.fixture
def box(project: Planted, tmp_path: Path) -> Iterator[NightBox]:
    with night_box(tmp_path, Path(project.repo), {"ANTHROPIC_API_KEY": "sk-ant-0123456789"}) as box:
        yield box


def configure(box: NightBox, server: ModelServer) -> None:
    given = real_claude.environment(server.base_url, str(box.home))
    env = {name: value for name, value in given.items() if name not in {*box.env, "TMPDIR"}}
    toml = CONFIG.format(
        program=json.dumps(real_claude.program()),
        env=", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items()),
        verifier=json.dumps(planted.verifier()),
    )
    (box.repo / "PROMPT.md").write_text("Make the tests of the recipes pass.\n")
    box.configure(toml)


def test_a_wait_that_its_client_announces_is_shown_counted_and_cut_and_its_session_goes_on(box: NightBox) -> None:
    script = Limited()
    with serving(script) as server:
        configure(box, server)
        box.start("--width", str(len(LOOPS)))
        box.wait_until(lambda: all(WAITS.fullmatch(row["note"]) for row in box.rows().values()), "both loops wait")
        script.used_up = False
        box.ralphd("resume", "--now")
        for loop in LOOPS:
            (ended, *_) = box.wait_for(records.TrajectoryEnded, 1, loop)
            assert ended.body.outcome.kind.value == "done.next"
            assert ended.body.attempts >= 2
            assert ended.body.outcome.detail["own_retries"]["rate_limited"] >= 1
            cut = box.journal(records.AttemptEnded, loop)
            assert {entry.body.outcome.kind.value for entry in cut} == {"inference.rate_limited"}
            sessions = {
                entry.body.session for entry in box.journal(records.AgentStarted, loop) if entry.trajectory == 1
            }
            assert len(sessions) == 1
        box.stop("--now")
    report = box.report()
    assert report["own_retries"]["counts"]["rate_limited"] >= len(LOOPS)
    assert 0 < report["own_retries"]["waited_s"] < 60, "it is counted, and each was ended when it told of its wait"
