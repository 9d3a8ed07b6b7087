"""What each kind of outcome means, for somebody who is tired: a few plain words that can stand behind its name."""

from __future__ import annotations

import re

from ralphd.core.outcomes import Kind

PLAIN: dict[Kind, str] = {
    Kind.FINISHED: "done, and the verifier agrees",
    Kind.NEXT: "ended well, with more to do",
    Kind.NOOP: "ended without a change",
    Kind.STOPPED: "stopped as asked",
    Kind.COMPACTION_LIMIT: "its context was compacted as often as allowed",
    Kind.RATE_LIMITED: "too many requests, says the model's server",
    Kind.QUOTA: "the account's quota is used up",
    Kind.OVERLOADED: "the model's server is overloaded",
    Kind.CONNECTION: "the model's server can't be reached",
    Kind.STALLED: "the model's server went silent in an answer",
    Kind.TRUNCATED: "the model's answer broke off",
    Kind.MALFORMED: "the model's answer could not be read",
    Kind.CONTEXT_OVERFLOW: "more context than the model takes",
    Kind.REFUSED: "the model's server refused the request",
    Kind.AUTH: "the credential was refused",
    Kind.MODEL_MISSING: "there is no such model",
    Kind.START_FAILED: "the agent could not be started",
    Kind.EXITED: "the agent ended with an error",
    Kind.SIGNALLED: "the agent was ended by a signal",
    Kind.HUNG: "the agent said and did nothing more",
    Kind.HUNG_AFTER_RESULT: "the agent was done and didn't exit",
    Kind.WAITING_FOR_INPUT: "the agent waits for somebody to type",
    Kind.LEFTOVER_PROCESSES: "the agent left processes behind",
    Kind.CRASH_LOOP: "sessions end at once, again and again",
    Kind.CONFIG_ERROR: "the agent refused its configuration",
    Kind.UNKNOWN: "ended in a way nobody knows",
    Kind.TOOL_TIMEOUT: "a tool call took too long",
    Kind.TOOL_MEMORY: "a tool call took too much memory",
    Kind.OUTPUT_FLOOD: "a tool call wrote too much",
    Kind.TOOL_DENIED: "a tool call was not allowed",
    Kind.PROCESS_FLOOD: "a tool call started too many processes",
    Kind.GIT_LOCKED: "git was busy with another command",
    Kind.STALE_LOCK: "git's lock was left behind",
    Kind.WORKTREE_GONE: "the worktree was gone",
    Kind.WORKTREE_DETACHED: "the worktree was off its branch",
    Kind.BRANCH_MOVED: "the branch was moved from outside",
    Kind.HISTORY_REWRITTEN: "commits that were there are gone from the branch",
    Kind.MID_OPERATION: "a merge or rebase was left half done",
    Kind.FOREIGN_CHANGE: "something that belongs to others was changed",
    Kind.GIT_CORRUPT: "the git repository is damaged",
    Kind.VERIFY_FAILED: "the verifier could not run",
    Kind.VERIFY_TIMEOUT: "the verifier took too long",
    Kind.VERIFY_MEMORY: "the verifier took too much memory",
    Kind.TAMPERED: "it changed what judges it, so it doesn't count",
    Kind.FLAKY: "the verifier answered differently for the same files",
    Kind.FALSE_DONE: "it said done, and the verifier disagrees",
    Kind.SERVER_LOST: "the tmux server was gone",
    Kind.PANE_LOST: "the loop's pane was gone",
    Kind.SPAWN_FAILED: "a pane could not be started",
    Kind.OPERATOR_TYPED: "somebody typed into the pane",
    Kind.DISK_LOW: "the disk is nearly full",
    Kind.DISK_FULL: "the disk is full",
    Kind.INODES: "the disk can hold no more files",
    Kind.MEMORY_PRESSURE: "the machine's memory is nearly used up",
    Kind.HOST_LIMITS: "the machine allows no more processes or files",
    Kind.IO_ERROR: "the disk failed to read or write",
    Kind.CLOCK_JUMP: "the clock was set",
    Kind.SUSPENDED: "the machine slept",
    Kind.REBOOTED: "the machine was started anew",
    Kind.SUPERVISOR_UNAVAILABLE: "the supervisor's model could not be reached",
    Kind.SUPERVISOR_INVALID: "the supervisor's model gave no usable answer",
    Kind.SUPERVISOR_FORBIDDEN: "the supervisor's model wanted what it may not",
    Kind.SUPERVISOR_STALE: "the supervisor's model answered too late",
    Kind.SUPERVISOR_FUTILE: "what the supervisor's model advised changed nothing",
    Kind.DAEMON_RESTARTED: "ralphd's daemon died, and a new one went on",
    Kind.JOURNAL_ERROR: "the journal could not be written or read",
    Kind.CONFIG_REJECTED: "an edit of ralphd.toml was refused",
    Kind.SCHEDULE_MISSED: "a scheduled night began late or not at all",
    Kind.REPORT_FAILED: "the report could not be written",
    Kind.PROGRESS_NONE: "several sessions without progress",
    Kind.SAME_ERROR: "the same failure again and again",
    Kind.REPEATING: "the same call again and again",
    Kind.SHARED_CAUSE: "most loops fail of the same",
}
_NAME = re.compile("|".join(re.escape(kind.value) for kind in sorted(Kind, key=len, reverse=True)))
_BY_NAME = {kind.value: words for kind, words in PLAIN.items()}
_WHY_ENDED = {
    "time": "its time was up",
    "goal": "every goal is reached",
    "budget": "its budget is spent",
    "stopped": "it was stopped",
}


def plainly(kind: str) -> str:
    """Return what a kind means; a name of a newer ralphd is its own words."""
    return _BY_NAME.get(kind, kind)


def why_ended(why: str | None) -> str:
    return _WHY_ENDED.get(why or "", why or "no reason given")


def in_words(text: str) -> str:
    """Put words for every name of a kind in a sentence of ours."""
    return _NAME.sub(lambda found: _BY_NAME[found[0]], text)
