"""What a tree uses while it does nothing is no sign of life, and what it uses when it works is one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ralphd.pane import stirring
from ralphd.pane.procs import TICKS_PER_S
from ralphd.pane.stirring import BUSY_BYTES, Stirring

CLI, CHILD = 10, 11
LOOK_S = 15.0
IDLE = {"own": CLI, "idle_share": 0.05, "idle_bytes": 100_000}


@dataclass
class Process:
    pid: int
    start_ticks: int = 1
    ticks: float = 0
    moved: int = 0


@pytest.fixture
def tree(monkeypatch):
    """A CLI and its child, whose uses the test sets."""
    processes = {pid: Process(pid) for pid in (CLI, CHILD)}
    monkeypatch.setattr(stirring, "_used", lambda pid: (int(processes[pid].ticks), processes[pid].moved))
    return processes


def looks(tree, uses, **known):
    """Whether the tree stirred after each step; a step says which pid used how many seconds and bytes."""
    found, now = Stirring(tree.values, **known), 100.0
    found.look(now)
    stirred = []
    for pid, seconds, moved in uses:
        tree[pid].ticks += seconds * TICKS_PER_S
        tree[pid].moved += moved
        now += LOOK_S
        stirred.append(found.look(now))
    return stirred


def test_more_than_a_hundredth_of_a_core_or_a_few_bytes_are_life(tree):
    uses = [(CLI, 0.1, 0), (CLI, 0.2, 0), (CLI, 0, BUSY_BYTES - 1), (CLI, 0, BUSY_BYTES), (CHILD, 0.2, 0)]
    assert looks(tree, uses) == [False, True, False, True, True]


def test_what_the_cli_itself_takes_while_it_is_idle_is_none(tree):
    uses = [(CLI, 0.7, 0), (CLI, 1.0, 0), (CLI, 0, 100_000), (CLI, 0, 100_000 + BUSY_BYTES)]
    assert looks(tree, uses, **IDLE) == [False, True, False, True]


def test_its_children_are_heard_as_ever(tree):
    uses = [(CHILD, 0.2, 0), (CHILD, 0, BUSY_BYTES), (CHILD, 0.1, 0)]
    assert looks(tree, uses, **IDLE) == [True, True, False]


def test_a_new_process_is_life(tree):
    found = Stirring(tree.values, **IDLE)
    found.look(1.0)
    tree[12] = Process(12)
    assert found.look(2.0)
    assert not found.look(3.0)
