"""Calls that no guard wraps: found below the agent, held to the limits, and told why they end."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from support.paneloop import PaneLoop, until

from ralphd.pane import bare
from ralphd.pane.call_events import CallOpened
from ralphd.pane.calls import CallWatch
from ralphd.pane.limits import Limits
from ralphd.pane.procs import forest, strike
from ralphd.pane.watched import GUARD

MIB = 1 << 20
# Speaks like Codex, whose shell knows nothing of the guard, and keeps what each call gave it.
AGENT = f"""#!{sys.executable}
import json, os, subprocess, sys
def tell(**event):
    print(json.dumps(event), flush=True)
def call(name, command):
    item = {{"id": name, "type": "command_execution", "command": command}}
    tell(type="item.started", item=item)
    done = subprocess.run(["/bin/sh", "-c", command], stdout=-1, stderr=-2, text=True, start_new_session=True)
    with open(os.environ["ROOT"] + "/" + name + ".new", "w") as file:
        file.write(f"{{done.returncode}}\\n{{done.stdout}}")
    os.rename(file.name, os.environ["ROOT"] + "/" + name)
    tell(type="item.completed", item={{**item, "exit_code": done.returncode}})
tell(type="thread.started", thread_id="01a2-thread")
CALLS
tell(type="turn.completed", usage={{"input_tokens": 1, "output_tokens": 1}})
"""
HOG = f"exec {sys.executable} -c 'x = bytearray(400 << 20); import time; time.sleep(600)'"


@pytest.fixture
def run(tmp_path):
    """Runs an agent with these calls until the last has returned; gives the loop and what the calls gave."""
    loops = []

    def go(*commands, cli="codex", **limits):
        calls = "\n".join(f"call('call{number}', {command!r})" for number, command in enumerate(commands))
        loop = PaneLoop(tmp_path, AGENT.replace("CALLS", calls), cli=cli, limits=limits)
        loops.append(loop)
        loop.start()
        paths = [tmp_path / f"call{number}" for number in range(len(commands))]
        until(paths[-1].exists, "the last call returns", 120)
        return loop, [path.read_text() for path in paths]

    yield go
    for loop in loops:
        loop.clean_up()


def sleepers(loop):
    def line(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return file.read()
        except OSError:
            return b""

    return [pid for pid in loop.left() if line(pid).startswith(b"sleep\0")]


def test_a_call_past_its_time_is_ended_whole_and_alone_and_the_agent_reads_why(run):
    scattered = "echo before; setsid sleep 600 & (setsid sh -c 'sleep 600; true' &) ; sleep 600; echo after"
    loop, (ended, next_one) = run(scattered, "echo fine", tool_seconds=5.0)
    assert ended.startswith("-9\nbefore\n\n[ralphd] KILLED by the time limit")
    assert "after\n" not in ended.partition("Command:")[0]
    assert next_one == "0\nfine\n"
    until(lambda: not sleepers(loop), "nothing of the call is left")
    (told,) = loop.bodies("ToolEnded")
    assert told["outcome"]["kind"] == "tool.timeout"
    assert told["outcome"]["detail"]["command"] == scattered


def test_a_call_past_its_memory_is_ended_and_the_agent_reads_why(run):
    loop, (ended, next_one) = run(HOG, "echo fine", tool_memory_bytes=200 * MIB)
    assert ended.startswith("-9\n")
    assert "KILLED by the memory limit" in ended
    assert next_one == "0\nfine\n"
    assert [body["outcome"]["kind"] for body in loop.bodies("ToolEnded")] == ["tool.memory"]


def test_what_a_call_left_behind_has_the_rest_of_its_time(run):
    # The first returns long before its time is up, on a machine that is busy with thirty others too.
    loop, _ = run("setsid sleep 600 >/dev/null 2>&1 & sleep 1", "sleep 600", tool_seconds=8.0)
    first = until(lambda: len(found := loop.bodies("ToolEnded")) >= 2 and found)[0]
    assert first["outcome"]["detail"]["returned"]
    until(lambda: not sleepers(loop), "nothing of the calls is left")


def test_a_cli_whose_sessions_may_be_servers_is_left_alone(run):
    loop, (whole,) = run("sleep 2; echo fine", cli="command", tool_seconds=0.3)
    assert whole == "0\nfine\n"
    assert not loop.bodies("ToolEnded")


LATE = """
import subprocess, sys
subprocess.run(["sh", "-c", 'read line; exec "$0" -c "sleep 600"', sys.argv[1]], start_new_session=True)
"""


@pytest.fixture
def watch(tmp_path):
    watch = CallWatch(str(tmp_path / "calls"), Limits(seconds=600.0, memory_bytes=1 << 30))
    watch.bare = watch.calling = True
    yield watch
    watch.close()


@pytest.fixture
def agent(watch):
    """Leads its own session and has a child that leads one too, a shell that becomes the guard when stdin ends."""
    env = {**os.environ, **watch.environment()}
    command = [sys.executable, "-c", LATE, GUARD]
    leader = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=env)
    yield leader
    strike(lambda: forest((leader.pid,)))
    leader.wait()
    leader.stdin.close()


def opened(watch):
    watch.on_readable(time.monotonic())
    return [event.call_id for event in watch.tick(time.monotonic()) if isinstance(event, CallOpened)]


def test_a_shell_that_becomes_the_guard_late_is_one_call_and_not_two(watch, agent):
    watch.agent = agent.pid
    (call_id,) = until(lambda: opened(watch))
    (shell,) = bare.bare_calls(agent.pid)
    assert call_id == f"{shell.pid}-{shell.start_ticks}"
    agent.stdin.close()
    # Not just a helper of the guard's, before it has announced itself: then it would be ended as what it was.
    until(lambda: any(bare.command_line(proc.pid)[:1] == [b"sleep"] for proc in forest((shell.pid,))), "it runs")
    assert opened(watch) == []
    watch.limits = Limits(seconds=0.1, memory_bytes=1 << 30)
    until(lambda: opened(watch) or os.path.exists(f"{watch.folder}/{call_id}.verdict"), "the guard is told why")
