"""Troubles of the machine that come and pass: when each begins it is said, when it is over it is recorded, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ralphd.core.outcomes import Kind

# A disk at its limit is full and not full in turn: only a trouble that stayed away this long is over.
OVER_AFTER_S = 10.0


@dataclass(kw_only=True)
class _Episode:
    since: float  # monotonic
    seen: float
    words: str


@dataclass(kw_only=True)
class Pressures:
    """Nothing can be recorded while the journal itself is in trouble, so a kind is recorded at its end."""

    _open: dict[Kind, _Episode] = field(default_factory=dict)

    def look(self, troubles: Mapping[Kind, str], now: float) -> tuple[list[str], list[tuple[Kind, str]]]:
        """Take in what is wrong at ``now`` (monotonic seconds). Returns what began, and which kinds are over."""
        began = []
        for kind, words in troubles.items():
            if kind not in self._open:
                began.append(words)
                self._open[kind] = _Episode(since=now, seen=now, words=words)
            self._open[kind].seen = now
        gone = [(kind, it) for kind, it in self._open.items() if now >= it.seen + OVER_AFTER_S]
        for kind, _ in gone:
            del self._open[kind]
        return began, [(kind, _told(episode)) for kind, episode in gone]


def _told(episode: _Episode) -> str:
    lasted = episode.seen - episode.since
    return f"for {lasted:.0f} s: {episode.words[:380]}; what came meanwhile was recorded afterwards"
