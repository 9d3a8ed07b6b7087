"""How long a new daemon takes, after the old one was killed, until it has adopted every loop, and that none minded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from statistics import median

from benchmarks.ground import RALPHD, BenchFailed, Ground, cpu_s, ground, until
from benchmarks.table import Row

WIDTHS = (16, 64, 256)
GOAL_S = 3.0

AGENT = """\
#!/bin/sh
exec sleep 1000
"""


def measure(runs: int = 2) -> list[Row]:
    rows = []
    for width in WIDTHS:
        with ground(AGENT) as place:
            place.ralphd("start", "--width", str(width))
            # A busy machine may need longer than `start` waits, and then some begin after it returned.
            until(lambda place=place, width=width: _running(place) == width, f"{width} loops run")
            runners = sorted(place.runners())
            took, cpu = zip(*(_killed_and_taken_up(place) for _ in range(runs)), strict=True)
            if sorted(place.runners()) != runners:
                raise BenchFailed("a runner was disturbed by the daemon's death")
        rows.append(
            Row(
                what=f"kill -9 of the daemon of {width} loops: until adopted",
                unit="s",
                ours=median(took),
                judged=took,
                goal=GOAL_S,
            )
        )
        rows.append(Row(what="  the daemon's CPU till then", unit="s", ours=median(cpu)))
    return rows


def _running(place: Ground) -> int:
    return int(json.loads(place.ralphd("status", "--json"))["fleet"]["running"])


def _killed_and_taken_up(place: Ground) -> tuple[float, float]:
    """Return the seconds from `ralphd start` until it says that all loops run, and the new daemon's CPU seconds."""
    os.kill(place.daemon(), signal.SIGKILL)
    began = time.monotonic()
    done = subprocess.run(
        [RALPHD, "start"], env=place.environ(), cwd=place.repository, capture_output=True, check=False
    )
    took = time.monotonic() - began
    if done.returncode:
        raise BenchFailed(f"ralphd start: {done.stderr.decode()[-500:]}")
    return took, cpu_s(place.daemon(), children=True)
