"""What an agent writes to its pipe never costs a runner its memory, its footing or the end of the stream."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.paneloop import PaneLoop, until

RESULT = '{"type": "result", "ok": true, "text": "that was it"}'
# Held at once: a line of 8 MiB at most, its text and what JSON makes of it; without bounds it would be 200 MB and more.
MOST_KIB = 96 * 1024
SPEAK = f"""#!{sys.executable}
import os, signal, sys, time
open(1, "ab", closefd=False)
def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
session = int(os.environ["RALPHD_TRAJECTORY"])
with open("file.txt", "a") as file:
    file.write("more\\n")
"""
PARTS = {
    "a line of 5 MB": """
write(b'{"type": "return", "id": "1", "text": "' + b"x" * (5 << 20) + b'"}\\n')
""",
    "glued objects": """
write(b'{"type": "usage", "input": 1}{"type": "usage", "input": 2} {"type": "text", "text": "glued"}')
""",
    "pieces of an object, one at a time": """
for byte in b'{"type": "text", "text": "\\xe7\\x8c\\xab in pieces"}\\n':
    write(bytes([byte]))
    time.sleep(0.002)
""",
    "200 MB without a newline": """
for _ in range(200):
    write(b"\\0" * (1 << 20))
write(b"\\n")
""",
    "NUL and invalid UTF-8": """
write(b'\\0\\0{"type": "text", "text": "a \\0 b \\xff\\xfe c"}\\n\\xff\\xfe\\xc3\\n\\0\\n\\xf0\\x9f\\x90\\n')
""",
    "an object without its front": """
write(b'done": true, "text": "RALPHD: DONE"}\\n')
""",
}


@pytest.fixture
def speak(tmp_path):
    """A loop whose agent writes that and then its result; one session of it."""
    loops = []

    def start(code: str) -> PaneLoop:
        loop = PaneLoop(tmp_path, f"{SPEAK}\nif session > 1: time.sleep(600)\n{code}")
        loops.append(loop)
        loop.start()
        return loop

    yield start
    for loop in loops:
        loop.clean_up()


def most_kib(pid: int) -> int:
    """The most memory that a process ever had."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


def log_bytes(loop: PaneLoop) -> int:
    """Size of the first session's whole log, all its pieces."""
    return sum(path.stat().st_size for path in (loop.folder / "logs").glob("001-00001.log*"))


@pytest.mark.parametrize("name", PARTS)
def test_whatever_comes_before_a_result_it_is_read_in_bounded_memory(speak, name):
    """Seen: a line over 64 kB or 1 MB ended the reader, glued or split objects lost the result, a NUL stopped the log."""
    loop = speak(f"{PARTS[name]}write({RESULT!r}.encode() + b'\\n')")
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "done.next"
    assert ended["outcome"]["detail"]["result"] == "ok"
    assert ended["claims_done"] is False
    loop.wait_for("AgentStarted", 2)
    assert most_kib(loop.processes[-1].pid) < MOST_KIB
    (at,) = [found for found in ended["outcome"]["evidence"] if found["what"] == "its final result"]
    assert at["end"] == log_bytes(loop) - 1


LINE_MIB = int(os.environ.get("RALPHD_TEST_LINE_MIB", "512"))


@pytest.mark.slow
def test_one_endless_line_costs_a_runner_less_than_64_mib(speak):
    """Half a GiB, or what RALPHD_TEST_LINE_MIB asks for. A reader that waited for its end would need four times as much."""
    loop = speak(f"""
import subprocess
write(b'{{"type": "text", "text": "here it comes"}}\\n')
while not os.path.exists("go"):
    time.sleep(0.05)
zeros = subprocess.Popen(["head", "-c", str({LINE_MIB} << 20), "/dev/zero"], stdout=subprocess.PIPE)
subprocess.run(["tr", "\\\\0", "x"], stdin=zeros.stdout, check=True)
write(b"\\n" + {RESULT!r}.encode())
""")
    pid = loop.processes[-1].pid
    until(lambda: "here it comes" in loop.text())
    before = most_kib(pid)
    (loop.worktree / "go").touch()
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert (ended["outcome"]["kind"], ended["outcome"]["detail"]["result"]) == ("done.next", "ok")
    assert most_kib(pid) - before < 64 * 1024


def test_an_answer_cut_off_by_a_kill_is_no_answer(speak):
    """Seen: half a line at the end of the log was taken for a result, or stopped the one who read it."""
    loop = speak(
        """write(b'{"type": "result", "ok": true, "done": true, "text": "RALPHD: D'); os.kill(os.getpid(), 9)"""
    )
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "agent.signalled"
    assert ended["claims_done"] is False
    assert "result" not in ended["outcome"]["detail"]
    loop.wait_for("AgentStarted", 2)


def test_letters_cut_by_any_boundary_are_shown_whole(speak):
    """Seen: a preview cut at a byte within a letter ended the run at its start."""
    said = "x" * 59 + "猫が好き👩‍👩‍👧‍👦" * 40
    loop = speak(f"""
import json
for ascii in (True, False):
    line = json.dumps({{"type": "text", "text": {said!r}}}, ensure_ascii=ascii).encode() + b"\\n"
    for at in range(0, len(line), 997):
        write(line[at:at + 997])
        time.sleep(0.002)
write({RESULT!r}.encode())
""")
    assert loop.wait_for("TrajectoryEnded")[0]["outcome"]["kind"] == "done.next"
    text = until(lambda: "session 1 ended" in loop.text() and loop.text())
    assert text.count("x" * 59 + "猫が好き") == 2
    assert "\ufffd" not in text
