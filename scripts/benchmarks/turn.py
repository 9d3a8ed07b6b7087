"""How long a loop stands still between the end of a session and the start of the next."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from benchmarks.ground import Ground, cpu_s, ground, until
from benchmarks.table import Row, quantile

GOAL_MEDIAN_MS, GOAL_P99_MS = 5.0, 30.0
SESSIONS = 60  # of a round

# bash knows the time to the microsecond without starting anything. The session leaves a change, so that ralphd has no
# reason to slow down, and lasts long enough for both loops to come to rest.
AGENT = """\
#!/bin/bash
began=$EPOCHREALTIME
sleep 0.05
echo >>state.txt
echo "$began $EPOCHREALTIME" >>"$BENCH/times"
"""


def measure(runs: int = 4) -> list[Row]:
    ours: list[list[float]] = []
    bare: list[list[float]] = []
    with ground(AGENT) as place:
        place.ralphd("start", "--width", "1")
        runner = place.runners()[0]
        before = cpu_s(runner)
        for _ in range(runs):
            ours.append(_gaps_ms(place, SESSIONS))
            place.ralphd("pause")
            _until_quiet(place)
            place.start_bare("bare", place.repository)
            bare.append(_gaps_ms(place, SESSIONS))
            place.stop_bare()
            place.ralphd("resume")
        used_ms = 1000 * (cpu_s(runner) - before) / (runs * SESSIONS)
    return [
        _row("session end to next start, median", 0.5, ours, bare, GOAL_MEDIAN_MS),
        _row("session end to next start, p99", 0.99, ours, bare, GOAL_P99_MS),
        Row(what="runner's CPU for a session", unit="ms", ours=used_ms),
    ]


def _row(what: str, share: float, ours: list[list[float]], bare: list[list[float]], goal_ms: float) -> Row:
    mine, theirs = [quantile(gaps, share) for gaps in ours], [quantile(gaps, share) for gaps in bare]
    over = tuple(a - b for a, b in zip(mine, theirs, strict=True))
    return Row(
        what=what, unit="ms", ours=median(mine), bare=median(theirs), judged=over, judged_as="over", goal=goal_ms
    )


def _gaps_ms(place: Ground, sessions: int) -> list[float]:
    """Return the gaps between so many sessions from now on."""
    skip = len(place.lines("times"))
    until(lambda: len(place.lines("times")) > skip + sessions, f"{sessions} sessions", every_s=0.2)
    times = [tuple(map(float, line.split())) for line in place.lines("times")[skip : skip + sessions + 1]]
    return [1000 * (after[0] - before[1]) for before, after in pairwise(times)]


def _until_quiet(place: Ground) -> None:
    until(lambda: '"paused"' in place.ralphd("status", "--json"), "the loop's pause")
