"""What an agent's stream says, whatever CLI said it: a closed union, each with its byte range in the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Signal:
    """``start`` and ``end`` are byte offsets in the trajectory's log; ``end`` is exclusive."""

    start: int = 0
    end: int = 0


@dataclass(frozen=True, kw_only=True)
class Began(Signal):
    """The CLI told its session id, model or version. May come again within one run."""

    session: str = ""
    model: str = ""
    version: str = ""


@dataclass(frozen=True, kw_only=True)
class Said(Signal):
    """The model's own words."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Called(Signal):
    """A tool call begins. ``command`` is the shell command, or a short form of the input."""

    id: str
    tool: str
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class Returned(Signal):
    """A tool call's result as the agent reads it. Its text is never evidence of an inference failure."""

    id: str
    text: str = ""
    is_error: bool = False


@dataclass(frozen=True, kw_only=True)
class Used(Signal):
    """Tokens and money. ``total`` replaces what was added up so far; otherwise it adds. None: not told."""

    tokens_in: int | None = 0
    tokens_out: int | None = 0
    cache_read: int | None = 0
    cache_write: int | None = 0
    cost_usd: float | None = None
    total: bool = False


@dataclass(frozen=True, kw_only=True)
class Compacted(Signal):
    """The context was compacted once, successfully."""

    tokens_before: int | None = None
    tokens_after: int | None = None


@dataclass(frozen=True, kw_only=True)
class Requesting(Signal):
    """A request to the model is under way; silence counts from here."""


@dataclass(frozen=True, kw_only=True)
class Streamed(Signal):
    """A piece of the model's answer arrived."""


@dataclass(frozen=True, kw_only=True)
class Retrying(Signal):
    """The CLI waits by itself before asking again: alive, not stalled.

    ``delay_s`` is what it tells of the wait; ``silent_s`` how long it may then be silent, where it doesn't tell.
    ``resets_at`` (epoch seconds) is the server's own figure, where the CLI passes it on.
    """

    status: int | None = None
    error: str = ""
    attempt: int = 0
    delay_s: float = 0.0
    silent_s: float = 0.0
    resets_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Failed(Signal):
    """The CLI reports in a structured way that inference (or its own run) failed.

    ``status`` is the HTTP status; ``error`` the CLI's own name of the trouble (``rate_limit``, ``billing_error``);
    ``retry_after_s`` and ``resets_at`` (epoch seconds) are the server's floors, ``retry_after`` one as a header had it:
    seconds or a date. ``endless``: it asks on and on by itself, in vain and without a pause, so it must be ended.
    """

    status: int | None = None
    error: str = ""
    message: str = ""
    retry_after_s: float | None = None
    retry_after: str = ""
    resets_at: float | None = None
    endless: bool = False


@dataclass(frozen=True, kw_only=True)
class Resulted(Signal):
    """The final answer of a run. There may be several; the last counts.

    ``claims_done``: the answer's last line claims that the whole task is done. A claim, never a fact.
    """

    ok: bool
    text: str = ""
    claims_done: bool = False
    terminal: str = ""  # the CLI's own reason for ending


@dataclass(frozen=True, kw_only=True)
class Asked(Signal):
    """The CLI waits for a person (trust, login, permission)."""

    question: str


@dataclass(frozen=True, kw_only=True)
class Unread(Signal):
    """A line that is not understood: plain text, an unknown event, or one too long to keep."""

    text: str = ""


DONE_MARK = "RALPHD: DONE"


def claims_done(answer: str) -> bool:
    """Tell whether the last line of a final answer is the mark. Anywhere else it is talk about the mark."""
    lines = answer.rstrip().rsplit("\n", 1)
    return lines[-1].strip().strip("*`") == DONE_MARK
