"""How much private memory a loop costs beyond its agent."""

from __future__ import annotations

import os

from benchmarks.ground import Ground, cpu_s, ground, private_bytes, until
from benchmarks.table import Row

GOAL_MIB = 6.0
LOOPS = 16
MIB = 1 << 20

# An agent in its fourth session, with an open tool call: the runner has been through all that a session brings, and
# watches; the guard's wrapper lives.
AGENT = """\
#!/bin/sh
if [ "${RALPHD_TRAJECTORY:-4}" -lt 4 ]; then echo >>state.txt; git add state.txt; exec git commit -qm work; fi
echo $$ >>"$BENCH/agents"
if [ -n "${RALPHD_GUARD-}" ]; then exec "$RALPHD_GUARD" -c 'echo "$PPID" >>"$BENCH/guards"; exec sleep 1000'; fi
exec sleep 1000
"""


def measure(runs: int = 3) -> list[Row]:
    with ground(AGENT) as place:
        place.ralphd("start", "--width", str(LOOPS))
        until(lambda: len(place.lines("guards")) >= LOOPS, "the agents' tool calls")
        loops = [place.start_bare(f"bare-{n}", place.repository) for n in range(LOOPS)]
        until(lambda: len(place.lines("agents")) >= 2 * LOOPS, "the bare loops' agents")
        bare = sum(private_bytes(loop.pid) for loop in loops) / LOOPS / MIB
        shares = [_shares_mib(place) for _ in range(runs)]
        daemon = place.daemon()
        daemon_mib, daemon_cpu_s = private_bytes(daemon) / MIB, cpu_s(daemon, children=True)
    totals = tuple(sum(share) for share in shares)
    runner, guards, tmux = shares[-1]
    return [
        Row(
            what=f"a loop beyond its agent, of {LOOPS}", unit="MiB", ours=totals[-1], bare=bare, judged=totals,
            goal=GOAL_MIB,
        ),
        Row(what="  its runner, watching an open call", unit="MiB", ours=runner),
        Row(what="  the guard's wrapper of that call", unit="MiB", ours=guards),
        Row(what="  its share of the tmux server", unit="MiB", ours=tmux),
        Row(what="the daemon, once", unit="MiB", ours=daemon_mib),
        Row(what="the daemon's CPU until here", unit="s", ours=daemon_cpu_s),
    ]  # fmt: skip


def _shares_mib(place: Ground) -> tuple[float, float, float]:
    runners = place.runners()
    guards = {int(pid) for pid in place.lines("guards")} - {os.getpid()}
    return (
        sum(map(private_bytes, runners)) / LOOPS / MIB,
        sum(map(private_bytes, guards)) / LOOPS / MIB,
        private_bytes(place.tmux()) / LOOPS / MIB,
    )
