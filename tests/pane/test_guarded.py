"""One command under limits: its whole tree ends with it, and the result tells how."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from support.loop_of_calls import lives, pids_in, python
from support.paneloop import until

GUARDED = Path(__file__).resolve().parents[2] / "ralphd" / "pane" / "guarded.py"
MIB = 1024 * 1024


def command(tmp_path, *argv, **options):
    told = {"seconds": 60, "memory": 1024 * MIB, "result": tmp_path / "result.json", **options}
    flags = [str(part) for name, value in told.items() for part in (f"--{name}", value)]
    return [sys.executable, "-I", "-S", "-E", str(GUARDED), *flags, "--", *argv]


def run(tmp_path, script, **options):
    argv = command(tmp_path, "sh", "-c", script, **options)
    # A session of its own: what a command does to its group must not reach the tests, should the guard fail.
    done = subprocess.run(
        argv, capture_output=True, check=False, timeout=120, stdin=subprocess.DEVNULL, start_new_session=True
    )
    return done, json.loads((tmp_path / "result.json").read_text())


@pytest.mark.parametrize("status", [0, 1, 42, 255])
def test_the_exit_status_is_the_commands_own(tmp_path, status):
    done, result = run(tmp_path, f"echo out; echo err >&2; exit {status}")
    assert (done.returncode, done.stdout, done.stderr) == (status, b"out\n", b"err\n")
    assert result["status"] == status
    assert (result["signal"], result["limit"], result["text"], result["output_file"]) == (None, None, "", None)
    assert (result["leftovers"], result["stopped"]) == (0, None)
    assert result["seconds"] > 0


def test_a_command_that_dies_by_a_signal_says_which(tmp_path):
    done, result = run(tmp_path, "kill -SEGV $$")
    assert done.returncode == 128 + 11
    assert (result["status"], result["signal"]) == (None, 11)


def test_the_time_limit_ends_the_tree(tmp_path):
    done, result = run(tmp_path, "trap '' TERM; echo begun; (setsid sleep 1000 &); sleep 1000", seconds=2)
    assert done.returncode == 124
    assert done.stdout == b"begun\n"
    assert b"KILLED by the time limit" in done.stderr
    assert (result["limit"], result["allowed"]) == ("time", 2)
    assert 2 <= result["figure"] <= result["seconds"]


def test_the_memory_limit_counts_the_whole_tree(tmp_path):
    hog = python(
        f"""
        import os, time
        for n in range(4):
            if not os.fork():
                held = bytearray(24 * {MIB})
                for at in range(0, len(held), 4096): held[at] = 1
                time.sleep(1000)
        time.sleep(1000)
        """
    )
    done, result = run(tmp_path, hog, memory=64 * MIB)
    assert done.returncode == 137
    assert result["limit"] == "memory"
    assert result["peak_bytes"] >= result["figure"] > 64 * MIB


def test_saved_output_holds_both_streams_in_order_and_is_bounded(tmp_path):
    save = tmp_path / "out"
    done, result = run(tmp_path, "echo a; echo b >/dev/stderr; echo c", save=save)
    assert (done.stdout, save.read_bytes(), result["output_file"]) == (b"", b"a\nb\nc\n", str(save))
    done, result = run(tmp_path, "yes", save=save, output=10_000)
    assert (done.returncode, result["limit"]) == (137, "output")
    assert save.stat().st_size == 640_000


def test_saved_output_is_whole_when_the_command_ends_at_once(tmp_path):
    save = tmp_path / "out"
    run(tmp_path, "seq 60000", save=save)
    assert save.read_text() == "".join(f"{n}\n" for n in range(1, 60001))


def test_what_outlives_the_command_is_ended_and_counted(tmp_path):
    pids = tmp_path / "pids"
    pids.mkdir()
    daemon = python(
        f"""
        import os, signal, time
        if os.fork(): os._exit(0)
        os.setsid()
        if os.fork(): os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("{pids}/" + str(os.getpid()), "w").close()
        os.execve("/bin/sleep", ["claude", "1000"], {{}})
        """
    )
    done, result = run(
        tmp_path, f"{daemon}; until ls {pids} | grep -q .; do sleep 0.02; done; exit 3", save=tmp_path / "out"
    )
    assert done.returncode == 3
    assert result["leftovers"] == 1
    (pid,) = pids_in(pids)
    assert not lives(pid)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_told_to_stop_it_ends_the_tree(tmp_path, signum):
    pids = tmp_path / "pids"
    pids.mkdir()
    script = f"trap '' TERM INT HUP; touch {pids}/$$; setsid sh -c 'touch {pids}/$$; exec sleep 1000' & sleep 1000"
    process = subprocess.Popen(command(tmp_path, "sh", "-c", script), stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(pids_in(pids)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signum)
    assert process.wait(60) == 128 + signum
    assert [pid for pid in pids_in(pids) if lives(pid)] == []
    assert json.loads((tmp_path / "result.json").read_text())["stopped"] == signum


def test_when_whoever_started_it_is_killed_it_ends_the_tree(tmp_path):
    script = "trap '' HUP TERM; sleep 7777 & echo $! $$ >draft; mv draft pids; wait"
    argv = command(tmp_path, "sh", "-c", script, parent="PARENT")
    starter = """
        import os, subprocess, sys, time
        subprocess.Popen([str(os.getpid()) if word == "PARENT" else word for word in sys.argv[1:]], start_new_session=True)
        time.sleep(600)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(starter), *argv], cwd=tmp_path)
    try:
        until(lambda: len(pids_of(tmp_path)) == 2, "both run")
    finally:
        process.kill()
        process.wait()
    until(lambda: not any(map(lives, pids_of(tmp_path))), "both have ended")
    assert until(lambda: told(tmp_path), "it says why")["stopped"] == signal.SIGHUP


def pids_of(tmp_path):
    path = tmp_path / "pids"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def told(tmp_path):
    path = tmp_path / "result.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_a_hostile_command_can_not_write_its_own_result(tmp_path):
    result = tmp_path / "result.json"
    forge = f"""echo '{{"status": 0}}' > {result}; (setsid sh -c 'while :; do echo forged > {result}; sleep 0.01; done' &)"""
    done, told = run(tmp_path, forge + f"; until grep -q forged {result}; do :; done; kill -TERM 0; exit 9")
    assert done.returncode != 0
    assert told["signal"] == signal.SIGTERM
    assert told["leftovers"] >= 1


def test_a_result_behind_a_link_is_replaced_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / "result.json").symlink_to(victim)
    run(tmp_path, "true")
    assert victim.read_text() == "untouched"


def test_signals_are_the_defaults_inside(tmp_path):
    done, _ = run(tmp_path, "grep -E 'Sig(Ign|Blk)' /proc/self/status")
    assert [int(line.split()[1], 16) & 0x7FFFFFFF for line in done.stdout.splitlines()] == [0, 0]


@pytest.mark.parametrize(
    ("options", "argv", "word"),
    [
        ({"seconds": "soon"}, ["true"], b"--seconds"),
        ({"seconds": "nan"}, ["true"], b"--seconds"),
        ({"memory": -1}, ["true"], b"--memory"),
        ({"colour": "red"}, ["true"], b"--colour"),
        ({}, [], b"no command"),
    ],
)
def test_a_wrong_command_line_names_what_is_wrong(tmp_path, options, argv, word):
    done = subprocess.run(command(tmp_path, *argv, **options), capture_output=True, check=False)
    assert done.returncode == 2
    assert word in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_program_that_is_not_there_is_named(tmp_path):
    done = subprocess.run(command(tmp_path, "no-such-program"), capture_output=True, check=False)
    assert done.returncode == 127
    assert b"'no-such-program': No such file" in done.stderr
