"""What does a daemon that died leave behind, and who is misled by it?"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cast import cast, kinds
from support.nightbox import NightBox
from support.repositories import git

from ralphd.core.events import NightEnded, NightStarted, VerdictGiven

TOML = """\
[night]
width = 2
[agent]
cli = "command"
program = "PROGRAM"
[[task]]
name = "main"
[task.verify]
command = "cat score"
score = 'regex:(\\d+)'
goal = 10
"""
# Until the new prompt is there, the first loop claims the end, and rightly. Loops of a new night begin at the base.
WORKS = """
prompt=$(cat)
case $prompt in
*"Something new"*) echo 4 >score; commit "something new"; alive ;;
*) echo 10 >score; commit "all of it"; echo '{"type": "result", "ok": true, "done": true}'; if from 2; then alive; fi ;;
esac
"""
WAITS = """
cat >/dev/null
if [ -e "$HOME/stubborn" ]; then trap '' TERM; fi
alive
"""


pytestmark = pytest.mark.slow


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    with cast(tmp_path, {"loop-1": WORKS, "loop-2": WAITS}, TOML, {"score": "0\n"}) as box:
        yield box


def end_daemon(box: NightBox, number: int) -> None:
    os.kill(box.daemon_pid(), number)
    box.wait_until(lambda: not box.owned(), "the daemon is gone")


def test_what_a_killed_night_left_does_not_end_the_next_one(box: NightBox) -> None:
    """Seen: the "done" of a run that was killed made the next one exit before its first call."""
    (box.home / "stubborn").touch()  # so that closing takes long enough to be cut off
    box.start("--for", "1h")
    box.wait_until(lambda: any(entry.body.submission for entry in box.journal(VerdictGiven)), "the goal is reached")
    end_daemon(box, signal.SIGKILL)
    assert box.journal(NightEnded) == []
    (box.home / "stubborn").unlink()
    (box.repo / "PROMPT.md").write_text("Something new.\n")
    first = box.nights()
    said = box.start("--for", "1h")
    assert "was over when its daemon died" in said.stderr
    assert "2 of 2 loops run" in said.stdout
    assert len(box.nights()) == len(first) + 1
    box.wait_until(lambda: box.rows()["loop-1"]["best_score"] == 4, "the new night works on the new prompt")


def test_a_night_whose_time_passed_without_a_daemon_is_followed_by_a_new_one(box: NightBox) -> None:
    """The machine went down in the night; in the evening after, `start` begins the next one and doesn't just end the last."""
    box.start("--for", "6s")
    runners = box.runners()
    for shown in box.left():
        with contextlib.suppress(ProcessLookupError):  # it went with another one
            os.kill(int(shown.split()[0]), signal.SIGKILL)
    box.wait_until(lambda: not box.left(), "all is gone")
    (started,) = box.journal(NightStarted)
    box.wait_until(lambda: time.time() > started.body.ends_at, "its time is up")
    said = box.start("--for", "1h")
    assert "was over when its daemon died" in said.stderr
    assert "2 of 2 loops run" in said.stdout
    assert len(box.nights()) == 2
    assert not set(runners.values()) & set(box.runners().values())


def begin_one_without_end(box: NightBox) -> None:
    file = box.repo / "ralphd.toml"
    file.write_text(file.read_text().replace("goal = 10", "goal = 99"))
    box.start("--for", "1h")
    box.wait_until(lambda: "verify.false_done" in box.outcomes("loop-1"), "the claim is refuted")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stop_ends_what_a_daemon_left_running(box: NightBox, number: int) -> None:
    """Seen: the loops went on for minutes after their supervisor was told to end, and nobody said so.

    Here they go on by design, which is said, and one `stop` ends them all, daemon or none.
    """
    begin_one_without_end(box)
    before = box.runners()
    end_daemon(box, number)
    assert box.runners() == before
    assert len(box.left()) >= 4  # two runners and their agents
    if number == signal.SIGTERM:
        assert "loops_left_running=2" in box.log()
    assert "2 of its loops run on" in box.ralphd("status", code=3).stderr
    said = box.stop("--now", "--json")
    assert said.stdout.startswith("{")
    box.assert_nothing_left()
    assert kinds(box, "loop-2") == ["done.stopped"]


@pytest.mark.parametrize("damage", ["gone", "broken", "no agent"])
def test_a_night_can_be_stopped_whatever_became_of_its_file(box: NightBox, damage: str) -> None:
    begin_one_without_end(box)
    end_daemon(box, signal.SIGKILL)
    file = box.repo / "ralphd.toml"
    match damage:
        case "gone":
            file.unlink()
        case "broken":
            file.write_text("[night]\nwidth = ")
        case _:
            file.write_text(TOML.replace("PROGRAM", "/nowhere/agent"))
    refused = box.ralphd("start", code=2).stderr
    assert {"gone": "no such file", "broken": "ralphd.toml:2", "no agent": "/nowhere/agent"}[damage] in refused
    assert len(box.left()) >= 4  # they run on
    box.stop("--now")
    box.assert_nothing_left()
    assert kinds(box, "loop-2") == ["done.stopped"]
    best = git(box.repo, "log", "-1", "--format=%s", f"refs/ralphd/{box.nights()[-1]}/loop-1")
    assert best == "all of it"
