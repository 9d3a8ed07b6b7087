"""Whether inference may be asked, for all loops that share a credential.

A refusal closes the gate; then one of them tries at a time, later and later, until an answer opens it for all. All
times are seconds of the machine's boot clock: the runners of a night share it, and nobody can set it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ralphd.core.outcomes import Kind
from ralphd.core.pacing import MOST_AHEAD_S, server_floor_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.exchange import Limits
    from ralphd.core.outcomes import Outcome

# What befalls everybody who asks with that credential. A stream that stalled or broke off is one request's own trouble.
CLOSING = frozenset({Kind.RATE_LIMITED, Kind.QUOTA, Kind.OVERLOADED, Kind.CONNECTION})

# This wait, a try of some seconds and the spread are to stay below two minutes from recovery until all loops work. One
# try in that time for all loops is less than each would make for itself in five minutes.
TRY_EVERY_MAX_S = 80.0
LEAST_SHARE = 0.75  # of a wait, by chance: one asker has nobody to keep clear of, but other machines
SPREAD_S = 15.0  # what all loops of a credential need to start one after the other on a small machine
AFTER_FLOOR_S = 5.0  # by chance, behind a time that the server named: other machines heard the same
DOUBT_S = 10.0  # two that are refused within that: no hiccup
UNSTEADY_S = 600.0  # nor is what comes so soon after an outage
FLAPPING_S = 60.0  # an open gate that closes within that had not recovered: half of the count goes on
OVERDUE_S = 900.0  # a try that shows no life for so long: each loop asks for itself


@dataclass(frozen=True, kw_only=True)
class Gate:
    """``refusals`` in a row since it closed at ``since``; 0: open, ``before`` is what there were at ``opened_at``."""

    refusals: int = 0
    kind: str = ""
    since: float = 0.0
    next_at: float = 0.0  # of the next try
    opened_at: float = 0.0
    before: int = 0
    doubted_at: float = 0.0  # when a client was last about to ask again by itself, for the first time

    @property
    def closed(self) -> bool:
        return self.refusals > 0


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When something happened to a gate: ``now`` by the boot clock, ``epoch`` by the wall's, ``chance`` from [0, 1)."""

    now: float
    epoch: float
    chance: float


def refuse(gate: Gate, outcome: Outcome, at: Moment, limits: Limits) -> Gate:
    """Return the gate after the one that tries, or the first while it was open, was refused."""
    flaps = not gate.closed and at.now - gate.opened_at < FLAPPING_S
    refusals = (gate.before // 2 if flaps else gate.refusals) + 1
    return Gate(
        refusals=refusals,
        kind=outcome.kind.value,
        since=gate.since if gate.closed else at.now,
        next_at=at.now + wait_s(refusals, server_floor_s(outcome, at.epoch), at.chance, limits),
        opened_at=gate.opened_at,
        before=gate.before,
    )


def put_off(gate: Gate, at: Moment, limits: Limits) -> Gate:
    """Return a closed gate after a try that told nothing of inference: the next one comes as after a refusal."""
    return replace(gate, next_at=at.now + wait_s(gate.refusals, 0.0, at.chance, limits))


def alive(gate: Gate, now: float) -> Gate:
    """Return a closed gate while a long try shows that it lives."""
    return replace(gate, next_at=now)


def open_(gate: Gate, now: float) -> Gate:
    return Gate(since=gate.since, opened_at=now, before=gate.refusals)


def doubtful(gate: Gate, now: float, *, but_for: float) -> bool:
    """Tell whether one more refusal is an outage and no hiccup; ``but_for`` is when the asker itself raised doubts."""
    another = gate.doubted_at != but_for and now - gate.doubted_at < DOUBT_S
    return gate.closed or another or (gate.before > 0 and now - gate.opened_at < UNSTEADY_S)


def wait_s(refusals: int, floor_s: float, chance: float, limits: Limits) -> float:
    """Return the wait before the next try: doubling up to a cap, some of it by chance, never below a server's floor."""
    cap_s = min(limits.backoff_max_s, TRY_EVERY_MAX_S, limits.backoff_min_s * 2.0 ** min(refusals, 40))
    own_s = max(limits.backoff_min_s, cap_s * (LEAST_SHARE + (1 - LEAST_SHARE) * chance))
    return max(own_s, floor_s + chance * min(AFTER_FLOOR_S, floor_s / 8))


def spread_s(gate: Gate, chance: float, limits: Limits) -> float:
    """Return how long a loop that waited at the gate lets others go first; after a short closing that is little."""
    return chance * min(SPREAD_S, limits.backoff_max_s, max(0.0, gate.opened_at - gate.since) / 4)


def believable(gate: Gate, now: float) -> bool:
    """Tell whether a gate that was read from a file can be meant: agents could write there."""
    return (
        gate.refusals >= 0
        and max(gate.since, gate.opened_at, gate.doubted_at) <= now + 1
        and gate.next_at <= now + MOST_AHEAD_S
    )
