"""What is known of a night, its tasks and its loops: all that policy, status and supervisor go by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ralphd.core import clocks, events, records
from ralphd.core.exchange import Order, Want
from ralphd.core.history import Past
from ralphd.core.model import Loop, Task, Verdict
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.standing import Standing

WORKS_S = 60.0  # a session that has run so long has got over what the one before failed of


@dataclass(kw_only=True)
class Ending:
    """What a session left behind, perhaps with the word that the whole task is done. ``entry``: its TrajectoryEnded."""

    entry: int
    generation: int
    trajectory: int
    head: str


@dataclass(kw_only=True)
class LoopState:
    """One loop as told so far. ``head`` is the branch tip that a record or a verdict named last."""

    loop: Loop
    want: Want = Want.RUNNING
    wanted_by: str = "policy"
    generation: int = 1
    reset_to: str = ""  # where this generation begins, until its first session has
    trajectory: int = 0
    seq: int = 0  # of the newest record that a runner of any generation wrote
    nonce: str = ""
    session_open: bool = False
    started: bool = False  # a runner took the loop up at least once
    runner_up: bool = False
    left: str = ""  # why the runner left, when it left on purpose
    pane: str = ""
    agent_pid: int | None = None
    account: str = ""  # whom inference knew its newest agent as
    standing: Standing = field(default_factory=Standing)
    waiting_until: float | None = None
    waiting_kind: str = ""
    asked_s: float = float("-inf")  # the second of the night at which its newest agent asked inference
    refused_s: float = float("-inf")  # and the one since which it waits for inference, its quick tries included
    held_kind: str = ""
    held_why: str = ""
    last_outcome: Kind | None = None
    usage: records.Usage = field(default_factory=records.Usage)  # ended trajectories
    usage_now: records.Usage = field(default_factory=records.Usage)  # the running one
    compactions: int = 0
    said_at: float = 0.0  # when its agent gave its last sign, seconds since 1970
    best_score: float | None = None
    best_commit: str = ""
    bar: float | None = None  # the best score that was known before it was reset, or came of it since
    reset_in: int = 1  # the newest generation that began with a reset
    submissions: int = 0
    last_verdict: Verdict | None = None
    judged: set[str] = field(default_factory=set)  # commits it has a verdict on
    overtaken: dict[str, str] = field(default_factory=dict)  # commit -> the newer one that is judged in its place
    claim: Ending | None = None
    ended: Ending | None = None  # where the last session left the branch, if it moved
    claims_refuted: int = 0
    refuted: dict[str, str] | None = None  # the newest refuted claim, as slots of a note
    parked: dict[str, str] | None = None  # the newest rescued work, as slots of a note
    told: set[str] = field(default_factory=set)  # keys of notes left
    unread: dict[str, int] = field(default_factory=dict)  # notes on a trouble that nobody has read -> their intent
    ordered: Order | None = None  # the newest order that was given, with what earlier ones wanted once
    tip: str = ""  # where the branch was when its runner last said so
    returned: set[str] = field(default_factory=set)  # commits that others moved its branch to, and it was put back from
    note: str = ""
    aside: str = ""  # why the policy holds it back, to let it go on by itself; empty: it doesn't
    restore: tuple[str, ...] = ()  # protected files that its next session must find as they were
    restored: set[str] = field(default_factory=set)  # commits whose changes to protected files were to be undone
    past: Past = field(default_factory=Past)

    @property
    def held(self) -> bool:
        return bool(self.held_kind or self.held_why)

    def wait(self, kind: str, until: float, second: float) -> None:
        if self.refused_s < self.past.began_s or second - self.asked_s > WORKS_S:
            self.refused_s = second
        self.waiting_kind, self.waiting_until = kind, until

    def tokens(self) -> records.Usage:
        """Sum ended trajectories and the running one; unknown stays unknown."""
        return add_usage(self.usage, self.usage_now)


@dataclass(kw_only=True)
class TaskState:
    """One task: its base's verdict and the best so far. ``judged`` maps a tree to its verdict."""

    task: Task
    base: Verdict | None = None
    not_judged: str = ""  # why its base could not be judged yet
    best: Verdict | None = None
    judged: dict[str, Verdict] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)  # judged commit -> tree
    done: bool = False
    verdicts: int = 0
    submissions: int = 0
    unscored: set[str] = field(default_factory=set)  # loops that got a verdict since the last one with a score
    doubted: int = 0  # verdicts that a second run did not bear out
    rises: list[tuple[float, float]] = field(default_factory=list)  # (second of the night, by how much) of its best


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What most loops failed of at once: ``error`` names it, ``since_s`` is the second of the night it was told."""

    entry: int
    since_s: float
    error: str
    loops: tuple[str, ...]

    @staticmethod
    def of(outcome: Outcome, entry: int, second: float) -> Shared:
        loops = outcome.detail.get("loops")
        names = tuple(str(name) for name in loops) if isinstance(loops, list) else ()
        return Shared(entry=entry, since_s=second, error=str(outcome.detail.get("error", "")), loops=names)


@dataclass(kw_only=True)
class NightState:
    """A whole night. ``intents`` are open: intended and not settled yet."""

    id: str = ""
    started_at: float = 0.0
    ends_at: float | None = None
    for_s: float | None = None
    boot_id: str = ""  # of the boot in which a runner was last heard of, or the machine found started anew
    jumped_s: float = 0.0  # by how much the wall's clock was set since the start
    ended_at: float | None = None
    why_ended: str = ""
    width: int = 0  # loops at once, as things are
    wished: int = 0  # and as a person wants it
    widths: list[tuple[float, int]] = field(default_factory=list)  # (second of the night, width) of each change
    freed_s: float = float("-inf")  # the second of the night at which disk was last freed
    seen_s: float = 0.0  # the second of the night of the newest entry of the daemon
    released_s: dict[str, float] = field(default_factory=dict)  # shared error -> the second of the night it passed
    shared: Shared | None = None  # what most loops fail of
    config: dict[str, object] = field(default_factory=dict)
    tasks: dict[str, TaskState] = field(default_factory=dict)
    loops: dict[str, LoopState] = field(default_factory=dict)
    intents: dict[int, events.ActionIntended] = field(default_factory=dict)
    gaps: tuple[clocks.Gap, ...] = ()  # in which nobody could work, newest last
    noticed: dict[str, float] = field(default_factory=dict)  # what a person was told, and when (epoch seconds)
    restarts: dict[int, int] = field(default_factory=dict)  # open intents to restart: the generation each begins
    ending: bool = False
    ending_s: float = 0.0  # the second of the night at which that began
    skip_verification: bool = False
    last_id: int = 0

    def second(self, at: float) -> float:
        """Return the second of the night that a time of day is, whatever the clock was set to meanwhile."""
        return max(0.0, at - self.started_at - self.jumped_s)


def add_usage(a: records.Usage, b: records.Usage) -> records.Usage:
    return records.Usage(
        tokens_in=_add(a.tokens_in, b.tokens_in),
        tokens_out=_add(a.tokens_out, b.tokens_out),
        cache_read=_add(a.cache_read, b.cache_read),
        cost_usd=_add(a.cost_usd, b.cost_usd),
        model=b.model or a.model,
    )


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return a + b
