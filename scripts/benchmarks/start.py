"""How long ``ralphd start`` takes until every agent runs."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from statistics import median

from benchmarks.ground import BARE, RALPHD, BenchFailed, Ground, cpu_s, ground, until
from benchmarks.table import Row

GOALS_S = {4: None, 16: 1.5}

AGENT = """\
#!/bin/bash
echo "$RALPHD_LOOP $EPOCHREALTIME" >>"$BENCH/began"
exec sleep 1000
"""

# The same loops by hand: a clone, worktrees of it, a loop in each.
BY_HAND = """\
set -e
git clone -q --bare . "$BENCH/bare.git"
n=0
while [ $n -lt "$1" ]; do
    git -C "$BENCH/bare.git" worktree add -q --no-track -b "bare-$n" "$BENCH/bare-$n" main
    (cd "$BENCH/bare-$n" && export RALPHD_LOOP=bare-$n && %s) &
    n=$((n + 1))
done
wait
"""


@dataclass(frozen=True, kw_only=True)
class Started:
    """Seconds from the command's start until its last agent runs, until it returned, and the daemon's CPU seconds."""

    running_s: float
    returned_s: float
    daemon_cpu_s: float


def measure(runs: int = 3) -> list[Row]:
    rows = []
    for width, goal_s in GOALS_S.items():
        first, again, bare = [], [], []
        for _ in range(runs):
            with ground(AGENT) as place:
                first.append(_night(place, width))
                place.stop("--now")
                again.append(_night(place, width))
            with ground(AGENT) as place:
                bare.append(_by_hand(place, width))
        rows += [
            _row(f"start of {width}, the journal is there: until all agents run", again, bare, goal_s),
            _row(f"start of {width}, the very first: until all agents run", first, bare, goal_s),
            Row(what="  until the command returned", unit="s", ours=median(one.returned_s for one in first)),
            Row(what="  the daemon's CPU till then", unit="s", ours=median(one.daemon_cpu_s for one in first)),
        ]
    return rows


def _row(what: str, ours: list[Started], bare: list[float], goal_s: float | None) -> Row:
    running = tuple(one.running_s for one in ours)
    return Row(what=what, unit="s", ours=median(running), bare=median(bare), judged=running, goal=goal_s)


def _night(place: Ground, width: int) -> Started:
    began, at, skip = time.monotonic(), time.time(), len(place.lines("began"))
    command = [RALPHD, "start", "--width", str(width)]
    done = subprocess.run(command, env=place.environ(), cwd=place.repository, capture_output=True, check=False)
    returned_s = time.monotonic() - began
    if done.returncode:
        raise BenchFailed(f"ralphd start: {done.stderr.decode()[-500:]}")
    last = _last_start(place, width, skip)
    return Started(running_s=last - at, returned_s=returned_s, daemon_cpu_s=cpu_s(place.daemon(), children=True))


def _by_hand(place: Ground, width: int) -> float:
    at = time.time()
    script = BY_HAND % BARE.strip().replace("\n", "\n        ")
    shell = subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", str(width)],
        env=place.environ(),
        cwd=place.repository,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    place.bare.append(shell)
    return _last_start(place, width, 0) - at


def _last_start(place: Ground, width: int, skip: int) -> float:
    """Return the time at which the last loop's first agent began, ``skip`` lines of earlier ones aside."""

    def first() -> dict[str, float]:
        found: dict[str, float] = {}
        for line in place.lines("began")[skip:]:
            loop, _, at = line.partition(" ")
            found.setdefault(loop, float(at))
        return found

    until(lambda: len(first()) == width, f"{width} agents")
    return max(first().values())
