"""What the daemon writes for a runner: one assignment, and orders. Files in the loop's folder.

loop.json     Assignment, replaced whole (write, fsync, rename); read at the start of every turn
order.json    Order, replaced whole; read when the bell rings and at every turn
calls/bell    FIFO: a line ``order`` means "read order.json"; tool calls are announced there too
notes/*.md    each is told to the session that runs, if its CLI takes input then, else it goes into the next one's
              prompt, in order of name; it is then moved to notes/used/
notes/*.now.md  the same, but a session that takes no input is ended and taken up again with it, if its CLI can do that
runner.lock   flocked by the runner for as long as it lives: held means alive
runner.json   RunnerIdentity, written by the runner
records.jsonl Record lines, appended by the runner (core/records.py)
logs/GGG-TTTTT.log[.N]  raw bytes of a trajectory's stdout; .err its stderr
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

SUPERVISOR_KEY = "RALPHD_SUPERVISOR_KEY"  # of the model's endpoint; it stays in the daemon
NOW = ".now"  # before a note's ``.md``: a session may be interrupted for it


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What ``[limits]`` sets; a trajectory itself has none but compactions."""

    tool_seconds: float = 300.0
    tool_memory_bytes: int = 1 << 30
    tool_output_bytes: int = 1 << 20
    compactions: int = 10
    quiet_s: float = 900.0
    stream_s: float = 300.0
    result_grace_s: float = 20.0
    backoff_min_s: float = 1.0
    backoff_max_s: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Include:
    """An ignored file of the user's checkout that each worktree gets a copy of."""

    source: str  # absolute
    target: str  # relative to the worktree


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Everything a runner needs to own its loop without the daemon. Paths are absolute."""

    night: str
    loop: str
    generation: int
    task: str
    pod: str = ""
    cli: str
    program: str
    model: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)  # the agent's whole environment but for what the runner adds
    resume: bool = False
    folder: str  # the loop's folder
    worktree: str
    night_repository: str  # its git folder
    branch: str
    base: str  # commit
    prompt: str  # the user's PROMPT.md
    preamble: str  # rendered for this loop
    nonce: str  # in the environment of everything this loop starts: RALPHD_NONCE
    limits: Limits = field(default_factory=Limits)
    sparse: tuple[str, ...] = ()
    include: tuple[Include, ...] = ()
    reset_to: str = ""  # a commit: this generation begins with a rescue and a reset to it
    secrets: tuple[str, ...] = ()  # values that never reach the digest
    account: str = ""  # a hash of what inference knows the agent by; loops with one account share its gate
    restore: tuple[str, ...] = ()  # protected paths that the next session must find as they are in ``base``
    after_seq: int = 0  # the journal's newest record of this loop; a power cut may have taken it from the loop's file
    after_trajectory: int = 0


class Want(StrEnum):
    """What the daemon (or a person through it) wants of a runner."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class Order:
    """The newest wish; the highest ``serial`` counts.

    ``now`` ends the running session at once (its work is kept); otherwise the session's end is awaited.
    ``retry`` cuts a wait short; ``ask`` also has inference asked at once where the CLI itself waits.
    ``now_at``, ``retry_at``, ``ask_at``: the newest order that wanted it, so that one which replaces another before it
    was read takes nothing back; -1: none did.
    """

    serial: int
    want: Want
    now: bool = False
    retry: bool = False
    ask: bool = False
    why: str = ""
    now_at: int = -1
    retry_at: int = -1
    ask_at: int = -1

    def after(self, earlier: Order | None) -> Order:
        """Return this order with what ``earlier`` ones wanted once, and a runner may not have read."""
        return replace(
            self,
            now_at=self.serial if self.now else earlier.now_at if earlier else -1,
            retry_at=self.serial if self.retry else earlier.retry_at if earlier else -1,
            ask_at=self.serial if self.ask else earlier.ask_at if earlier else -1,
        )


def newest(one: Order | None, other: Order) -> Order:
    """Return the newer of two orders, whichever comes first, with what either wanted once."""
    if one is None or other.serial >= one.serial:
        return other.after(one)
    late = other.after(None)
    return replace(
        one,
        now_at=max(one.now_at, late.now_at),
        retry_at=max(one.retry_at, late.retry_at),
        ask_at=max(one.ask_at, late.ask_at),
    )


def note_name(number: int, template: str, *, now: bool) -> str:
    """Name the file of a note; notes are given in order of their numbers."""
    return f"{number:08d}-{template}{NOW if now else ''}.md"


@dataclass(frozen=True, kw_only=True)
class RunnerIdentity:
    """Who a runner is: a pid alone is nobody."""

    pid: int
    start_ticks: int  # field 22 of /proc/<pid>/stat
    boot_id: str
    generation: int
    pane: str = ""  # %N
    nonce: str = ""
