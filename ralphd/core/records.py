"""What a runner tells: lines of records.jsonl, the loop's own memory and the daemon's source of truth.

A line is ``{"seq", "at", "generation", "trajectory", "nonce", "type", "body"}``. ``seq`` grows by one; the daemon
takes each once. ``nonce`` is the trajectory's own, drawn at its start: an end record with another nonce is
forged or stale.
"""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.outcomes import Outcome


@dataclass(frozen=True, kw_only=True)
class RunnerStarted:
    """A runner took the loop's lock. ``account``: as in AgentStarted, of the agent it will start."""

    pid: int
    start_ticks: int
    boot_id: str
    pane: str = ""
    version: str = ""
    account: str = ""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The worktree is checked out and ready. ``missing``: include files that were not there."""

    head: str
    seconds: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TrajectoryStarted:
    """A fresh context begins."""

    head: str
    log: str
    prompt_sha256: str
    prompt_bytes: int


@dataclass(frozen=True, kw_only=True)
class AgentStarted:
    """The CLI's process runs: one a trajectory, and one more for every attempt after inference trouble.

    ``account``: whom inference knows it as (a hash): what is refused to one loop is refused to all with the same.
    """

    pid: int
    start_ticks: int
    attempt: int
    session: str = ""
    account: str = ""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens and money of a trajectory so far. None: the CLI doesn't tell."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read: int | None = None
    cost_usd: float | None = None
    model: str = ""  # whose tokens these are, as the CLI named it or was told; empty: not known


@dataclass(frozen=True, kw_only=True)
class Progressed:
    """A sign of life, at most one a few seconds, only when something changed.

    ``client_waits``: the CLI itself waits before it asks again, for an overload, a rate limit, a connection.
    ``asks``: it shows a dialog that waits for a person.
    """

    usage: Usage
    compactions: int
    output_bytes: int
    calls: int
    quiet_for_s: float
    client_waits: str = ""
    asks: str = ""


@dataclass(frozen=True, kw_only=True)
class ToolEnded:
    """A tool call was ended for passing a limit."""

    outcome: Outcome


@dataclass(frozen=True, kw_only=True)
class Repeating:
    """The running session got the same results from the same calls ``times`` times in a row, and changed nothing.

    ``errors``: all of them were errors. ``file``, ``start`` and ``end``: where the newest result stands.
    """

    times: int
    errors: bool
    file: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class AttemptEnded:
    """Inference trouble ended the CLI's process, not the trajectory. ``wait_s`` until the next attempt."""

    attempt: int
    outcome: Outcome
    wait_s: float


@dataclass(frozen=True, kw_only=True)
class TrajectoryEnded:
    """The one typed end of a trajectory."""

    outcome: Outcome
    head_before: str
    head_after: str
    claims_done: bool
    usage: Usage
    compactions: int | None  # None: the CLI doesn't tell
    seconds: float
    attempts: int
    calls: int
    leftovers: int  # processes that were ended after the session
    log: str
    repeated: str = ""  # the one call and result it got over and over, as a digest; empty when there was none


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """The loop waits by itself until ``until`` (epoch seconds) for the reason in ``kind``."""

    kind: str
    until: float


@dataclass(frozen=True, kw_only=True)
class Held:
    """The loop stands still until a person or the daemon says otherwise. ``kind`` is empty for a plain pause."""

    kind: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """The loop goes on after it was held or waiting."""


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """A mechanical repair was made in place.

    ``ref`` holds what was parked, if anything; ``head``: where the branch is after it.
    """

    outcome: Outcome
    what: str
    ref: str = ""
    head: str = ""


@dataclass(frozen=True, kw_only=True)
class NotesGiven:
    """The agent was given notes, named by their files. ``how``: in the ``prompt``, ``live``, or by a ``resume``."""

    names: tuple[str, ...]
    how: str


@dataclass(frozen=True, kw_only=True)
class RunnerStopped:
    """The runner left on purpose; everything it started has ended."""

    why: str
    leftovers: int = 0


RunnerBody = (
    RunnerStarted
    | Prepared
    | TrajectoryStarted
    | AgentStarted
    | Progressed
    | ToolEnded
    | Repeating
    | AttemptEnded
    | TrajectoryEnded
    | Waiting
    | Held
    | Resumed
    | Repaired
    | NotesGiven
    | RunnerStopped
)
