"""How much verified progress loops make under ralphd, against the same loops as bare shell loops."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass
from statistics import median

from benchmarks.ground import PYTHON, Ground, cpu_s, ground, run, until
from benchmarks.table import Row

GOAL = 95.0  # per cent
LOOPS = 4

# Each line of found.txt is worth a point: number k holds a nonce that makes sha256("k nonce") begin with three zeros.
SCORE = """\
import hashlib

valid = 0
with open("found.txt", encoding="ascii") as file:
    for number, line in enumerate(file):
        if not hashlib.sha256(f"{number} {line.strip()}".encode()).hexdigest().startswith("000"):
            break
        valid += 1
print(f"points: {valid}")
"""

# A session of half a second: most of it waits, as for a model's answer; then it finds the next line and commits.
AGENT = """\
#!{python}
import hashlib, os, time

ends = time.monotonic() + 0.5
with open(os.environ["BENCH"] + "/began", "a") as began:
    began.write(os.environ["RALPHD_LOOP"] + "\\n")
time.sleep(0.25)
with open("found.txt", "a+", encoding="ascii") as file:
    file.seek(0)
    number, nonce = len(file.readlines()), 0
    while not hashlib.sha256(f"{{number}} {{nonce}}".encode()).hexdigest().startswith("000"):
        nonce += 1
    file.write(f"{{nonce}}\\n")
os.spawnlp(os.P_WAIT, "git", "git", "-c", "gc.auto=0", "commit", "-q", "-a", "-m", f"Find number {{number}}")
time.sleep(max(0.0, ends - time.monotonic()))
"""

SETTINGS = f"""\
[[task]]
name = "numbers"
[task.verify]
command = "{PYTHON[0]} -I score.py"
score = 'regex:points: (\\d+)'
protect = ["score.py"]
"""


@dataclass(frozen=True, kw_only=True)
class Made:
    """Verified points of all loops together; the CPU seconds of what ran the loops, and of what verified them."""

    points: int
    keeping_cpu_s: float = 0.0
    verifying_cpu_s: float = 0.0


def measure(runs: int = 2, seconds: float = 20.0) -> list[Row]:
    ours, bare = [], []
    for _ in range(runs):
        with _ground() as place:
            ours.append(_night(place, seconds))
        with _ground() as place:
            bare.append(_bare(place, seconds))
    ratios = tuple(100 * a.points / b.points for a, b in zip(ours, bare, strict=True))
    return [
        Row(
            what=f"verified progress of {LOOPS} loops in {seconds:.0f} s, 0.5 s sessions", unit="points",
            ours=median(one.points for one in ours), bare=median(one.points for one in bare), judged=ratios,
            judged_as="%", goal=GOAL, at_least=True,
        ),
        Row(what="  CPU of daemon, runners and tmux", unit="s", ours=median(one.keeping_cpu_s for one in ours)),
        Row(what="  CPU of verifying meanwhile", unit="s", ours=median(one.verifying_cpu_s for one in ours)),
    ]  # fmt: skip


def _ground() -> contextlib.AbstractContextManager[Ground]:
    return ground(AGENT.format(python=PYTHON[0]), SETTINGS, {"score.py": SCORE, "found.txt": ""})


def _night(place: Ground, seconds: float) -> Made:
    place.ralphd("start", "--width", str(LOOPS))
    daemon, keepers = place.daemon(), [*place.runners(), place.tmux()]
    _until_all_began(place)
    used = _cpu(daemon, keepers)
    time.sleep(seconds)
    keeping = _cpu(daemon, keepers) - used
    verifying = cpu_s(daemon, children=True) - cpu_s(daemon)
    place.stop()
    told = json.loads(place.ralphd("report", "--json"))
    return Made(
        points=sum(int(loop["best_score"] or 0) for loop in told["loops"]),
        keeping_cpu_s=keeping,
        verifying_cpu_s=verifying,
    )


def _cpu(daemon: int, keepers: list[int]) -> float:
    return cpu_s(daemon) + sum(map(cpu_s, keepers))


def _bare(place: Ground, seconds: float) -> Made:
    clones = [place.path(f"bare-{number}") for number in range(LOOPS)]
    for clone in clones:
        place.git("clone", "-q", place.repository, clone)
    for number, clone in enumerate(clones):
        place.start_bare(f"bare-{number}", clone)
    _until_all_began(place)
    time.sleep(seconds)
    place.stop_bare()
    return Made(points=sum(_score(place, clone) for clone in clones))


def _score(place: Ground, clone: str) -> int:
    """Let the verifier judge the last commit, as ralphd does: what was not committed does not count."""
    verified = place.path("verified")
    place.git("clone", "-q", clone, verified)
    points = run([sys.executable, "-I", "score.py"], env=place.environ(), cwd=verified)
    os.rename(verified, clone + "-verified")
    return int(points.split()[-1])


def _until_all_began(place: Ground) -> None:
    until(lambda: len(set(place.lines("began"))) >= LOOPS, f"{LOOPS} agents")
