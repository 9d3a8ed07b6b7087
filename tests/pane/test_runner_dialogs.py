"""What a runner does with an agent that shows a dialog, whichever choice is marked: it shows it, and answers nothing."""

from __future__ import annotations

import sys

import pytest
from support.paneloop import PaneLoop

# Draws the dialog as a terminal program would, without an end of line, and writes down all that ever reaches it.
DIALOG = f"""#!{sys.executable}
import os, sys, time
got = sys.stdin.buffer.read()
with open(os.environ["ROOT"] + "/got", "wb") as file:
    file.write(got)
try:
    terminal = open("/dev/tty", "rb")
except OSError:
    terminal = None
sys.stdout.write("\\x1b[1mDo you trust the files in this folder?\\x1b[0m\\r\\n\\r\\n" + os.environ["CHOICES"])
sys.stdout.flush()
with open(os.environ["ROOT"] + "/tty", "wb") as file:
    file.write(b"none" if terminal is None else terminal.read(1))
sys.stdout.flush()
time.sleep(600)
"""
ORDERS = ("\\u276f 1. Yes, proceed\\r\\n  2. No, exit", "\\u276f 1. No, exit\\r\\n  2. Yes, proceed")


@pytest.fixture
def make(tmp_path):
    made: list[PaneLoop] = []

    def build(name: str, agent: str, **more) -> PaneLoop:
        root = tmp_path / name
        root.mkdir()
        made.append(PaneLoop(root, agent, **more))
        made[-1].start()
        return made[-1]

    yield build
    for loop in made:
        loop.clean_up()


def test_a_dialog_is_shown_and_held_for_a_person_and_nothing_is_ever_typed(make):
    orders = [order.encode().decode("unicode_escape") for order in ORDERS]
    loops = [make(str(n), DIALOG, env={"CHOICES": order}, limits={"quiet_s": 6.0}) for n, order in enumerate(orders)]
    for loop in loops:
        (held,) = loop.wait_for("Held")
        assert held == {"kind": "agent.waiting_for_input", "why": "it asks: Do you trust the files in this folder?"}
        assert loop.outcomes() == ["agent.waiting_for_input"]
        assert "Do you trust the files in this folder?" in [body["asks"] for body in loop.bodies("Progressed")]
        prompt = (loop.root / "got").read_bytes()
        assert prompt.count(b"Do the next thing.") == 1
        assert prompt.endswith(loop.prompt.read_bytes())
        assert (loop.root / "tty").read_bytes() == b"none"
        loop.order("running", retry=True)
        loop.wait_for("TrajectoryStarted", 2)


# Its Stop hook takes its time after the last answer; whoever typed at an agent that looks idle would start it all over.
SLOW_HOOK = f"""#!{sys.executable}
import json, os, subprocess, sys, time
got = sys.stdin.buffer.read()
def tell(**event):
    print(json.dumps(event), flush=True)
tell(type="begin", session="s")
tell(type="text", text="All is done.")
hook = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])
hook.wait()
more = sys.stdin.buffer.read()
with open(os.environ["ROOT"] + "/more", "ab") as file:
    file.write(more + b".")
open("file.txt", "a").write("x")
subprocess.run(["git", "commit", "-qam", "work"], check=True)
tell(type="result", ok=True, text="done")
"""


def test_a_slow_hook_behind_the_last_answer_is_awaited_and_nobody_is_nudged(make):
    loop = make("hook", SLOW_HOOK)
    loop.wait_for("TrajectoryEnded", 2)
    assert loop.outcomes()[:2] == ["done.next", "done.next"]
    assert set((loop.root / "more").read_bytes()) == set(b".")
