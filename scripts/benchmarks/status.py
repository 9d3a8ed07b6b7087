"""How long a person waits for ``ralphd status``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from statistics import median

from benchmarks.ground import RALPHD, BenchFailed, Ground, ground
from benchmarks.table import Row

GOAL_MS = 200.0
CALLS = 5  # of a round
LOOPS = 4

AGENT = """\
#!/bin/sh
exec sleep 1000
"""


def measure(runs: int = 4) -> list[Row]:
    ours: list[float] = []
    floor: list[float] = []
    used: list[float] = []
    with ground(AGENT) as place:
        place.ralphd("start", "--width", str(LOOPS))
        for _ in range(runs):
            mine = [_timed(place, [RALPHD, "status"]) for _ in range(CALLS)]
            bare = [_timed(place, [sys.executable, "-c", "pass"]) for _ in range(CALLS)]
            ours.append(median(wall for wall, _ in mine))
            used.append(median(cpu for _, cpu in mine))
            floor.append(median(wall for wall, _ in bare))
    wall = Row(
        what=f"ralphd status of {LOOPS} loops (baseline: python -c pass)", unit="ms", ours=median(ours),
        bare=median(floor), judged=tuple(ours), goal=GOAL_MS,
    )  # fmt: skip
    return [wall, Row(what="  its CPU", unit="ms", ours=median(used))]


def _timed(place: Ground, command: list[str]) -> tuple[float, float]:
    """Return wall and CPU milliseconds of a command."""
    began = time.monotonic()
    child = subprocess.Popen(command, env=place.environ(), cwd=place.repository, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise BenchFailed(f"{' '.join(command)}: exit status {child.returncode}")
    return 1000 * (time.monotonic() - began), 1000 * (usage.ru_utime + usage.ru_stime)
