"""What the clocks say happened between two looks: a jump of the wall's, a suspended machine, a stopped daemon."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.outcomes import Evidence, Kind, Outcome

JUMP_S = 5.0  # NTP slews half a millisecond a second; what is more than this in one step was set
SLEPT_S = 5.0  # as a runner counts it
STOPPED_S = 30.0  # a pass comes every second; a slow disk takes some, a stopped process all of them
GAPS_KEPT = 16
SAME_GAP_S = 60.0  # runners tell of a gap when they wake, and a crowded machine wakes them one after the other


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Three clocks at one moment, in seconds: the wall's, one that stands still in suspend, one that goes on."""

    wall: float
    steady: float
    boot: float


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A time in which nobody could work. ``at``: its end, epoch seconds."""

    at: float
    seconds: float

    def same(self, other: Gap) -> bool:
        """Tell whether both were one gap, told by two."""
        near = abs(self.at - other.at) <= SAME_GAP_S
        return near and abs(self.seconds - other.seconds) <= max(SAME_GAP_S / 2, self.seconds / 10)


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happened between two readings: by how much the wall's clock was set, and how long the machine slept."""

    jumped_s: float
    slept_s: float
    outcomes: tuple[Outcome, ...]


def compare(before: Reading, now: Reading) -> Change:
    """Tell what happened. A suspend moves the wall's clock too: that alone is no jump."""
    jumped = (now.wall - before.wall) - (now.boot - before.boot)
    slept = (now.boot - before.boot) - (now.steady - before.steady)
    stopped = now.steady - before.steady
    outcomes = []
    if slept > SLEPT_S:
        outcomes.append(_outcome(Kind.SUSPENDED, slept, f"the machine was suspended for {slept:.0f} s"))
    if stopped > STOPPED_S:
        outcomes.append(_outcome(Kind.SUSPENDED, stopped, f"this daemon could not look for {stopped:.0f} s"))
    if abs(jumped) > JUMP_S:
        way = "forward" if jumped > 0 else "back"
        outcomes.append(_outcome(Kind.CLOCK_JUMP, jumped, f"the clock was set {way} by {abs(jumped):.0f} s"))
    return Change(
        jumped_s=jumped if abs(jumped) > JUMP_S else 0.0,
        slept_s=slept if slept > SLEPT_S else 0.0,
        outcomes=tuple(outcomes),
    )


def _outcome(kind: Kind, seconds: float, what: str) -> Outcome:
    return Outcome(kind=kind, detail={"seconds": round(seconds, 1)}, evidence=(Evidence(what=what),))


def with_gap(gaps: tuple[Gap, ...], at: float, outcome: Outcome | None) -> tuple[Gap, ...]:
    """Return the newest gaps, with the one that ended at ``at`` if ``outcome`` tells of one."""
    if outcome is None or outcome.kind is not Kind.SUSPENDED:
        return gaps
    return (*gaps[1 - GAPS_KEPT :], Gap(at=at, seconds=seconds_of(outcome)))


def seconds_of(outcome: Outcome) -> float:
    """Return the seconds that a jump or a gap is said to have, 0 when it says none."""
    seconds = outcome.detail.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0
