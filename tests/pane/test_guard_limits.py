"""A tool call past a limit is ended with all that it started, and the agent reads why."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from support.loop_of_calls import lives, pids_in, python, run_calls

from ralphd.pane.watched import appended_by

MIB = 1024 * 1024
HOG = """
import time
held = []
while True:
    held.append(bytearray({chunk}))
    for at in range(0, {chunk}, 4096): held[-1][at] = 1
    time.sleep({pause})
"""


def quoted(command: str) -> str:
    return shlex.quote(command)


def test_the_agent_reads_which_limit_what_it_reached_and_what_to_do_instead(tmp_path):
    ran = run_calls(tmp_path / "c", '$GUARD "echo some output; sleep 1000"; echo "rc $?"', seconds=2)
    assert ran.out.startswith("some output\n\n[ralphd] KILLED by the time limit")
    assert ran.out.endswith("\nrc 124\n")
    assert "a tool call may take 2 s" in ran.out
    assert "Command: echo some output; sleep 1000\n" in ran.out
    assert "Split the work" in ran.out
    killed = ran.killed
    assert killed["text"] in ran.out
    assert (killed["limit"], killed["allowed"], killed["returned"]) == ("time", 2, False)
    assert killed["figure"] >= 2
    assert killed["spill"] in ran.out
    assert Path(killed["spill"]).read_text() == "some output\n"
    assert ran.left == []


@pytest.mark.parametrize(
    "escape",
    [
        "setsid sleep 1000 & sleep 1000",
        "(setsid sleep 1000 &); sleep 1000",
        "nohup sleep 1000 >/dev/null 2>&1 & disown; sleep 1000",
        "trap '' TERM INT HUP; (trap '' TERM; while :; do sleep 1; done)",
        "(env -i setsid sleep 1000 >/dev/null 2>&1 </dev/null &); sleep 1000",
        "kill -STOP $$",
    ],
)
def test_nothing_escapes_the_time_limit(tmp_path, escape):
    ran = run_calls(tmp_path / "c", f"$GUARD {quoted(escape)} >/dev/null; echo rc $?", seconds=0.5)
    assert ran.killed["limit"] == "time"
    assert ran.out == "rc 124\n"
    assert ran.left == []


def test_a_double_fork_with_a_new_session_and_name_is_found(tmp_path):
    daemon = python(
        f"""
        import os, time
        if os.fork(): os._exit(0)
        os.setsid()
        if os.fork(): os._exit(0)
        open("{tmp_path}/" + str(os.getpid()), "w").close()
        os.execve("/bin/sleep", ["claude", "1000"], {{}})
        """
    )
    ran = run_calls(tmp_path / "c", f"$GUARD {quoted(daemon + '; sleep 1000')}", seconds=3)
    assert ran.killed["limit"] == "time"
    (pid,) = pids_in(tmp_path)
    assert not lives(pid)


def test_memory_counts_the_whole_tree(tmp_path):
    """Four children below the limit each, above it together; one of them in a session of its own."""
    hogs = python(
        f"""
        import os, time
        for n in range(4):
            if not os.fork():
                if n == 3: os.setsid()
                held = bytearray(24 * {MIB})
                for at in range(0, len(held), 4096): held[at] = 1
                time.sleep(1000)
        time.sleep(1000)
        """
    )
    ran = run_calls(tmp_path / "c", f"$GUARD {quoted(hogs)}; echo rc $?", memory_bytes=64 * MIB)
    killed = ran.killed
    assert killed["limit"] == "memory"
    assert killed["figure"] > 64 * MIB
    assert "rc 137\n" in ran.out
    assert "64.0 MiB" in ran.out
    assert ran.left == []


def test_memory_shared_by_forks_counts_once(tmp_path):
    pool = python(
        f"""
        import os, time
        held = bytearray(40 * {MIB})
        for at in range(0, len(held), 4096): held[at] = 1
        pids = []
        for n in range(4):
            pid = os.fork()
            if not pid:
                time.sleep(0.5)
                os._exit(0)
            pids.append(pid)
        for pid in pids: os.waitpid(pid, 0)
        print("done")
        """
    )
    ran = run_calls(tmp_path / "c", f"$GUARD {quoted(pool)}", memory_bytes=100 * MIB)
    assert ran.out == "done\n"
    assert ran.named("CallClosed")[0]["peak_bytes"] > 40 * MIB


def test_a_slow_leak_is_caught_near_its_limit(tmp_path):
    leak = python(HOG.format(chunk=MIB, pause=0.005))
    ran = run_calls(tmp_path / "c", f"$GUARD {quoted(leak)}", memory_bytes=64 * MIB)
    assert ran.killed["limit"] == "memory"


def test_output_without_end_is_a_flood(tmp_path):
    ran = run_calls(tmp_path / "c", '$GUARD "yes"; echo rc $?', output_bytes=64 * 1024)
    assert ran.killed["limit"] == "output"
    assert "rc 137\n" in ran.out
    assert len(ran.out) < 70 * 1024
    assert Path(ran.killed["spill"]).stat().st_size <= 64 * 64 * 1024


def test_the_time_limit_holds_where_the_client_gave_a_file_to_append_to(tmp_path):
    shown = tmp_path / "shown"
    ran = run_calls(tmp_path / "c", f"$GUARD 'echo begun; sleep 1000' >>{shown} 2>&1; echo $?", seconds=2)
    assert shown.read_text().startswith("begun\n\n[ralphd] KILLED by the time limit")
    assert ran.out == "124\n"
    assert ran.killed["limit"] == "time"


def test_the_output_limit_holds_where_the_client_gave_a_file_to_append_to(tmp_path):
    shown = tmp_path / "shown"
    calls = f"$GUARD yes >>{shown} 2>&1; echo $?; tail -c 2000 {shown}"
    ran = run_calls(tmp_path / "c", calls, output_bytes=64 * 1024)
    assert ran.out.startswith("137\n")
    assert "KILLED by the output limit" in ran.out
    assert (ran.killed["limit"], ran.killed["spill"]) == ("output", str(shown))


def test_where_a_command_writes_is_seen_while_its_wrapper_rings_the_bell(tmp_path):
    """To announce the call, the wrapper makes the bell its stdout for a moment, and then it is looked at."""
    shown, ours = tmp_path / "shown", tmp_path / "1-1.out"
    os.mkfifo(tmp_path / "bell")
    for file in (shown, ours):
        wrapper = subprocess.Popen(
            ["sh", "-c", f"exec 3>>{file} 1<>{tmp_path}/bell; echo >&2; exec sleep 1000"], stderr=-1
        )
        try:
            wrapper.stderr.readline()
            assert appended_by(wrapper.pid, str(ours)) == (str(shown) if file == shown else "")
        finally:
            wrapper.kill()
            wrapper.communicate()


def test_long_output_is_spilled_and_both_ends_shown(tmp_path):
    ran = run_calls(tmp_path / "c", '$GUARD "seq 100000; exit 7"; echo rc $?', output_bytes=10_000)
    assert ran.out.startswith("1\n2\n3\n")
    assert ran.out.endswith("99999\n100000\nrc 7\n")
    assert len(ran.out) < 11_000
    (line,) = [line for line in ran.out.splitlines() if line.startswith("[ralphd]")]
    path = line.rpartition(" ")[2]
    assert Path(path).read_text() == "".join(f"{n}\n" for n in range(1, 100001))
    assert ran.named("CallKilled") == []


def test_a_fork_storm_is_frozen_and_ended(tmp_path):
    """Each process forks two more, down to a depth that is bounded should the guard fail: 4095 in all."""
    storm = python(
        """
        import os, time
        for depth in range(11):
            os.fork()
            time.sleep(0.02)
        time.sleep(20)
        """
    )
    ran = run_calls(tmp_path / "c", f"$GUARD {quoted(storm)}; echo rc $?", processes=60)
    assert ran.killed["limit"] == "processes"
    assert "rc 137\n" in ran.out
    assert ran.still == []


def test_what_a_call_leaves_running_stays_under_its_limits(tmp_path):
    ran = run_calls(tmp_path / "c", '$GUARD "(setsid sleep 1000 &)"; echo rc $?; sleep 3', seconds=2, linger_s=0.5)
    assert ran.out == "rc 0\n"
    assert ran.killed["returned"] is True
    assert ran.killed["limit"] == "time"
    assert ran.left == []


def test_what_is_left_at_the_end_of_a_session_is_ended_and_counted(tmp_path):
    ran = run_calls(tmp_path / "c", '$GUARD "(setsid sleep 1000 &)"; $GUARD "trap \\"\\" TERM; sleep 1000 & exit 0"')
    assert len(ran.left) >= 2
    assert ran.ended >= 2
    assert ran.still == []


def test_calls_at_the_same_time_have_limits_of_their_own(tmp_path):
    ran = run_calls(
        tmp_path / "c",
        """
        $GUARD 'sleep 1000' >/dev/null & first=$!
        sleep 3
        $GUARD 'sleep 2; echo second done'; echo "second $?"
        wait $first; echo "first $?"
        """,
        seconds=4,
    )
    assert ran.out == "second done\nsecond 0\nfirst 124\n"


def test_the_same_call_again_after_a_kill_is_a_new_call(tmp_path):
    ran = run_calls(tmp_path / "c", 'for n in 1 2; do $GUARD "sleep 1000" >/dev/null; echo $?; done', seconds=0.3)
    assert ran.out == "124\n124\n"
    assert len({event["call_id"] for event in ran.named("CallKilled")}) == 2


def test_strangers_of_the_same_name_survive(tmp_path):
    """Nothing is ended by its name, nor by an environment that only looks alike."""
    stranger = subprocess.Popen(
        ["bash", "-c", "exec -a claude sleep 1000"], env={"PATH": "/usr/bin:/bin", "RALPHD_CALL": "1-1"}
    )
    try:
        ran = run_calls(tmp_path / "c", '$GUARD "exec -a claude sleep 1000"', seconds=0.3)
        assert ran.killed["limit"] == "time"
        assert ran.still == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
