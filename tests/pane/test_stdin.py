"""A program in Claude Code's place may read its stdin to the end before it begins: it is given one, and soon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.paneloop import PaneLoop, until

from ralphd.pane.procs import forest
from ralphd.pane.stdin import FIRST_LOOK_S, LOOK_MAX_S, PAUSE_S, SILENT_S, Input, ReadsToEnd

RESULT = '{"type":"result","subtype":"success","is_error":false,"result":"Done so far."}'
READERS = {
    "shell": f"#!/bin/sh\ncat >/dev/null\necho '{RESULT}'\n",
    "python": f"#!{sys.executable}\nimport sys\nsys.stdin.read()\nprint('{RESULT}')\n",
    "copy": f"#!/bin/sh\nprompt=$(cat)\necho '{RESULT}'\n",
    "child": f"#!/bin/sh\nsh -c 'cat >/dev/null'\necho '{RESULT}'\n",
    "waits in select": f"""#!{sys.executable}
import os, select
while select.select([0], [], [])[0] and os.read(0, 1 << 16):
    pass
print('{RESULT}')
""",
}


@pytest.mark.parametrize("reader", READERS)
def test_a_program_that_reads_its_stdin_to_the_end_has_its_sessions(tmp_path, reader):
    loop = PaneLoop(tmp_path, READERS[reader], cli="claude")
    try:
        loop.start()
        ended = loop.wait_for("TrajectoryEnded")[0]
        assert ended["outcome"]["kind"] == "done.noop"
    finally:
        loop.clean_up()


def test_once_that_is_known_no_session_waits_for_it(tmp_path):
    seen = tmp_path / "seen"
    loop = PaneLoop(
        tmp_path, f"#!/bin/sh\nreadlink /proc/$$/fd/0 >>{seen}\ncat >/dev/null\necho '{RESULT}'\n", cli="claude"
    )
    try:
        loop.start()
        loop.wait_for("TrajectoryEnded", 3)
    finally:
        loop.clean_up()
    first, *others = seen.read_text().splitlines()
    assert first.startswith("pipe:")
    assert all("memfd:prompt" in other for other in others)


class Program:
    """A program at the other end of a pipe, and a clock."""

    def __init__(self, code: str) -> None:
        self.source, end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(end, False)
        self.input = Input(end)
        assert self.input.say(b"a prompt\n")
        self.process = subprocess.Popen([sys.executable, "-c", code], stdin=self.source, stdout=subprocess.PIPE)
        self.now = 100.0
        self.ends = ReadsToEnd(self.input, self.pids, self.now)

    def pids(self) -> list[int]:
        return [proc.pid for proc in forest((self.process.pid,))]

    def reads_on(self) -> bool:
        return self.input.all_read() and any(map(self.input.read_by, self.pids()))

    def look(self, after_s: float, *, spoke: bool, silent_s: float = 0.0) -> bool:
        """Tell whether its stdin is open after a look."""
        self.now += after_s
        self.ends.look(self.now, spoke=spoke, silent_s=silent_s)
        return self.input.is_open


@contextmanager
def program(code: str) -> Iterator[Program]:
    running = Program(code)
    try:
        yield running
    finally:
        running.input.close()
        os.close(running.source)
        running.process.kill()
        running.process.communicate()


READS = "import sys; sys.stdin.read()"
# Reads what there is and waits for more as an event loop does, where nobody sees what it waits for.
LISTENS = "import os, select\nwhile select.select([0], [], [])[0] and os.read(0, 99): pass"
DEAF = "import time; time.sleep(7777)"


def test_one_that_reads_on_is_given_the_end_at_the_next_look():
    with program(READS) as it:
        until(it.reads_on)
        assert it.look(FIRST_LOOK_S / 2, spoke=False), "not before its time"
        assert not it.look(FIRST_LOOK_S, spoke=False)
        assert it.ends.seen
        assert it.process.wait(30) == 0


def test_one_that_said_something_may_read_on_for_a_while_for_it_may_be_told_more():
    with program(READS) as it:
        until(it.reads_on)
        assert it.look(1.0, spoke=True, silent_s=PAUSE_S - 1.0)
        assert not it.look(LOOK_MAX_S, spoke=True, silent_s=PAUSE_S)
        assert not it.ends.seen, "the next one may be told more as well"


def test_one_that_listens_and_never_says_a_word_is_given_the_end_after_some_seconds():
    with program(LISTENS) as it:
        until(it.input.all_read)
        assert not it.reads_on()
        assert it.look(1.0, spoke=False)
        assert not it.look(SILENT_S, spoke=False)
        assert not it.ends.seen
        assert it.process.wait(30) == 0


def test_one_that_listens_and_said_something_keeps_its_stdin():
    with program(LISTENS) as it:
        until(it.input.all_read)
        for _ in range(20):
            assert it.look(LOOK_MAX_S, spoke=True, silent_s=PAUSE_S * 9)


def test_one_that_has_not_read_what_it_was_told_keeps_it():
    with program(DEAF) as it:
        for _ in range(20):
            assert it.look(LOOK_MAX_S, spoke=False)
        assert not it.input.all_read()


def test_looks_get_rarer():
    with program(DEAF) as it:
        waits = []
        for _ in range(20):
            waits.append(it.ends.next_look_s(it.now))
            it.look(waits[-1], spoke=False)
        assert waits[0] == pytest.approx(FIRST_LOOK_S)
        assert waits == sorted(waits)
        assert waits[-1] == pytest.approx(LOOK_MAX_S)
        it.input.close()
        assert it.ends.next_look_s(it.now) == float("inf")
