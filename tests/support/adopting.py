"""How long does a new daemon take until it has adopted every loop: by the clock, and of a processor?"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from support.nightbox import NightBox, until

from ralphd.core.errors import NothingRunning
from ralphd.edges.control import ask

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_S = 0.02
RUNS = {"running", "waiting"}


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """``seconds`` and ``cpu_s`` are the daemon's (and its children's) from its exec until ``status`` said of every loop
    that it runs; ``asked_s`` is from the exec of the `ralphd start` that a person typed.
    """

    seconds: float
    cpu_s: float
    asked_s: float


def adopt(box: NightBox, loops: int) -> Adopted:
    """Have `ralphd start` take the night up; the moment is when the daemon itself answers, not when `start` returns."""
    argv = [sys.executable, "-P", "-m", "ralphd", "start"]
    asked = time.monotonic()
    with subprocess.Popen(
        argv, cwd=box.repo, env=box.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as start:
        pid = _until_all_run(box, loops, start)
        now, began, cpu_s = time.clock_gettime(time.CLOCK_BOOTTIME), *_used(pid)
        done = Adopted(seconds=now - began, cpu_s=cpu_s, asked_s=time.monotonic() - asked)
        said = (start.stdout.read() if start.stdout else b"").decode()
    assert start.returncode == 0, said
    assert f"{loops} of {loops} loops run" in said
    return done


def distribution(took: Sequence[Adopted]) -> str:
    """The figures in words."""
    rows = {
        "from the daemon's exec until it answers with every loop adopted": [one.seconds for one in took],
        "of that on a processor": [one.cpu_s for one in took],
        "from the exec of `ralphd start`": [one.asked_s for one in took],
    }
    share = sum(rows["of that on a processor"]) / sum(one.seconds for one in took)
    lines = [f"{name}: {_figures(sorted(values))}" for name, values in rows.items()]
    return "\n".join([*lines, f"share of a processor: {share:.0%}; load {os.getloadavg()[0]:.1f}"])


def late(values: Sequence[float]) -> float:
    """The 95th percentile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def _figures(values: Sequence[float]) -> str:
    return f"median {median(values):.2f} s, p95 {late(values):.2f} s, least {values[0]:.2f} s, most {values[-1]:.2f} s"


def _until_all_run(box: NightBox, loops: int, start: subprocess.Popen[bytes]) -> int:
    def pid_of_ready() -> int:
        with contextlib.suppress(NothingRunning, TimeoutError, OSError, ValueError):
            for reply in ask(box.state, {"verb": "status"}, 10.0):
                told = reply.get("data")
                if isinstance(told, dict) and sum(row["state"] in RUNS for row in told["loops"]) == loops:
                    return int(told["daemon"]["pid"])
        if start.poll() not in (None, 0):
            raise AssertionError(f"`ralphd start` failed\n{box.log()}")
        return 0

    return until(pid_of_ready, f"all {loops} loops are adopted", say=box.log, poll_s=LOOK_S)


def used_s(pid: int) -> float:
    """The processor's seconds that a process and its children used."""
    return _used(pid)[1]


def _used(pid: int) -> tuple[float, float]:
    """When a process began (seconds of the boot), and the processor's seconds that it and its children used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / TICKS, sum(map(int, fields[11:15])) / TICKS
