"""What counts as a sign of life of an agent, and what is only a sign of our own."""

from __future__ import annotations

import time

import pytest
from support.paneloop import PaneLoop


@pytest.fixture
def start(tmp_path):
    loops = []

    def begin(agent: str, **limits: float) -> PaneLoop:
        loops.append(PaneLoop(tmp_path, agent, limits=limits))
        loops[-1].start()
        return loops[-1]

    yield begin
    for loop in loops:
        loop.clean_up()


def test_our_own_notes_bells_and_records_are_no_life_of_the_agent(start):
    """Seen: the supervisor's "deferred" marker went into the file that it watched, and put the end off for ever."""
    loop = start("#!/bin/sh\nexec sleep 600\n", quiet_s=7.0)
    loop.wait_for("AgentStarted")
    number, deadline = 0, time.monotonic() + 60
    while not loop.outcomes() and time.monotonic() < deadline:
        number += 1
        (loop.folder / "notes" / f"{number}-note.md").write_text("deferred: the agent is silent")
        loop.order("running", why=f"deferred {number}")
        time.sleep(0.2)
    assert loop.outcomes()[:1] == ["agent.hung"]
    assert loop.records("Progressed")  # such a record came in between, and was none either


def test_a_child_that_only_writes_files_is_life(start):
    """No byte on the pipe, hardly any processor time: the tree changes what lies on the disk."""
    loop = start(
        "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8; do seq 2000 >>file.txt; sleep 0.5; done\ngit commit -qam built\n",
        quiet_s=1.5,
    )
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "done.next"
    assert ended["seconds"] >= 3


@pytest.mark.slow
def test_files_that_others_change_for_the_agent_are_life_and_old_ones_are_not(start, tmp_path):
    """A container or a server works for an agent that waits: nothing of that is in its process tree."""
    loop = start("#!/bin/sh\necho old >old.txt\nexec sleep 600\n", quiet_s=4.0)
    loop.wait_for("AgentStarted")
    began = time.monotonic()
    while time.monotonic() < began + 10:
        (loop.worktree / "built.o").write_text(f"{time.monotonic()}")
        time.sleep(0.1)
    assert not loop.outcomes()
    loop.wait_for("TrajectoryEnded")
    assert loop.outcomes()[:1] == ["agent.hung"]
