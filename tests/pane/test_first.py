"""One loop of a night goes first where a CLI trips over itself: real runners, and a program that does as opencode does."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paneloop import PaneLoop, until

# Every process of it makes the database, if there is none yet, and trips over another that makes it.
AGENT = """#!/bin/sh
cat >/dev/null
echo begin >>$SHARED/log
if [ ! -e $SHARED/database ]; then
    mkdir $SHARED/making || { echo 'Error: Unexpected error: Failed query: CREATE TABLE' >&2; exit 1; }
    sleep 1
    touch $SHARED/database
fi
echo made >>$SHARED/log
date +%N >>file.txt; git commit -qam on
echo '{"type":"step_start","sessionID":"s","part":{"type":"step-start"}}'
while [ -e $SHARED/stays ]; do sleep 0.1; done
echo '{"type":"step_finish","sessionID":"s","part":{"reason":"stop","tokens":{"input":1,"output":1}}}'
sleep 0.2
"""
SILENT = """#!/bin/sh
echo begin >>$SHARED/log
exec sleep 600
"""


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "shared"
    (folder / "firsts").mkdir(parents=True, mode=0o700)
    return folder


@pytest.fixture
def make(tmp_path, shared):
    loops: list[PaneLoop] = []

    def start(name: str, agent: str = AGENT, **more) -> PaneLoop:
        root = tmp_path / name
        root.mkdir()
        (root / "firsts").symlink_to(shared / "firsts")  # a loop's night is the folder above its own
        if not (shared / "agent").exists():
            write(shared / "agent", agent)
        env = {"SHARED": str(shared)}
        loop = PaneLoop(root, agent, cli="opencode", env=env, **{"program": str(shared / "agent"), **more})
        loops.append(loop)
        loop.start()
        return loop

    yield start
    for loop in loops:
        loop.clean_up()


def write(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.chmod(0o755)
    draft.rename(path)


def log(shared: Path) -> list[str]:
    path = shared / "log"
    return path.read_text().splitlines() if path.exists() else []


def test_of_loops_that_begin_together_one_goes_first_and_the_others_when_it_has_spoken(make, shared):
    (shared / "stays").touch()
    loops = [make(name) for name in ("a", "b", "c")]
    for loop in loops:
        loop.wait_for("AgentStarted")
    assert log(shared)[:2] == ["begin", "made"], "nobody else begins meanwhile"
    (shared / "stays").unlink()
    for loop in loops:
        loop.wait_for("TrajectoryEnded", 2)
    assert {kind for loop in loops for kind in loop.outcomes()} == {"done.next"}
    assert (shared / "firsts" / "opencode").stat().st_mode & 0o77 == 0


def test_with_another_program_one_goes_first_anew(make, shared):
    both = [make("a"), make("b")]
    for loop in both:
        loop.wait_for("TrajectoryEnded")
    write(shared / "agent", SILENT)

    def open_sessions() -> list[int]:
        return sorted(len(loop.bodies("AgentStarted")) - len(loop.bodies("TrajectoryEnded")) for loop in both)

    begun = log(shared).count("begin")
    until(lambda: log(shared).count("begin") > begun, "one begins")
    until(lambda: open_sessions() == [0, 1], "the other one waits for it")
    assert log(shared).count("begin") == begun + 1


def test_one_that_ends_without_a_word_lets_another_go_first(make, shared):
    (shared / "making").mkdir()  # the first one fails, as if somebody outside of this night made the database
    first = make("a")
    assert first.wait_for("TrajectoryEnded")[0]["outcome"]["kind"] == "agent.exited"
    second = make("b")
    second.wait_for("AgentStarted")
    (shared / "database").touch()
    second.wait_for("TrajectoryEnded", 2)
    assert second.outcomes()[-1] == "done.next"


def test_an_order_to_stop_is_heard_by_who_waits_and_nothing_is_left(make, shared):
    first, second = make("a", SILENT), make("b", SILENT)
    until(lambda: log(shared) == ["begin"], "one of them goes first")
    for loop in (first, second):
        until((loop.folder / "calls" / "bell").exists, "its runner hears orders")
    begun = [loop for loop in (first, second) if loop.bodies("TrajectoryStarted")]
    [waiting] = [loop for loop in (first, second) if loop not in begun]
    assert waiting.stop() == 0
    assert begun[0].stop() == 0
    assert not first.left() + second.left()
    assert not waiting.bodies("TrajectoryStarted")
    assert log(shared) == ["begin"]


def test_without_a_place_for_the_lock_it_begins_as_it_is(make, shared):
    (shared / "firsts").rmdir()
    (shared / "firsts").write_text("a file where the folder should be")
    (shared / "database").touch()
    loop = make("a")
    loop.wait_for("TrajectoryEnded")
    assert loop.outcomes()[0] == "done.next"


def test_a_loop_whose_runner_died_in_the_middle_gives_the_turn_to_the_next(make, shared):
    first = make("a", SILENT)
    until(lambda: log(shared) == ["begin"], "it goes first")
    first.processes[-1].kill()
    first.processes[-1].wait()
    write(shared / "agent", AGENT)
    second = make("b")
    second.wait_for("TrajectoryEnded")
    assert second.outcomes()[0] == "done.next"
    assert log(shared)[:3] == ["begin", "begin", "made"]
