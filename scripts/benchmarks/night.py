"""How much of a perfect supervisor's progress is kept in a night full of faults: ralphd, a bare loop and a peer."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from statistics import median

from benchmarks import contestants
from benchmarks.contestants import Night, Outcome
from benchmarks.fates import FAULTS, FAULTY, Draw, Limits, cost_s, draws
from benchmarks.ground import BenchFailed
from benchmarks.table import Row

GOAL = 95.0  # per cent
LOOPS = 8
HEAD = ("", "unit", "kept", "perfect", "judged: median (min to max)", "goal", "verdict")


def measure(runs: int = 1, seconds: float = 60.0, seeds: int = 0, only: str = "", loops: int = LOOPS) -> list[Row]:
    """Run ``seeds`` nights (else ``runs``), all contestants in turn; ``only``: ralphd alone, one kind of fault."""
    if only and only not in FAULTS:
        raise BenchFailed(f"no such fault: {only}; there are {', '.join(FAULTS)}")
    many = range(1, (seeds or runs) + 1)
    nights = [_night(seed, loops, seconds, FAULTY, [only] if only else FAULTS) for seed in many]
    ours = [_tell(f"ralphd, seed {seed}", contestants.ralphd(night)) for seed, night in zip(many, nights, strict=True)]
    rows = [_row(f"ralphd, {loops} loops, {seconds:.0f} s, {FAULTY:.0%} of sessions faulty", ours, goal=GOAL)]
    if not only:
        quiet = [_tell("no faults", contestants.ralphd(_night(seed, loops, seconds, 0.0, FAULTS))) for seed in many]
        rows.append(_row("  the same without faults", quiet, goal=GOAL))
    rows += [_loops("  ralphd: loops stuck at the end", ours), _wrong(ours)]
    for line in losses(nights, ours):
        print(line, file=sys.stderr)
    return rows if only else [*rows, *_others(nights)]


def _others(nights: list[Night]) -> list[Row]:
    rows = []
    for name, run in (("a bare loop", contestants.bare), (contestants.PEER.replace("==", " "), contestants.peer)):
        try:
            made = [_tell(name, run(night)) for night in nights]
        except BenchFailed as error:
            print(f"night: without {name}: {error}", file=sys.stderr)
            continue
        rows += [_row(f"  {name}", made), _loops(f"  {name}: loops stuck at the end", made, goal=None)]
    return rows


def _night(seed: int, loops: int, seconds: float, faulty: float, among: Iterable[str]) -> Night:
    drawn = [draws(seed, loop, faulty=faulty, among=among) for loop in range(loops)]
    return Night.drawn(drawn, seconds, Limits())


def _tell(name: str, made: Outcome) -> Outcome:
    more = "".join(
        f"; {what}: {' '.join(which)}" for what, which in (("stuck", made.stuck), ("wrong", made.wrong)) if which
    )
    print(f"  {name}: {made.points} of {made.of}, {made.share:.1f} %{more}", file=sys.stderr, flush=True)
    return made


def _row(what: str, made: list[Outcome], goal: float | None = None) -> Row:
    return Row(
        what=what, unit="points", ours=median(one.points for one in made), bare=median(one.of for one in made),
        judged=tuple(one.share for one in made), judged_as="%", goal=goal, at_least=True,
    )  # fmt: skip


def _loops(what: str, made: list[Outcome], goal: float | None = 0.0) -> Row:
    return _count(what, [len(one.stuck) for one in made], goal)


def _wrong(made: list[Outcome]) -> Row:
    return _count("  ralphd: reported scores that differ from the truth", [len(one.wrong) for one in made], 0.0)


def _count(what: str, counts: list[int], goal: float | None) -> Row:
    return Row(what=what, unit="loops", ours=sum(counts), bare=0.0, judged=tuple(map(float, counts)), goal=goal)


def losses(nights: list[Night], made: list[Outcome]) -> list[str]:
    """Say, fault by fault, how many seconds more than its due each cost until a healthy session began again."""
    times: Counter[str] = Counter()
    excess: defaultdict[str, float] = defaultdict(float)
    for night, outcome in zip(nights, made, strict=True):
        for name, loop in zip(night.names(), night.draws, strict=True):
            _blame(loop, outcome, name, night.limits, lambda fault, more: _note(times, excess, fault, more))
    total = sum(night.seconds * len(night.draws) for night in nights)
    ordered = sorted(excess, key=lambda fault: -excess[fault])
    return [
        f"  lost to {fault or 'healthy sessions':<18} {excess[fault]:7.2f} s, {100 * excess[fault] / total:5.2f} %,"
        f" {times[fault]:4d} times {excess[fault] / times[fault]:6.3f} s"
        for fault in ordered
    ]


def _note(times: Counter[str], excess: defaultdict[str, float], fault: str, more: float) -> None:
    times[fault] += 1
    excess[fault] += more


def _blame(
    loop: tuple[Draw, ...], outcome: Outcome, name: str, limits: Limits, note: Callable[[str, float], None]
) -> None:
    """Charge sessions that could do nothing, for the fault of an earlier one, to that one."""
    told = [began for began in outcome.sessions[name] if began.at < outcome.deadline]
    cause, since, due = "", 0.0, 0.0
    for began in told:
        if began.fault in {"misled", "port-taken"}:
            continue
        if since:
            note(cause, began.at - since - due)
        cause, since, due = began.fault, began.at, cost_s(loop[began.number - 1], limits)
    if since and outcome.deadline > since + due:  # nothing came after it
        note(cause, outcome.deadline - since - due)
