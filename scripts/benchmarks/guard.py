"""What the tool-call guard costs a call, and how exactly its limits hold."""

from __future__ import annotations

import json
import sys
from statistics import median

from benchmarks.ground import PYTHON, ground, until, write
from benchmarks.table import Row

GOAL_COST_MS, GOAL_OVERSHOOT, GOAL_LATE_S = 5.0, 10.0, 1.0
LIMIT_S, LIMIT_BYTES = 5, 1 << 30
CALLS = 30  # of a round
KILLED_FOR_MEMORY = 137  # the guard's exit status

SETTINGS = f"""\
[limits]
tool_seconds = {LIMIT_S}
tool_memory = "1GiB"
"""

# Inside a night, as an agent's shell tool would: plain and guarded calls in turn, then one of each kind of kill.
AGENT = """\
#!{python}
import json, os, resource, subprocess, sys, time

guard, bench = os.environ["RALPHD_GUARD"], os.environ["BENCH"]

def used():
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

def timed(*argv):
    began, before = time.monotonic(), used()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True)
    return time.monotonic() - began, done.returncode, used() - before

def late(*argv):
    seconds, code, _ = timed(*argv)
    return {{"late_s": seconds - {limit_s}, "code": code}}

with open(bench + "/results", "a", buffering=1) as results:
    for _ in range({rounds}):
        told = {{"plain": [], "guarded": []}}
        for _ in range({calls}):
            told["plain"].append(timed("/bin/bash", "-c", "true")[::2])
            told["guarded"].append(timed(guard, "-c", "true")[::2])
        with open(bench + "/peak", "wb") as peak:
            peak.write(bytes(8))
        told["memory_code"] = timed(guard, "-c", "{allocate}")[1]
        with open(bench + "/peak", "rb") as peak:
            told["peak"] = int.from_bytes(peak.read(8), "little")
        told["time"] = late(guard, "-c", "sleep 1000; true")
        told["timeout"] = late("timeout", "-k", "1", "{limit_s}", "/bin/bash", "-c", "sleep 1000; true")
        told["cgroup"] = os.environ.get("RALPHD_CGROUP", "")
        results.write(json.dumps(told) + "\\n")
time.sleep(1000)
"""

# Touches memory as fast as it can and leaves word of how much after each mebibyte.
ALLOCATE = """\
import mmap, os, sys

with open("/proc/self/statm") as statm:
    held = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
with open(sys.argv[1], "r+b") as file:
    told = mmap.mmap(file.fileno(), 8)
most = 4 << 30
room = mmap.mmap(-1, most, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block = b"x" * (1 << 20)
for start in range(0, most, len(block)):
    room[start : start + len(block)] = block
    told[:] = (held + start + len(block)).to_bytes(8, "little")
"""


def measure(runs: int = 3) -> list[Row]:
    with ground("", SETTINGS) as place:
        write(place.path("allocate.py"), ALLOCATE)
        allocate = f"{' '.join(PYTHON)} {place.path('allocate.py')} {place.path('peak')}"
        agent = AGENT.format(python=PYTHON[0], limit_s=LIMIT_S, rounds=runs, calls=CALLS, allocate=allocate)
        write(place.agent, agent, mode=0o755)
        place.ralphd("start", "--width", "1")
        until(lambda: len(place.lines("results")) >= runs, "the agent's calls", every_s=0.2)
        rounds = [json.loads(line) for line in place.lines("results")]
    by = "a cgroup" if rounds[0]["cgroup"] else "the runner's watch"
    return [*_cost(rounds), *_overshoot(rounds, by), _lateness(rounds)]


def _cost(rounds: list[dict]) -> list[Row]:
    plain, guarded = _medians_ms(rounds, "plain", 0), _medians_ms(rounds, "guarded", 0)
    over = tuple(a - b for a, b in zip(guarded, plain, strict=True))
    wall = Row(
        what="a guarded call (baseline: bash -c)", unit="ms", ours=median(guarded), bare=median(plain),
        judged=over, judged_as="over", goal=GOAL_COST_MS,
    )  # fmt: skip
    used, bare = _medians_ms(rounds, "guarded", 1), _medians_ms(rounds, "plain", 1)
    return [wall, Row(what="  its CPU", unit="ms", ours=median(used), bare=median(bare))]


def _medians_ms(rounds: list[dict], kind: str, which: int) -> list[float]:
    """Return a round's median of wall (0) or CPU (1) milliseconds, for each round."""
    return [1000 * median(call[which] for call in one[kind]) for one in rounds]


def _overshoot(rounds: list[dict], by: str) -> list[Row]:
    peaks = [one["peak"] for one in rounds if one["memory_code"] == KILLED_FOR_MEMORY]
    if not peaks:
        print(f"no overshoot: nothing got as far as 1 GiB within {LIMIT_S} s on this busy machine", file=sys.stderr)
        return []
    over = tuple(100 * (peak / LIMIT_BYTES - 1) for peak in peaks)
    return [
        Row(
            what=f"peak at a limit of 1 GiB, killed by {by}", unit="MiB", ours=median(peaks) / (1 << 20), judged=over,
            judged_as="over by %", goal=GOAL_OVERSHOOT,
        )
    ]  # fmt: skip


def _lateness(rounds: list[dict]) -> Row:
    late = tuple(one["time"]["late_s"] for one in rounds)
    return Row(
        what=f"lateness of a kill after {LIMIT_S} s (baseline: timeout)", unit="s", ours=median(late),
        bare=median(one["timeout"]["late_s"] for one in rounds), judged=late, goal=GOAL_LATE_S,
    )  # fmt: skip
