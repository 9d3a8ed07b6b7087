"""A stand-in for the runner: one agent (a bash script) with the tool-call guard, and what the watch saw."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

from ralphd.pane.watched import GUARD

ROOT = Path(__file__).resolve().parents[2]

RUNNER = """
import json, os, select, signal, sys, time
sys.path.insert(0, ROOT)
from dataclasses import asdict
from ralphd.pane.calls import CallWatch
from ralphd.pane.limits import Limits
from ralphd.pane.procs import become_subreaper

told = json.loads(sys.argv[1])
assert become_subreaper()
watch = CallWatch(told["folder"], Limits(**told["limits"]), match=told["match"], nonce="RALPHD_NONCE=" + told["nonce"], group=told["group"])
extra = {"GUARD": told["guard"], "RALPHD_NONCE": told["nonce"], "ROOTDIR": ROOT}
environment = {**os.environ, **watch.environment(), **extra, **told["env"]}
out = os.open(told["folder"] + "/agent.out", os.O_CREAT | os.O_WRONLY, 0o600)
err = os.open(told["folder"] + "/agent.err", os.O_CREAT | os.O_WRONLY, 0o600)
agent = os.fork()
if not agent:
    os.dup2(out, 1), os.dup2(err, 2), os.setsid()
    os.execve("/bin/bash", ["bash", "-c", told["script"]], environment)
watch.agent = agent
status, events, ticks = None, [], 0
def reap():
    global status
    while True:
        try:
            pid, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        if pid == agent:
            status, watch.agent = os.waitstatus_to_exitcode(raw), None
def pause(seconds):
    time.sleep(seconds)
    reap()
now = time.monotonic
def turn():
    wait = watch.next_tick_in(now())
    if select.select([watch], [], [], min(0.05, 9 if wait is None else wait))[0]:
        watch.on_readable(now())
    events.extend((type(event).__name__, asdict(event)) for event in watch.tick(now()))
    reap()
while status is None:
    turn()
settled = now() + told["linger_s"]
while now() < settled:
    turn()
left = [proc.pid for proc in watch.leftovers()]
ended = watch.end_leftovers(now=now, pause=pause, grace_s=0.2)
print(json.dumps({"status": status, "events": events, "left": left, "ended": ended,
                  "still": [proc.pid for proc in watch.leftovers()]}))
"""


class Ran:
    """What came of it: the agent's ``out`` and ``err``, the watch's ``events`` by name, and what was left."""

    def __init__(self, told: dict, folder: Path) -> None:
        self.status = told["status"]
        self.events = told["events"]
        self.left, self.ended, self.still = told["left"], told["ended"], told["still"]
        self.out = (folder / "agent.out").read_text(errors="replace")
        self.err = (folder / "agent.err").read_text(errors="replace")
        self.folder = folder

    def named(self, name: str) -> list[dict]:
        return [event for kind, event in self.events if kind == name]

    @property
    def killed(self) -> dict:
        (event,) = self.named("CallKilled")
        return event


def run_calls(
    folder: Path, script: str, *, match="", guard=GUARD, env=None, linger_s=0.3, nonce="n-1", group="", **limits
) -> Ran:
    """Run ``script`` as the agent; it reaches the guard as ``$GUARD``."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "folder": str(folder),
        "script": textwrap.dedent(script),
        "match": match,
        "guard": str(guard),
        "env": env or {},
        "nonce": nonce,
        "group": group,
        "linger_s": linger_s,
        "limits": {"seconds": 60, "memory_bytes": 2**30, **limits},
    }
    source = RUNNER.replace("ROOT", repr(str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-E", "-c", source, json.dumps(told)],
        capture_output=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr.decode()
    return Ran(json.loads(done.stdout), folder)


def lives(pid: int) -> bool:
    """Say whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def python(code: str) -> str:
    """Return a shell command that runs ``code``."""
    return f"{shlex.quote(sys.executable)} -I -S -c {shlex.quote(textwrap.dedent(code))}"


def pids_in(folder: Path) -> list[int]:
    """Return what processes wrote of themselves: one file each, named by its pid."""
    return [int(name) for name in os.listdir(folder) if name.isdigit()]
