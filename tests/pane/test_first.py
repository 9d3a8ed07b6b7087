"""What one loop of a night does alone before any begins: real runners, and a program that trips as opencode does."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paneloop import PaneLoop, until

# Every process of it makes the database, if there is none yet, and trips over another that makes it.
AGENT = """#!/bin/sh
echo "$1 begin" >>$SHARED/log
if [ ! -e $SHARED/database ]; then
    mkdir $SHARED/making || { echo 'Error: Unexpected error: Failed query: CREATE TABLE' >&2; exit 1; }
    sleep 1
    touch $SHARED/database
fi
echo "$1 end" >>$SHARED/log
[ "$1" = db ] && exit $CODE
cat >/dev/null
date +%N >>file.txt; git commit -qam on
echo '{"type":"step_start","sessionID":"s","part":{"type":"step-start"}}'
echo '{"type":"step_finish","sessionID":"s","part":{"reason":"stop","tokens":{"input":1,"output":1}}}'
sleep 0.2
"""
HANGS = """#!/bin/sh
echo "$1 begin" >>$SHARED/log
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

    def start(name: str, agent: str = AGENT, code: str = "0", **more) -> PaneLoop:
        root = tmp_path / name
        root.mkdir()
        (root / "firsts").symlink_to(shared / "firsts")  # a loop's night is the folder above its own
        if not (shared / "agent").exists():
            write(shared / "agent", agent)
        env = {"SHARED": str(shared), "CODE": code, "XDG_DATA_HOME": str(shared)}
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


def test_loops_that_begin_together_where_there_is_no_database_have_it_made_by_one_of_them(make, shared):
    loops = [make(name) for name in ("a", "b", "c")]
    for loop in loops:
        loop.wait_for("TrajectoryEnded", 2)
    assert {kind for loop in loops for kind in loop.outcomes()} == {"done.next"}
    steps = log(shared)
    assert steps[:2] == ["db begin", "db end"], "nothing else runs meanwhile"
    assert steps.count("db begin") == 1, "once for all loops and all their sessions"
    assert (shared / "firsts" / "opencode").stat().st_mode & 0o77 == 0


def test_another_program_is_made_ready_anew(make, shared):
    loop = make("a")
    loop.wait_for("TrajectoryEnded")
    write(shared / "agent", AGENT + "\n# another version")
    until(lambda: log(shared).count("db end") == 2, "it ran again")
    loop.wait_for("TrajectoryEnded", 3)
    assert set(loop.outcomes()) == {"done.next"}


def test_a_command_that_fails_holds_up_nothing(make, shared):
    loop = make("a", code="2")
    loop.wait_for("TrajectoryEnded", 2)
    assert set(loop.outcomes()) == {"done.next"}
    assert log(shared).count("db begin") == 1


def test_an_order_to_stop_is_heard_meanwhile_and_nothing_is_left(make, shared):
    first, second = make("a", HANGS), make("b", HANGS)
    until(lambda: log(shared) == ["db begin"], "one of them runs it")
    for loop in (first, second):
        until((loop.folder / "calls" / "bell").exists, "its runner hears orders")
    assert (first.stop(), second.stop()) == (0, 0)
    assert not first.left() + second.left()
    assert not first.bodies("TrajectoryStarted") + second.bodies("TrajectoryStarted")
    assert set(log(shared)) == {"db begin"}


def test_without_a_place_for_the_lock_it_begins_as_it_is(make, shared):
    (shared / "firsts").rmdir()
    (shared / "firsts").write_text("a file where the folder should be")
    (shared / "database").touch()
    loop = make("a")
    loop.wait_for("TrajectoryEnded")
    assert loop.outcomes()[0] == "done.next"
    assert "db begin" not in log(shared)


def test_a_loop_whose_runner_died_in_the_middle_gives_the_turn_to_the_next(make, shared):
    first = make("a", HANGS)
    until(lambda: log(shared) == ["db begin"], "it runs")
    first.processes[-1].kill()
    first.processes[-1].wait()
    write(shared / "agent", AGENT)
    second = make("b")
    second.wait_for("TrajectoryEnded")
    assert second.outcomes()[0] == "done.next"
    assert log(shared)[:3] == ["db begin", "db begin", "db end"]
