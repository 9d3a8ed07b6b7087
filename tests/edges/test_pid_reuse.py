"""A pid comes to mean somebody else: whoever has it then is never signalled, and never taken for a runner.

The reuse is real: in a pid namespace of its own the kernel is told which pid to give next.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.needs import missing

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", *(["--map-root-user"] if os.geteuid() else [])]
ROUNDS = 30

INSIDE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from ralphd.edges import processes
from ralphd.edges.loopfolder import LoopFolders
from ralphd.pane import procs

folder, rounds = Path(sys.argv[1]), int(sys.argv[2])

def sleeper():
    return subprocess.Popen(["sleep", "7777"])

def next_tick_after(ticks):
    while int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) <= ticks + 1:
        time.sleep(0.001)

for number in range(rounds):
    first = sleeper()
    mine, panes = processes.identity(first.pid), procs.read(first.pid).identity
    runner = {"pid": first.pid, "start_ticks": mine.start_ticks, "boot_id": mine.boot_id,
              "generation": 1, "pane": "%1", "nonce": "n"}
    (folder / "runner.json").write_text(json.dumps(runner))
    assert LoopFolders(mine.boot_id).alive(str(folder)), "what this measures with sees a living one"
    first.kill()
    first.wait()
    next_tick_after(mine.start_ticks)
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
    stranger = sleeper()
    assert stranger.pid == first.pid, "the pid was not given again"
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
        assert processes.signal_if_same(mine, number) is False
        assert procs.signal_if_same(panes, number) is False
    assert processes.alive(mine) is False
    assert procs.same(panes) is None
    assert LoopFolders(mine.boot_id).alive(str(folder)) is False
    state = Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()[0]
    assert stranger.poll() is None and state in "SRD", state
    assert processes.signal_if_same(processes.identity(stranger.pid), signal.SIGKILL) is True
    stranger.wait()
print("never")
"""


def test_a_process_that_got_an_ended_ones_pid_is_never_signalled(tmp_path):
    probe = "echo 99 >/proc/sys/kernel/ns_last_pid"
    try:
        done = subprocess.run([*NAMESPACE, "sh", "-c", probe], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        missing("no unshare, so no pid namespace")
    if done.returncode:
        missing(f"no pid namespace in which pids can be chosen: {done.stderr.strip()}")
    command = [*NAMESPACE, sys.executable, "-c", INSIDE, str(tmp_path), str(ROUNDS)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "never\n"), done.stderr
