"""Every way a thing can end, and what follows from it: one table, closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Charge(StrEnum):
    """Who an outcome counts against."""

    LOOP = "loop"
    INFRA = "infra"
    OPERATOR = "operator"
    NONE = "none"


class Contamination(StrEnum):
    """How far the damage reaches, and so what cures it."""

    NONE = "none"
    CONTEXT = "context"  # a fresh session cures it
    WORKTREE = "worktree"  # needs a rescue ref and a reset
    SHARED = "shared"  # other loops or the night repository are touched


class Response(StrEnum):
    """What ralphd does about an outcome."""

    NEXT = "next"  # start the next session
    RETRY = "retry"  # wait with backoff and ask the same model again, for ever
    WAIT_RESET = "wait_reset"  # the same, but not before the time the server named
    FRESH = "fresh"  # start the next session from a fresh context
    HOLD = "hold"  # hold every loop of that credential and tell the person
    ASK = "ask"  # hold this loop until a person has mended its configuration
    GIVE_BACK = "give_back"  # the reason becomes the tool call's own output
    END = "end"  # end the process, keep its work, go on with the next session
    REPAIR = "repair"  # a mechanical repair in place, then the next session
    RESTART = "restart"  # start the pane, the runner or the server again; the work goes on
    NOTE = "note"  # tell the next session through its prompt, from a fixed template
    NARROW = "narrow"  # fewer loops at once until the pressure is gone
    WAIT = "wait"  # leave everything as it is until the condition passes
    REFUSE = "refuse"  # don't do what was asked; say why
    CONSULT = "consult"  # the supervisor decides
    RECORD = "record"  # nothing to do but to say so
    STOP = "stop"  # the person asked for the end


class Kind(StrEnum):
    """Stable names, ``family.name``. The unknown is a kind, not an exception."""

    FINISHED = "done.finished"
    NEXT = "done.next"
    NOOP = "done.noop"
    STOPPED = "done.stopped"
    COMPACTION_LIMIT = "done.compaction_limit"

    RATE_LIMITED = "inference.rate_limited"
    QUOTA = "inference.quota"
    OVERLOADED = "inference.overloaded"
    CONNECTION = "inference.connection"
    STALLED = "inference.stalled"
    TRUNCATED = "inference.truncated"
    MALFORMED = "inference.malformed"
    CONTEXT_OVERFLOW = "inference.context_overflow"
    REFUSED = "inference.refused"
    AUTH = "inference.auth"
    MODEL_MISSING = "inference.model_missing"

    START_FAILED = "agent.start_failed"
    EXITED = "agent.exited"
    SIGNALLED = "agent.signalled"
    HUNG = "agent.hung"
    HUNG_AFTER_RESULT = "agent.hung_after_result"
    WAITING_FOR_INPUT = "agent.waiting_for_input"
    LEFTOVER_PROCESSES = "agent.leftover_processes"
    CRASH_LOOP = "agent.crash_loop"
    CONFIG_ERROR = "agent.config_error"
    UNKNOWN = "agent.unknown"

    TOOL_TIMEOUT = "tool.timeout"
    TOOL_MEMORY = "tool.memory"
    OUTPUT_FLOOD = "tool.output_flood"
    TOOL_DENIED = "tool.denied"
    PROCESS_FLOOD = "tool.process_flood"

    GIT_LOCKED = "git.locked"
    STALE_LOCK = "git.stale_lock"
    WORKTREE_GONE = "git.worktree_gone"
    WORKTREE_DETACHED = "git.worktree_detached"
    BRANCH_MOVED = "git.branch_moved"
    HISTORY_REWRITTEN = "git.history_rewritten"
    MID_OPERATION = "git.mid_operation"
    FOREIGN_CHANGE = "git.foreign_change"
    GIT_CORRUPT = "git.corrupt"

    VERIFY_FAILED = "verify.failed_to_run"
    VERIFY_TIMEOUT = "verify.timeout"
    VERIFY_MEMORY = "verify.memory"
    TAMPERED = "verify.tampered"
    FLAKY = "verify.flaky"
    FALSE_DONE = "verify.false_done"

    SERVER_LOST = "tmux.server_lost"
    PANE_LOST = "tmux.pane_lost"
    SPAWN_FAILED = "tmux.spawn_failed"
    OPERATOR_TYPED = "tmux.operator_typed"

    DISK_LOW = "host.disk_low"
    DISK_FULL = "host.disk_full"
    INODES = "host.inodes"
    MEMORY_PRESSURE = "host.memory_pressure"
    HOST_LIMITS = "host.limits"
    IO_ERROR = "host.io_error"
    CLOCK_JUMP = "host.clock_jump"
    SUSPENDED = "host.suspended"
    REBOOTED = "host.rebooted"

    SUPERVISOR_UNAVAILABLE = "supervisor.unavailable"
    SUPERVISOR_INVALID = "supervisor.invalid"
    SUPERVISOR_FORBIDDEN = "supervisor.forbidden"
    SUPERVISOR_STALE = "supervisor.stale"
    SUPERVISOR_FUTILE = "supervisor.futile"

    DAEMON_RESTARTED = "daemon.restarted"
    JOURNAL_ERROR = "daemon.journal_error"
    CONFIG_REJECTED = "daemon.config_rejected"
    SCHEDULE_MISSED = "daemon.schedule_missed"
    REPORT_FAILED = "daemon.report_failed"

    PROGRESS_NONE = "progress.none"
    SAME_ERROR = "progress.same_error"
    REPEATING = "progress.repeating"
    SHARED_CAUSE = "progress.shared_cause"

    @property
    def family(self) -> str:
        return self.value.split(".", 1)[0]


@dataclass(frozen=True)
class Consequence:
    """What follows from a kind, always: who pays, how far it reaches, what is done."""

    charge: Charge
    contamination: Contamination
    response: Response


def _row(charge: Charge, contamination: Contamination, response: Response) -> Consequence:
    return Consequence(charge=charge, contamination=contamination, response=response)


_LOOP, _INFRA, _OPERATOR, _NOBODY = Charge.LOOP, Charge.INFRA, Charge.OPERATOR, Charge.NONE
_CLEAN, _CONTEXT, _WORKTREE, _SHARED = (
    Contamination.NONE,
    Contamination.CONTEXT,
    Contamination.WORKTREE,
    Contamination.SHARED,
)

TABLE: dict[Kind, Consequence] = {
    Kind.FINISHED: _row(_NOBODY, _CLEAN, Response.NEXT),
    Kind.NEXT: _row(_NOBODY, _CLEAN, Response.NEXT),
    Kind.NOOP: _row(_LOOP, _CLEAN, Response.NEXT),
    Kind.STOPPED: _row(_OPERATOR, _CLEAN, Response.STOP),
    Kind.COMPACTION_LIMIT: _row(_LOOP, _CONTEXT, Response.FRESH),
    Kind.RATE_LIMITED: _row(_INFRA, _CLEAN, Response.RETRY),
    Kind.QUOTA: _row(_INFRA, _CLEAN, Response.WAIT_RESET),
    Kind.OVERLOADED: _row(_INFRA, _CLEAN, Response.RETRY),
    Kind.CONNECTION: _row(_INFRA, _CLEAN, Response.RETRY),
    Kind.STALLED: _row(_INFRA, _CLEAN, Response.RETRY),
    Kind.TRUNCATED: _row(_INFRA, _CLEAN, Response.RETRY),
    Kind.MALFORMED: _row(_INFRA, _CONTEXT, Response.FRESH),
    Kind.CONTEXT_OVERFLOW: _row(_LOOP, _CONTEXT, Response.FRESH),
    Kind.REFUSED: _row(_LOOP, _CONTEXT, Response.FRESH),
    Kind.AUTH: _row(_OPERATOR, _CLEAN, Response.HOLD),
    Kind.MODEL_MISSING: _row(_OPERATOR, _CLEAN, Response.ASK),
    Kind.START_FAILED: _row(_OPERATOR, _CLEAN, Response.ASK),
    Kind.EXITED: _row(_LOOP, _CLEAN, Response.NEXT),
    Kind.SIGNALLED: _row(_INFRA, _CLEAN, Response.NEXT),
    Kind.HUNG: _row(_LOOP, _CONTEXT, Response.END),
    Kind.HUNG_AFTER_RESULT: _row(_LOOP, _CLEAN, Response.END),
    Kind.WAITING_FOR_INPUT: _row(_OPERATOR, _CLEAN, Response.ASK),
    Kind.LEFTOVER_PROCESSES: _row(_LOOP, _CLEAN, Response.END),
    Kind.CRASH_LOOP: _row(_LOOP, _CONTEXT, Response.CONSULT),
    Kind.CONFIG_ERROR: _row(_OPERATOR, _CLEAN, Response.ASK),
    Kind.UNKNOWN: _row(_LOOP, _CONTEXT, Response.NEXT),
    Kind.TOOL_TIMEOUT: _row(_LOOP, _CLEAN, Response.GIVE_BACK),
    Kind.TOOL_MEMORY: _row(_LOOP, _CLEAN, Response.GIVE_BACK),
    Kind.OUTPUT_FLOOD: _row(_LOOP, _CLEAN, Response.GIVE_BACK),
    Kind.TOOL_DENIED: _row(_LOOP, _CLEAN, Response.GIVE_BACK),
    Kind.PROCESS_FLOOD: _row(_LOOP, _CLEAN, Response.GIVE_BACK),
    Kind.GIT_LOCKED: _row(_INFRA, _CLEAN, Response.WAIT),
    Kind.STALE_LOCK: _row(_LOOP, _CLEAN, Response.REPAIR),
    Kind.WORKTREE_GONE: _row(_LOOP, _WORKTREE, Response.REPAIR),
    Kind.WORKTREE_DETACHED: _row(_LOOP, _WORKTREE, Response.REPAIR),
    Kind.BRANCH_MOVED: _row(_LOOP, _WORKTREE, Response.REPAIR),
    Kind.HISTORY_REWRITTEN: _row(_LOOP, _WORKTREE, Response.REPAIR),
    Kind.MID_OPERATION: _row(_LOOP, _WORKTREE, Response.REPAIR),
    Kind.FOREIGN_CHANGE: _row(_LOOP, _SHARED, Response.REPAIR),
    Kind.GIT_CORRUPT: _row(_INFRA, _SHARED, Response.ASK),
    Kind.VERIFY_FAILED: _row(_OPERATOR, _CLEAN, Response.RECORD),
    Kind.VERIFY_TIMEOUT: _row(_LOOP, _CLEAN, Response.RECORD),
    Kind.VERIFY_MEMORY: _row(_LOOP, _CLEAN, Response.RECORD),
    Kind.TAMPERED: _row(_LOOP, _WORKTREE, Response.NOTE),
    Kind.FLAKY: _row(_OPERATOR, _CLEAN, Response.RECORD),
    Kind.FALSE_DONE: _row(_LOOP, _CONTEXT, Response.NOTE),
    Kind.SERVER_LOST: _row(_INFRA, _CLEAN, Response.RESTART),
    Kind.PANE_LOST: _row(_INFRA, _CLEAN, Response.RESTART),
    Kind.SPAWN_FAILED: _row(_INFRA, _CLEAN, Response.RESTART),
    Kind.OPERATOR_TYPED: _row(_OPERATOR, _CLEAN, Response.RECORD),
    Kind.DISK_LOW: _row(_INFRA, _CLEAN, Response.NARROW),
    Kind.DISK_FULL: _row(_INFRA, _CLEAN, Response.WAIT),
    Kind.INODES: _row(_INFRA, _CLEAN, Response.WAIT),
    Kind.MEMORY_PRESSURE: _row(_INFRA, _CLEAN, Response.NARROW),
    Kind.HOST_LIMITS: _row(_INFRA, _CLEAN, Response.NARROW),
    Kind.IO_ERROR: _row(_INFRA, _SHARED, Response.WAIT),
    Kind.CLOCK_JUMP: _row(_INFRA, _CLEAN, Response.RECORD),
    Kind.SUSPENDED: _row(_INFRA, _CLEAN, Response.RECORD),
    Kind.REBOOTED: _row(_INFRA, _CLEAN, Response.RESTART),
    Kind.SUPERVISOR_UNAVAILABLE: _row(_INFRA, _CLEAN, Response.RECORD),
    Kind.SUPERVISOR_INVALID: _row(_INFRA, _CLEAN, Response.REFUSE),
    Kind.SUPERVISOR_FORBIDDEN: _row(_INFRA, _CLEAN, Response.REFUSE),
    Kind.SUPERVISOR_STALE: _row(_INFRA, _CLEAN, Response.REFUSE),
    Kind.SUPERVISOR_FUTILE: _row(_INFRA, _CLEAN, Response.RECORD),
    Kind.DAEMON_RESTARTED: _row(_INFRA, _CLEAN, Response.RECORD),
    Kind.JOURNAL_ERROR: _row(_INFRA, _SHARED, Response.WAIT),
    Kind.CONFIG_REJECTED: _row(_OPERATOR, _CLEAN, Response.REFUSE),
    Kind.SCHEDULE_MISSED: _row(_INFRA, _CLEAN, Response.RECORD),
    Kind.REPORT_FAILED: _row(_INFRA, _CLEAN, Response.RECORD),
    Kind.PROGRESS_NONE: _row(_LOOP, _CONTEXT, Response.CONSULT),
    Kind.SAME_ERROR: _row(_LOOP, _CONTEXT, Response.CONSULT),
    Kind.REPEATING: _row(_LOOP, _CONTEXT, Response.CONSULT),
    Kind.SHARED_CAUSE: _row(_INFRA, _SHARED, Response.NARROW),
}

RETRIED_FOR_EVER = frozenset(
    {Kind.RATE_LIMITED, Kind.QUOTA, Kind.OVERLOADED, Kind.CONNECTION, Kind.STALLED, Kind.TRUNCATED},
)
HEALTHY = frozenset({Kind.FINISHED, Kind.NEXT})


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Where a person can look: a file and a byte range in it, or a plain fact."""

    what: str
    file: str = ""
    start: int = 0  # bytes; ``end`` is exclusive
    end: int = 0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The typed end of a trajectory, an attempt, a tool call, a verification, an action or a daemon operation."""

    kind: Kind
    detail: dict[str, object] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()

    @property
    def charge(self) -> Charge:
        return TABLE[self.kind].charge

    @property
    def contamination(self) -> Contamination:
        return TABLE[self.kind].contamination

    @property
    def response(self) -> Response:
        return TABLE[self.kind].response
