"""Who runs the loops of a night bench, and what came of it: ralphd, a bare shell loop, a peer from PyPI."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.fates import SESSIONS_DRAWN_PER_S, Draw, Limits, perfect
from benchmarks.ground import PYTHON, BenchFailed, Ground, ground, run, until, write
from benchmarks.truth import Truth, nonces, truth, worth

STUB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stub_agent.py")
CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEER = "ralphify==0.3.0"
FOLDERS = ("draws", "count", "log", "port", "not-before")
STUCK_S = 15.0  # without any gain; a session lasts two seconds, and every fault comes to nine at the most
HOPELESS = ("paused", "stopped", "dead")

# Each line of found.txt is worth a point: number k holds a nonce that makes sha256("k nonce") begin with two zeros.
SCORE = """\
import hashlib

valid = 0
with open("found.txt", encoding="utf-8", errors="replace") as file:
    for number, line in enumerate(file):
        if not hashlib.sha256(f"{number} {line.strip()}".encode()).hexdigest().startswith("00"):
            break
        valid += 1
print(f"points: {valid}")
"""

# What is found at the start: a project that works, and that can be broken.
FOUND = "".join(f"{nonce}\n" for nonce in itertools.islice(nonces(), 5))

AGENT = """\
#!/bin/sh
export BENCH_RETRY_AFTER={retry_after} BENCH_TOOL_S={tool}
exec {python} {stub}
"""

SETTINGS = """\
[[task]]
name = "numbers"
[task.verify]
command = "{python} -I -S score.py"
score = 'regex:points: (\\d+)'
protect = ["score.py"]
[limits]
tool_seconds = {limits.tool_s}
tool_memory = "{limits.tool_memory_mib}MiB"
quiet_seconds = {limits.quiet_s}
result_grace_seconds = {limits.result_grace_s}
backoff_min_seconds = {limits.backoff_s}
backoff_max_seconds = {backoff_max}
"""

# A loop whose folder is gone fails at once, for ever: without the pause it would take the cores from all the others.
BARE = 'while :; do "$BENCH_AGENT" <PROMPT.md >>"$BENCH/bare.log" 2>&1 || sleep 0.1; done'

RALPH = """\
---
agent: {agent}
---
Do the next thing.
"""


@dataclass(frozen=True, kw_only=True)
class Began:
    """A session as its agent logged it: ``at`` in monotonic seconds; ``fault`` empty for a healthy one."""

    at: float
    number: int
    fault: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a night came to. ``points`` were kept, ``of`` the perfect supervisor would have; both sum all loops.

    ``stuck`` and ``wrong``: loops without gain at the end, and with another score reported than is true.
    """

    points: int
    of: int
    stuck: tuple[str, ...]
    wrong: tuple[str, ...] = ()
    sessions: dict[str, list[Began]] = field(default_factory=dict)
    deadline: float = 0.0

    @property
    def share(self) -> float:
        return 100 * self.points / self.of


@dataclass(frozen=True, kw_only=True)
class Night:
    """One night: the same ``draws`` for whoever runs it, as many loops as there are of them."""

    draws: tuple[tuple[Draw, ...], ...]
    seconds: float
    limits: Limits

    @classmethod
    def drawn(cls, loops: Sequence[Iterator[Draw]], seconds: float, limits: Limits) -> Night:
        count = int(SESSIONS_DRAWN_PER_S * seconds) + 20
        return cls(draws=tuple(tuple(itertools.islice(loop, count)) for loop in loops), seconds=seconds, limits=limits)

    def names(self) -> list[str]:
        return [f"loop-{number}" for number in range(1, len(self.draws) + 1)]


def ralphd(night: Night) -> Outcome:
    with _ground(night) as place:
        place.ralphd("start", "--width", str(len(night.draws)))
        deadline = _pass_time(place, night)
        states = {loop["id"]: loop["state"] for loop in json.loads(place.ralphd("status", "--json"))["loops"]}
        place.stop()
        told = json.loads(place.ralphd("report", "--json"))
        repository, id_ = _night_repository(place), told["night"]["id"]
        best = {loop["id"]: loop["best_commit"] or "" for loop in told["loops"]}
        truths = {
            name: truth(repository, (f"ralphd/{id_}/{name}",), place.environ(), kept=best[name])
            for name in night.names()
        }
        made = _outcome(place, night, truths, deadline)
        hopeless = tuple(name for name in night.names() if states[name] in HOPELESS and name not in made.stuck)
        wrong = _wrong(place, repository, told, truths)
        _keep_what_is_wrong(place, wrong + made.stuck + hopeless)
        return Outcome(
            points=made.points, of=made.of, stuck=made.stuck + hopeless, wrong=wrong, sessions=made.sessions,
            deadline=deadline,
        )  # fmt: skip


def _wrong(place: Ground, repository: str, told: dict[str, Any], truths: Mapping[str, Truth]) -> tuple[str, ...]:
    """Return the loops of which a score is reported that its commit hasn't, or that isn't the best they made."""
    base, start = place.git("rev-parse", "main").strip(), int(told["tasks"][0]["base_score"])
    found = []
    for loop in told["loops"]:
        reported = int(loop["best_score"] or start)
        has = worth(repository, loop["best_commit"] or base, base, place.environ())
        if not reported == has == truths[loop["id"]].points:
            found.append(loop["id"])
    return tuple(found)


def bare(night: Night) -> Outcome:
    return _baseline(night, lambda _place: ("/bin/sh", "-c", BARE))


def peer(night: Night) -> Outcome:
    """Run the peer, each session limited in time. Raises BenchFailed where it can't be had."""
    program = _install_peer()
    return _baseline(night, lambda _place: (program, "run", ".", "--timeout", f"{night.limits.session_s:g}"))


def _baseline(night: Night, command: Callable[[Ground], tuple[str, ...]]) -> Outcome:
    """Let each loop have a worktree of one repository, as ralphd's loops have."""
    with _ground(night) as place:
        for name in night.names():
            place.git("worktree", "add", "-q", "-b", name, place.path(f"trees-{name}"))
        for name in night.names():
            place.start_bare(name, place.path(f"trees-{name}"), *command(place))
        deadline = _pass_time(place, night)
        place.stop_bare()
        repository = os.path.join(place.repository, ".git")
        truths = {name: truth(repository, (name, f"feature-{name}"), place.environ()) for name in night.names()}
        return _outcome(place, night, truths, deadline)


@contextlib.contextmanager
def _ground(night: Night) -> Iterator[Ground]:
    limits, python = night.limits, " ".join(PYTHON)
    agent = AGENT.format(retry_after=limits.retry_after_s, tool=limits.tool_s, python=python, stub=STUB)
    settings = SETTINGS.format(python=PYTHON[0], limits=limits, backoff_max=max(5.0, limits.backoff_s))
    with ground(agent, settings, {"score.py": SCORE, "found.txt": FOUND}) as place:
        write(os.path.join(place.repository, "RALPH.md"), RALPH.format(agent=place.agent))
        place.git("add", "--all")
        place.git("commit", "-q", "--amend", "--no-edit")
        for folder in FOLDERS:
            os.mkdir(place.path(folder))
        for name, loop in zip(night.names(), night.draws, strict=True):
            lines = (f"{draw.seconds:.3f} {draw.fault or '-'} {draw.chance:.6f}\n" for draw in loop)
            write(place.path(f"draws/{name}"), "".join(lines))
        yield place


def _pass_time(place: Ground, night: Night) -> float:
    """Wait until all loops have begun, and then for as long as a night is. Returns its end, in monotonic seconds."""
    until(lambda: len(os.listdir(place.path("log"))) >= len(night.draws), f"{len(night.draws)} agents")
    deadline = time.monotonic() + night.seconds
    write(place.path("deadline.new"), f"{deadline:.3f}")
    os.rename(place.path("deadline.new"), place.path("deadline"))
    time.sleep(night.seconds)
    return deadline


def _outcome(place: Ground, night: Night, truths: dict[str, Truth], deadline: float) -> Outcome:
    sessions = {name: _sessions(place, name) for name in night.names()}
    of = sum(
        perfect(draws, deadline - sessions[name][0].at, night.limits)
        for name, draws in zip(night.names(), night.draws, strict=True)
    )
    ended_at = time.time() + deadline - time.monotonic()
    stuck = [name for name, found in truths.items() if found.gained_at < ended_at - STUCK_S]
    return Outcome(
        points=sum(found.points - FOUND.count("\n") for found in truths.values()),
        of=of,
        stuck=tuple(name for name in stuck if deadline - sessions[name][0].at > STUCK_S),
        sessions=sessions,
        deadline=deadline,
    )


def _sessions(place: Ground, name: str) -> list[Began]:
    lines = [line.split() for line in place.lines(f"log/{name}")]
    return [
        Began(at=float(at), number=int(rest[0]), fault="" if rest[1] == "-" else rest[1])
        for at, what, *rest in lines
        if what == "begin"
    ]


def _night_repository(place: Ground) -> str:
    found = [folder for folder, names, _ in os.walk(place.state) if "repo.git" in names]
    return os.path.join(found[0], "repo.git")


def _keep_what_is_wrong(place: Ground, loops: Sequence[str]) -> None:
    """Keep the state of a night that went wrong, for whoever looks why."""
    keep = os.environ.get("BENCH_KEEP")
    if keep and loops:
        shutil.copytree(
            place.folder,
            os.path.join(keep, os.path.basename(place.folder)),
            ignore=shutil.ignore_patterns("bell", "*.sock"),
            ignore_dangling_symlinks=True,
        )


def _install_peer() -> str:
    """Return the peer's program, installed once beside the other caches. Raises BenchFailed."""
    folder = os.path.join(CHECKOUT, ".cache", "bench", PEER.replace("==", "-"))
    program = os.path.join(folder, "bin", "ralph")
    if not os.access(program, os.X_OK):
        uv = shutil.which("uv") or os.path.join(CHECKOUT, ".cache", "uv", "bin", "uv")
        try:
            run([uv, "venv", "-q", "--python", sys.executable, folder])
            run([uv, "pip", "install", "-q", "--python", os.path.join(folder, "bin", "python"), PEER])
        except (OSError, subprocess.SubprocessError) as error:
            raise BenchFailed(f"{PEER} can't be installed: {error}") from None
    return program
