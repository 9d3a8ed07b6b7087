"""Ctrl-C while one still waits for a night to begin."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

from support.livenight import until

INTERRUPTED = 130


def test_an_interrupted_start_leaves_nothing_running(night):
    starting = night.popen("start", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert b"cloning" in starting.stderr.readline()
    starting.send_signal(signal.SIGINT)
    said = starting.communicate(timeout=60)[1].decode()
    assert starting.returncode == INTERRUPTED, said
    assert "interrupted: ending the night that was just begun" in said
    until(lambda: not night.left(), "all of it ended")
    assert night.ralphd("status").returncode == 3


def test_an_interrupted_take_up_leaves_the_night_as_it_was(night):
    night.start()
    os.kill(night.daemon_pid(), signal.SIGKILL)
    until(lambda: night.daemon_pid() is None, "the daemon is gone")
    starting = night.popen("start", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert b"taking it up again" in starting.stderr.readline()
    starting.send_signal(signal.SIGINT)
    said = starting.communicate(timeout=60)[1].decode()
    assert starting.returncode == INTERRUPTED, said
    assert "runs on" in said
    assert {loop["state"] for loop in night.loops().values()} == {"running"}


def test_an_interrupted_demo_leaves_nothing_running(night):
    show = subprocess.Popen(
        [sys.executable, "-P", "-m", "ralphd", "demo", "--seconds", "60"],
        env={**night.env, "TMPDIR": str(night.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    folder = show.stdout.readline().decode().rsplit(" is in ", 1)[1].strip().removesuffix(".")
    night.state = night.root / folder / "state"
    assert b"cloning" in show.stderr.readline()
    show.send_signal(signal.SIGINT)
    said = show.communicate(timeout=60)[0].decode()
    assert show.returncode == INTERRUPTED, said
    assert "Nothing of it runs any more" in said
    assert not night.left()
    shutil.rmtree(folder)
