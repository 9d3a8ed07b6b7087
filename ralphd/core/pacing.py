"""What comes after an outcome, and when: the next session, another attempt, a wait, or standing still."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from ralphd.core.outcomes import HEALTHY, RETRIED_FOR_EVER, Kind, Outcome, Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.exchange import Limits

QUICK_S = 30.0  # a session that fails sooner did no work worth the name
QUICK_FAILURES = 5  # in a row: a crash loop
CRASH_WAIT_MAX_S = 300.0
NOOP_WAIT_MAX_S = 60.0
MOST_AHEAD_S = 40 * 86_400.0  # a monthly limit is the longest there is; what is said to end later is an error
JITTER_AFTER_RESET_S = 30.0  # all loops of a credential hear the same reset time: spread them
CLIENTS_MOST = 1.25  # times what its server named: so long does Claude Code wait at most
HELD_RESPONSES = frozenset({Response.HOLD, Response.ASK})


class Then(StrEnum):
    """What the runner does next."""

    SESSION = "session"  # a new trajectory
    ATTEMPT = "attempt"  # ask inference again, same trajectory
    HOLD = "hold"  # until a person or the daemon says otherwise


@dataclass(frozen=True, kw_only=True)
class Streak:
    """What happened in a row until now."""

    attempts: int = 0
    quick_failures: int = 0
    noops: int = 0


@dataclass(frozen=True, kw_only=True)
class Pace:
    """A decision: do ``then`` after ``wait_s`` seconds, because of ``outcome``."""

    then: Then
    wait_s: float
    outcome: Outcome


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What pacing needs to know of a session besides its outcome.

    ``chance`` is drawn evenly from [0, 1); ``now`` is epoch seconds, as a server's reset time is.
    """

    seconds: float
    worked: bool  # the branch moved
    now: float
    chance: float


def after(streak: Streak, outcome: Outcome, seen: Circumstances, limits: Limits) -> tuple[Streak, Pace]:
    """Decide what follows. The Pace may hold another outcome: the fifth quick crash in a row is a crash loop."""
    if outcome.kind in RETRIED_FOR_EVER:
        wait_s = inference_wait_s(streak.attempts, outcome, seen, limits)
        return replace(streak, attempts=streak.attempts + 1), Pace(then=Then.ATTEMPT, wait_s=wait_s, outcome=outcome)
    if outcome.detail.get("for_a_note") is True:
        return streak, Pace(then=Then.ATTEMPT, wait_s=0.0, outcome=outcome)
    if outcome.response in HELD_RESPONSES:
        return Streak(), Pace(then=Then.HOLD, wait_s=0.0, outcome=outcome)
    if outcome.kind is Kind.NOOP:
        return _after_noop(streak, outcome, seen, limits)
    if outcome.kind in HEALTHY or outcome.kind is Kind.STOPPED or seen.worked or seen.seconds >= QUICK_S:
        return Streak(), Pace(then=Then.SESSION, wait_s=0.0, outcome=outcome)
    return _after_quick_failure(streak, outcome, limits)


def inference_wait_s(attempts: int, outcome: Outcome, seen: Circumstances, limits: Limits) -> float:
    """Full jitter below a cap that doubles; what the server named is a floor, even above the greatest cap."""
    cap_s = min(limits.backoff_max_s, limits.backoff_min_s * 2.0 ** min(attempts + 1, 40))
    wait_s = limits.backoff_min_s + seen.chance * max(0.0, cap_s - limits.backoff_min_s)
    floor_s = server_floor_s(outcome, seen.now)
    if floor_s > 0.0:
        return floor_s + seen.chance * min(JITTER_AFTER_RESET_S, floor_s / 4, limits.backoff_max_s)
    return wait_s


def server_floor_s(outcome: Outcome, now: float) -> float:
    """Return how long the server wants not to be asked; 0 when it named no time, or none that can be meant.

    What a client itself would have waited is a floor too: it may be what the server named to it, and up to a quarter
    more. The server's own reset time tells how much more, but it rests on two clocks that need not agree.
    """
    resets_in_s = _ahead_s(outcome.detail.get("resets_at"), now)
    client_s = _ahead_s(outcome.detail.get("client_wait_s"))
    known_s = client_s / CLIENTS_MOST if resets_in_s else client_s
    return max(_ahead_s(outcome.detail.get("retry_after_s")), known_s, resets_in_s)


def _ahead_s(told: object, now: float = 0.0) -> float:
    seconds = float(told) - now if isinstance(told, (int, float)) else 0.0
    return seconds if 0.0 < seconds <= MOST_AHEAD_S else 0.0


def _after_noop(streak: Streak, outcome: Outcome, seen: Circumstances, limits: Limits) -> tuple[Streak, Pace]:
    """Pause longer and longer from the second one on, less what the session itself took."""
    pause_s = min(NOOP_WAIT_MAX_S, limits.backoff_min_s * 2.0 ** min(streak.noops - 1, 20)) if streak.noops else 0.0
    wait_s = max(0.0, pause_s - seen.seconds)
    return Streak(noops=streak.noops + 1), Pace(then=Then.SESSION, wait_s=wait_s, outcome=outcome)


def _after_quick_failure(streak: Streak, outcome: Outcome, limits: Limits) -> tuple[Streak, Pace]:
    """At once the first time, then the least backoff, twice that …; from the fifth on it is typed as a crash loop."""
    failures = streak.quick_failures + 1
    wait_s = min(CRASH_WAIT_MAX_S, limits.backoff_min_s * 2.0 ** min(failures - 2, 20)) if failures > 1 else 0.0
    if failures >= QUICK_FAILURES and outcome.kind.family == "agent":
        detail = {**outcome.detail, "was": outcome.kind.value, "in_a_row": failures}
        outcome = replace(outcome, kind=Kind.CRASH_LOOP, detail=detail)
    return Streak(quick_failures=failures), Pace(then=Then.SESSION, wait_s=wait_s, outcome=outcome)
