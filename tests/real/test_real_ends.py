"""However a session of a real agent CLI ends, no process of it survives, its running tool call neither."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.clients import Client
from support.model_script import bash
from support.paneloop import until
from support.stage import Stage

from ralphd.pane.procs import read

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

NAMES = ("tool", "child", "daemon")
TOOL = bash(
    "(setsid sh -c 'echo $$ > daemon.pid; exec tail -f /dev/null' </dev/null >/dev/null 2>&1 &); "
    "sh -c 'echo $$ > child.pid; exec tail -f /dev/null' & echo $$ > tool.pid; tail -f /dev/null"
)
SIGNALS = ("TERM", "KILL", "SEGV", "ABRT")  # the last two are how a program crashes by itself
SIGNALLED, EXITED = "agent.signalled", "agent.exited"
EXITS_ON = {"gemini": ("TERM",)}  # it catches SIGTERM, says nothing and exits with 0
NO_ABRT = ("qwen", "opencode", "mini")  # qwen catches one from outside and works on; the others take long to start


def test_nothing_of_a_session_survives_its_end(stage: Callable[..., Stage], client: Client) -> None:
    here = stage()
    found = {}
    for name in SIGNALS[: -1 if client.name in NO_ABRT else None]:
        number, pids = in_a_call(here)
        strike(here.loop.bodies("AgentStarted")[number]["pid"], signal.Signals[f"SIG{name}"])
        found[name] = here.ended(number)["body"]["outcome"]["kind"]
        assert_gone(pids)
    assert found == dict.fromkeys(found, SIGNALLED) | dict.fromkeys(EXITS_ON.get(client.name, ()), EXITED)
    _, pids = in_a_call(here)
    assert here.loop.stop() == 0
    assert_gone(pids)
    assert here.loop.left() == []


def in_a_call(here: Stage) -> tuple[int, tuple[int, ...]]:
    """Begin a session that runs a tool call; its number, and the pids of the call."""
    files = [Path(here.loop.worktree) / f"{name}.pid" for name in NAMES]
    for file in files:
        file.unlink(missing_ok=True)
    number = here.begin(TOOL)
    until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files), "the tool call runs", 200)
    return number, tuple(int(file.read_text()) for file in files)


def strike(pid: int, number: signal.Signals) -> None:
    """Send the signal until it is felt: Rust takes the first SIGSEGV, and dies of the fault that a real one repeats."""
    kept = read(pid)

    def ended() -> bool:
        proc = read(pid)
        if kept is None or proc is None or not proc.alive or proc.start_ticks != kept.start_ticks:
            return True
        if number is signal.SIGSEGV:
            os.kill(pid, number)
        return False

    os.kill(pid, number)
    until(ended, f"{number.name} ends it", 100)


def assert_gone(pids: tuple[int, ...]) -> None:
    for pid in pids:
        until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), f"process {pid} of a tool call is gone")
