"""What is told of a tool call: that it began, returned, or was killed at a limit, and the outcome that this is."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.outcomes import Evidence, Kind, Outcome

KINDS = {
    "time": Kind.TOOL_TIMEOUT,
    "memory": Kind.TOOL_MEMORY,
    "output": Kind.OUTPUT_FLOOD,
    "processes": Kind.PROCESS_FLOOD,
}


@dataclass(frozen=True, kw_only=True)
class CallOpened:
    """A tool call began."""

    call_id: str
    command: str


@dataclass(frozen=True, kw_only=True)
class CallClosed:
    """A call returned. ``status`` is None when no living wrapper told it; ``peak_bytes`` None when too short to see."""

    call_id: str
    status: int | None
    seconds: float
    peak_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class CallKilled:
    """A call passed a limit ("time", "memory", "output", "processes") and was ended with all that it had started.

    ``figure`` is in seconds, bytes or processes. ``returned`` says that the call was over and only its leftovers ran.
    ``spill`` names the file with its output. ``text`` is what the agent reads.
    """

    call_id: str
    limit: str
    figure: float
    allowed: float
    seconds: float
    command: str
    spill: str
    text: str
    returned: bool


TYPE_CHECKING = False
if TYPE_CHECKING:
    CallEvent = CallOpened | CallClosed | CallKilled


def tool_outcome(event: CallKilled) -> Outcome:
    detail: dict[str, object] = {
        "limit": event.limit,
        "figure": event.figure,
        "allowed": event.allowed,
        "seconds": round(event.seconds, 3),
        "command": event.command,
        "returned": event.returned,
    }
    reason = event.text.strip().partition("\n")[0].removeprefix("[ralphd] ")
    evidence = Evidence(what=f"{event.command}: {reason}", file=event.spill)
    return Outcome(kind=KINDS[event.limit], detail=detail, evidence=(evidence,))
