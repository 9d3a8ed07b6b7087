"""A session is taken up again by the name that its CLI told, and by no other."""

from __future__ import annotations

import sys

import pytest
from support.paneloop import PaneLoop

from ralphd.agents import Tells
from ralphd.core.reading import Reading
from ralphd.pane.trajectory import Trajectory

# Speaks like Codex: names its own thread, fails once, and keeps how it was started.
AGENT = f"""#!{sys.executable}
import json, os, sys
def tell(**event):
    print(json.dumps(event), flush=True)
known = os.path.join(os.environ["ROOT"], "started")
with open(known, "a") as file:
    file.write(json.dumps([sys.argv[1:], sys.stdin.read()]) + "\\n")
tell(type="thread.started", thread_id="01a227e2-3ec5-7b10-8855-14550d50a45a")
tell(type="turn.started")
if "resume" not in sys.argv:
    tell(type="turn.failed", error={{"message": "exceeded retry limit, last status: 429 Too Many Requests"}})
    sys.exit(1)
tell(type="turn.completed", usage={{"input_tokens": 300, "output_tokens": 20}})
"""

RESUMES = Tells(tokens=True, compactions=False, partial=False, resume=True)
NEVER = Tells(tokens=True, compactions=False, partial=False, resume=False)


@pytest.fixture
def loop(tmp_path):
    loop = PaneLoop(tmp_path, AGENT, cli="codex")
    yield loop
    loop.clean_up()


def test_the_next_attempt_goes_on_in_the_session_that_the_cli_named(loop, tmp_path):
    loop.start()
    (ended, *_) = loop.wait_for("TrajectoryEnded")
    loop.stop()
    assert ended["attempts"] == 2
    assert (ended["usage"]["tokens_in"], ended["compactions"]) == (300, None)
    first, second = (tmp_path / "started").read_text().splitlines()[:2]
    assert '"resume"' not in first
    assert "Do the next thing." in first
    assert '"01a227e2-3ec5-7b10-8855-14550d50a45a", "-"' in second
    assert "Do the next thing." not in second
    (failed,) = loop.bodies("AttemptEnded")[:1]
    assert failed["outcome"]["kind"] == "inference.rate_limited"


@pytest.fixture
def trajectory(tmp_path):
    trajectory = Trajectory(str(tmp_path), 1, 1, head="c", prompt=b"")
    yield trajectory
    trajectory.close()


@pytest.mark.parametrize("name", ["", "--help", "-c", "../../x", "a b", "a\n", "x" * 300, "$(id)", "é"])
def test_a_name_that_could_be_more_than_a_name_is_not_taken(trajectory, name):
    ours = trajectory.session
    trajectory.take_up(Reading(session=name, begun=1), RESUMES)
    assert trajectory.resumes
    assert trajectory.session == ours


def test_a_session_that_never_began_is_not_taken_up_and_its_name_not_used_again(trajectory):
    ours = trajectory.session
    trajectory.take_up(Reading(session="t-1", begun=0), RESUMES)
    assert not trajectory.resumes
    assert trajectory.session not in (ours, "t-1")


def test_a_cli_that_resumes_nothing_gets_a_fresh_name(trajectory):
    ours = trajectory.session
    trajectory.take_up(Reading(session="t-1", begun=1), NEVER)
    assert not trajectory.resumes
    assert trajectory.session not in (ours, "t-1")
