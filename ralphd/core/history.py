"""What a loop's last sessions and verdicts came to, and what was done about its troubles: a memory with a bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ralphd.core.outcomes import HEALTHY, Charge, Kind, Outcome

KEPT = 64  # of each: more than any rule looks back at, and no more than 30 KB a loop

Key = tuple[int, int]  # generation, trajectory

_CHANGING = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{7,64}\b|\d+")


@dataclass(frozen=True, kw_only=True)
class Session:
    """A trajectory that has ended. ``entry`` is the id of its end; ``at_s`` seconds of the night.

    ``error`` names what it ended with, alike for all that ended alike; empty when it ended well. ``repeated`` names the
    call and result that it got over and over, empty when there was none.
    """

    entry: int
    at_s: float
    generation: int
    trajectory: int
    kind: Kind
    before: str
    after: str
    seconds: float = 0.0
    claimed: bool = False
    error: str = ""
    repeated: str = ""

    @property
    def key(self) -> Key:
        return (self.generation, self.trajectory)

    @property
    def charged(self) -> bool:
        """Tell whether it says anything about its loop: what infra or a person did to it doesn't."""
        return Outcome(kind=self.kind).charge in {Charge.LOOP, Charge.NONE}

    @property
    def moved(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A verdict that beat all that its loop had. ``by`` how much is positive in either direction."""

    entry: int
    at_s: float
    generation: int
    trajectory: int
    commit: str
    score: float
    by: float

    @property
    def key(self) -> Key:
        return (self.generation, self.trajectory)


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """Something that was done about a trouble. ``cause`` names the trouble, ``action`` the class of what was done."""

    entry: int
    at_s: float
    cause: str
    action: str
    by: str
    reset_to: str = ""


@dataclass(kw_only=True)
class Past:
    """One loop's memory, newest last. ``since``: what ended before this entry was answered, or outdone, already.

    ``noted`` holds the entry in which each trouble was told, by its cause. ``visited`` is the newest commit that
    appeared while no session ran and no repair of ours made it: a person's.
    """

    sessions: list[Session] = field(default_factory=list)
    gains: list[Gain] = field(default_factory=list)
    remedies: list[Remedy] = field(default_factory=list)
    noted: dict[str, int] = field(default_factory=dict)
    since: int = 0
    left: str = ""  # where the branch was when ralphd or a session last left it; empty: not known
    visited: str = ""
    visited_in: Key = (0, 0)  # the session that began from it
    circling: int = 0  # the entry in which its running session was told to go round in circles
    began_s: float = 0.0  # the second of the night at which its newest session began
    fruitful: int = 0  # sessions that ended well and had a submission
    _healthy: list[Key] = field(default_factory=list)
    _submitted: list[Key] = field(default_factory=list)

    def begin(self, key: Key, head: str, second: float) -> None:
        """Take the start of a session: what it finds and nobody of ours left there is a person's."""
        self.began_s, self.circling = second, 0
        if self.left and head and head != self.left:
            self.visited, self.visited_in = head, key

    def end(self, session: Session) -> None:
        self.sessions = [*self.sessions[1 - KEPT :], session]
        self.left, self.circling = session.after, 0
        if session.kind in HEALTHY:
            self._count(session.key, self._healthy, self._submitted)

    def left_by(self, commit: str) -> Key | None:
        """Return the session that ended with a commit which it didn't begin with."""
        return next((one.key for one in reversed(self.sessions) if one.moved and one.after == commit), None)

    def submit(self, key: Key) -> None:
        self._count(key, self._submitted, self._healthy)

    def refute(self, key: Key) -> None:
        """Take back that a session ended well: its claim was false."""
        self.fruitful -= key in self._healthy and key in self._submitted
        if key in self._healthy:
            self._healthy.remove(key)

    def _count(self, key: Key, mine: list[Key], other: list[Key]) -> None:
        if key not in mine:
            mine.append(key)
            del mine[:-KEPT]
            self.fruitful += key in other

    def gain(self, gain: Gain) -> None:
        """Begin to count anew after the session that gained: whatever was wrong before, it led somewhere."""
        self.gains = [*self.gains[1 - KEPT :], gain]
        ended = [s.entry for s in self.sessions if s.key == gain.key]
        self._answered(ended[-1] if ended else gain.entry)

    def treat(self, remedy: Remedy) -> None:
        self.remedies = [*self.remedies[1 - KEPT :], remedy]
        if remedy.reset_to:
            self.visited = ""
        self._answered(remedy.entry)

    def _answered(self, entry: int) -> None:
        self.since = max(self.since, entry)
        self.noted = {cause: told for cause, told in self.noted.items() if told > self.since}

    def open(self) -> tuple[Session, ...]:
        """Return the sessions that count: since the last gain or remedy, charged to the loop or to nobody."""
        gained = {gain.key for gain in self.gains}
        found: list[Session] = []
        for session in reversed(self.sessions):
            if session.entry <= self.since or session.key in gained:
                break
            if session.charged:
                found.append(session)
        return tuple(reversed(found))

    def treated(self, cause: str, action: str) -> int:
        """Return how often this was done about that trouble since the last gain."""
        last = self.gains[-1].entry if self.gains else 0
        return sum(r.cause == cause and r.action == action and r.entry > last for r in self.remedies)

    def recent(self, action: str, after_s: float) -> Iterator[Remedy]:
        return (remedy for remedy in self.remedies if remedy.action == action and remedy.at_s > after_s)


def error_of(outcome: Outcome) -> str:
    """Name how a session failed, alike for two that failed alike: figures and ids don't count. Empty: it did not."""
    if outcome.kind in HEALTHY or outcome.kind in {Kind.NOOP, Kind.STOPPED, Kind.COMPACTION_LIMIT}:
        return ""
    detail = outcome.detail
    kind = detail.get("was") if outcome.kind is Kind.CRASH_LOOP else outcome.kind.value
    said = next((str(detail[name]) for name in ("message", "error", "name") if detail.get(name)), "")
    return f"{kind} {detail.get('code', '')} {_CHANGING.sub('#', said[:200])}".strip()
