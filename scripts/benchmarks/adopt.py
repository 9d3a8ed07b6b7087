"""How long a new daemon takes, after the old one was killed, until it has adopted every loop, and that none minded."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from statistics import median

from benchmarks.ground import RALPHD, BenchFailed, Ground, ground
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
            runners = sorted(place.runners())
            took = tuple(_killed_and_taken_up(place) for _ in range(runs))
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
    return rows


def _killed_and_taken_up(place: Ground) -> float:
    """Return the seconds from the new daemon's start until `ralphd start` says that all loops run."""
    os.kill(place.daemon(), signal.SIGKILL)
    began = time.monotonic()
    done = subprocess.run(
        [RALPHD, "start"], env=place.environ(), cwd=place.repository, capture_output=True, check=False
    )
    took = time.monotonic() - began
    if done.returncode:
        raise BenchFailed(f"ralphd start: {done.stderr.decode()[-500:]}")
    return took
