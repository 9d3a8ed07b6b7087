"""What is seen of a night this moment, beside what the journal tells."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Head:
    """A branch tip as seen just now."""

    commit: str
    tree: str


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A branch that somebody else put from ``to``, where its loop left it, to ``found``."""

    found: str
    to: str


@dataclass(frozen=True, kw_only=True)
class LoopNow:
    """What is seen of a loop this moment. ``alive``: its runner holds the loop's lock."""

    alive: bool = False
    head: Head | None = None
    server_lives: bool = True  # the tmux server that its window was in
    spawns: int = 0  # in a row without a sign of life
    spawned_at: float = 0.0
    moved: Moved | None = None


@dataclass(frozen=True, kw_only=True)
class Present:
    """The moment. ``in_flight`` holds the keys of actions intended and not settled."""

    now: float
    loops: dict[str, LoopNow]
    in_flight: frozenset[str] = field(default_factory=frozenset)
