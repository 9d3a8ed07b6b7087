"""What is seen of a night this moment, beside what the journal tells."""

from __future__ import annotations

from dataclasses import dataclass, field

from ralphd.core.outcomes import Kind
from ralphd.core.spending import Spending


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
class Strain:
    """Something that the machine is short of. ``kind`` is the outcome it is told as; ``danger``: of losing work.

    One that no longer ``narrows`` is passing: the night gets no wider before it is over. ``shows_s``: how long it takes
    until a narrower night can show in it. ``task``: whose loops bring it about, if it is one task's alone.
    """

    kind: Kind
    words: str
    danger: bool = False
    narrows: bool = True
    shows_s: float = 60.0  # a loop that is held back goes on to its session's end
    task: str = ""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What ``[supervisor]`` allows the width to be."""

    least: int = 1
    most: int = 16


@dataclass(frozen=True, kw_only=True)
class Present:
    """The moment.

    ``in_flight`` holds the keys of actions intended and not settled; ``consulted`` the loops that a model is asked
    about just now, for which the policy waits.
    """

    now: float
    loops: dict[str, LoopNow]
    in_flight: frozenset[str] = field(default_factory=frozenset)
    strains: tuple[Strain, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)
    consulted: frozenset[str] = field(default_factory=frozenset)
    spending: Spending = field(default_factory=Spending)
