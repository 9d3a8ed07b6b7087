"""What befalls each session of a night, drawn once for every contestant, and what a perfect supervisor makes of that.

To a perfect supervisor a fault costs its own session and its own detection limit, and nothing more: it waits as long
as a limit says before it calls a session hung, as long as a server asks for, and begins the next session at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SESSION_S = (0.8, 2.0)
WORK_AT = 0.6  # of a session: then its work is committed
FAULTY = 0.3  # of all sessions
BACK = 0.5  # of the moved branches are set back, the others are left for another branch
SESSIONS_DRAWN_PER_S = 4.0  # more than a loop can begin, but for one that fails at once for ever


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a night that lasts a minute, in seconds: ralphd's own, shortened about as much as the night is."""

    tool_s: float = 2.0
    quiet_s: float = 3.0
    result_grace_s: float = 1.0
    backoff_s: float = 0.05
    retry_after_s: float = 0.2  # what the server asks for
    tool_memory_mib: int = 64
    session_s: float = 6.0  # what the peer is given: longer than any session that works, its tool call included


@dataclass(frozen=True, kw_only=True)
class Fault:
    """``earns``: the session does its work all the same. ``share``: how much of its length it lasts.

    ``before`` and ``after``: which of the Limits it costs before its work is committed, and afterwards.
    """

    earns: bool = False
    share: float = 1.0
    before: str = ""
    after: str = ""


FAULTS: dict[str, Fault] = {
    "overload": Fault(share=0.2, after="backoff_s"),
    "rate-limit": Fault(share=0.2, after="retry_after_s"),
    "crash": Fault(share=0.5),
    "silent-hang": Fault(share=0.3, after="quiet_s"),
    "hung-tool": Fault(earns=True, before="tool_s"),
    "daemonised-child": Fault(earns=True),
    "memory-hog": Fault(earns=True),
    "false-done": Fault(share=0.5),
    "nothing-done": Fault(share=0.5),
    "poisoned-notes": Fault(),
    "tampered-verifier": Fault(),
    "stale-lock": Fault(share=0.5),
    "moved-branch": Fault(earns=True),
    "deleted-worktree": Fault(share=0.5),
    "30-mb-line": Fault(earns=True),
    "hostile-bytes": Fault(earns=True),
    "hang-after-result": Fault(earns=True, after="result_grace_s"),
    "held-pipe": Fault(earns=True),
}
HEALTHY = Fault(earns=True)


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One session: its length, its fault if any, and a number below 1 that the fault may use."""

    seconds: float
    fault: str = ""
    chance: float = 0.0

    @property
    def kind(self) -> Fault:
        return FAULTS[self.fault] if self.fault else HEALTHY

    @property
    def earns(self) -> bool:
        """Tell whether its work is done: whoever sets a branch back does none."""
        return self.kind.earns and not (self.fault == "moved-branch" and self.chance < BACK)


def draws(seed: int, loop: int, *, faulty: float = FAULTY, among: Iterable[str] = FAULTS) -> Iterator[Draw]:
    """Draw a loop's sessions, for ever; the same for the same arguments."""
    source, names = random.Random(f"{seed} {loop}"), sorted(among)
    while True:
        seconds, struck, fault, chance = (
            source.uniform(*SESSION_S),
            source.random(),
            source.choice(names),
            source.random(),
        )
        yield Draw(seconds=seconds, fault=fault if struck < faulty else "", chance=chance)


def cost_s(draw: Draw, limits: Limits) -> float:
    """Return the seconds from the beginning of a session to that of the next one."""
    kind = draw.kind
    return kind.share * draw.seconds + sum(_limits(limits, kind.before, kind.after))


def perfect(sessions: Iterable[Draw], seconds: float, limits: Limits) -> int:
    """Return the points that one loop makes in ``seconds``: one for each session whose work is committed by then."""
    points, now = 0, 0.0
    for draw in sessions:
        worked = now + WORK_AT * draw.seconds + sum(_limits(limits, draw.kind.before))
        now += cost_s(draw, limits)
        points += draw.earns and worked <= seconds
        if now >= seconds:
            return points
    raise ValueError(f"too few sessions were drawn for {seconds:.0f} s")


def _limits(limits: Limits, *names: str) -> list[float]:
    return [getattr(limits, name) for name in names if name]
