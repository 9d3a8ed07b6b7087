"""What is written to the bell is hostile until /proc agrees with it."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from support.loop_of_calls import GUARD, run_calls

from ralphd.pane import bell, call_files, calls, procs
from ralphd.pane.call_events import CallClosed
from ralphd.pane.calls import CallWatch
from ralphd.pane.limits import Limits

LIMITS = Limits(seconds=1, memory_bytes=2**30)


@pytest.fixture
def watch(tmp_path):
    watch = CallWatch(str(tmp_path / "calls"), LIMITS)
    yield watch
    watch.close()


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def ring(watch, data):
    fd = os.open(watch.folder + "/bell", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while data:
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                watch.on_readable(0.0)
    finally:
        os.close(fd)
    for _ in range(20):
        watch.on_readable(0.0)


def test_the_folder_is_private(watch):
    assert stat.S_IMODE(os.stat(watch.folder).st_mode) == 0o700
    assert stat.S_ISFIFO(os.stat(watch.folder + "/bell").st_mode)


def test_a_bell_of_an_earlier_runner_is_taken_over_and_another_file_replaced(tmp_path):
    folder = tmp_path / "calls"
    CallWatch(str(folder), LIMITS).close()
    CallWatch(str(folder), LIMITS).close()
    (folder / "bell").unlink()
    (folder / "bell").write_text("not a fifo")
    CallWatch(str(folder), LIMITS).close()
    assert stat.S_ISFIFO(os.stat(folder / "bell").st_mode)


def test_new_limits_are_what_calls_are_told(watch):
    text = os.path.join(watch.folder, "memory.text")
    assert "1.0 GiB" in Path(text).read_text()
    watch.limits = Limits(seconds=1, memory_bytes=2**21, output_bytes=77)
    assert "2.0 MiB" in Path(text).read_text()
    assert watch.environment()["RALPHD_LIMIT_OUTPUT"] == "77"


def test_limits_that_are_the_same_again_write_nothing_and_mend_what_an_agent_removed(watch):
    text = os.path.join(watch.folder, "memory.text")
    before = os.stat(text).st_mtime_ns
    watch.limits = LIMITS
    assert os.stat(text).st_mtime_ns == before
    os.unlink(text)
    watch.limits = LIMITS
    assert "1.0 GiB" in Path(text).read_text()


def test_with_nothing_open_there_is_nothing_to_wait_for(watch):
    assert watch.next_tick_in(0.0) is None
    assert watch.tick(0.0) == []
    watch.on_readable(0.0)


def test_a_process_that_is_not_a_wrapper_can_not_be_announced(watch, sleeper):
    proc = procs.read(sleeper.pid)
    ring(watch, b"open %d-%d %d\n" % (proc.pid, proc.start_ticks, proc.pid))
    assert watch.next_tick_in(0.0) is None
    assert watch.tick(1e9) == []
    assert sleeper.poll() is None


def test_a_wrapper_outside_of_our_tree_can_not_be_announced(tmp_path):
    """Its tree belongs to another loop, whose runner watches it."""
    outside = subprocess.Popen(["sh", GUARD, "sleep 1000"], env={"PATH": os.environ["PATH"]})
    watch = CallWatch(str(tmp_path / "calls"), LIMITS, owner=outside.pid + 2**22)
    try:
        proc = procs.read(outside.pid)
        ring(watch, b"open %d-%d %d\n" % (proc.pid, proc.start_ticks, proc.pid))
        assert watch.tick(1e9) == []
        assert outside.poll() is None
    finally:
        watch.close()
        outside.kill()
        outside.wait()


@pytest.mark.parametrize(
    "line",
    [
        b"open 1-1 2",
        b"open 1-1",
        b"open -1--1 -1",
        b"open ../../x-1 1",
        b"open 1-1 1 extra",
        b"close 1-1 0",
        b"close 1-1 x",
        b"end 1-1",
        b"\xff\xfe\x00",
        b"",
        b"x" * 1_000_000,
        b"z" * 1000,
    ],
    ids=lambda line: repr(line[:16]),
)
def test_junk_is_ignored_and_the_next_line_is_read(watch, line):
    seen = []
    watch._line = lambda got, now, real=watch._line: (seen.append(got), real(got, now))
    ring(watch, line + b"\nafter\n")
    assert seen[-1] == b"after"
    assert all(len(got) <= bell.LINE_BYTES for got in seen)
    assert len(watch._bell._tail) <= bell.LINE_BYTES
    assert [event for event in watch.tick(1e9) if not isinstance(event, CallClosed)] == []
    assert watch.next_tick_in(1e9) is None


def test_a_megabyte_without_an_end_is_not_kept(watch):
    ring(watch, b"y" * 1_000_000)
    assert watch._bell._tail == b""


def test_forged_calls_are_bounded(watch):
    ring(watch, b"".join(b"open %d-1 %d\n" % (2**22 + n, 2**22 + n) for n in range(5000)))
    assert len(watch._calls) <= calls.OPEN_CALLS
    watch.tick(1.0)
    assert watch._calls == {}


def test_a_command_that_forges_its_own_end_is_still_limited(tmp_path):
    ran = run_calls(
        tmp_path / "c",
        '$GUARD \'for n in 1 2 3; do echo "close $RALPHD_CALL 0" >"$RALPHD_CALLS/bell"; sleep 0.1; done; sleep 1000\' | tail -n 3; echo ${PIPESTATUS[0]}',
        seconds=1,
    )
    assert ran.killed["limit"] == "time"
    assert ran.out.endswith("124\n")
    assert ran.named("CallClosed")[-1]["status"] == 124
    assert ran.left == []


def test_the_agent_itself_is_not_announced_by_its_own_call(tmp_path):
    ran = run_calls(
        tmp_path / "c",
        """
        ticks=$(cut -d' ' -f22 /proc/$$/stat)
        AGENT="$$-$ticks $$" $GUARD 'echo "open $AGENT" >"$RALPHD_CALLS/bell"'
        sleep 3
        echo alive
        """,
        seconds=2,
    )
    assert ran.out == "alive\n"
    assert len(ran.named("CallClosed")) == 1
    assert ran.named("CallKilled") == []


def test_files_of_old_calls_go_and_spilled_ones_stay(tmp_path):
    ran = run_calls(
        tmp_path / "c", 'for n in $(seq 60); do $GUARD "echo x"; done; $GUARD "seq 10000" | tail -n1', output_bytes=1000
    )
    kept = [path for path in ran.folder.iterdir() if path.name.endswith(".out")]
    assert len(kept) == call_files.KEPT_CALLS + 1 + 1  # and the agent's own of this test
    assert sum(path.stat().st_size > 1000 for path in kept) == 1
    assert len(ran.named("CallClosed")) == 61
