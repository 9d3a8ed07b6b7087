"""What ``codex exec --json`` says.

An ``error`` event that begins with "Reconnecting..." is a wait of its own; any other is followed by ``turn.failed``.
An item of type ``error`` is a warning ("Model metadata … not found"), never a failure. Usage comes at a turn's end.
Nothing shows that an answer streams, so no signal starts the clock of a silent request; the CLI has one of its own.
"""

from __future__ import annotations

import re

from ralphd.agents.jsonl import RESULT_CHARS, TEXT_CHARS, error_object, objects, plain, record, status, text, whole
from ralphd.core.signals import (
    Began,
    Called,
    Compacted,
    Failed,
    Resulted,
    Retrying,
    Returned,
    Said,
    Signal,
    Unread,
    Used,
    claims_done,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    Event = dict[str, object]

CALLS = ("command_execution", "mcp_tool_call", "file_change", "web_search", "collab_tool_call")
TOO_MANY = 429
OBEYED_S = 3600.0  # it waits as long as the server's retry-after says, without a word: ten minutes were seen
COMPACTED = "ralphd.compacted"  # what our hook prints: the CLI itself tells nothing of a compaction
_RECONNECTING = re.compile(r"Reconnecting\.\.\.(?: (\d{1,4})/\d{1,4})?(.*)", re.DOTALL)
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_SHELL = re.compile(r"\S*/(?:bash|zsh|sh|dash|ksh) -l?c (.*)", re.DOTALL)
NAMES = (  # what the message of a failure begins with, where that tells more than its words would
    ("stream disconnected before completion: idle timeout", "stalled"),
    ("stream disconnected before completion: stream closed", "truncated"),
    ("stream disconnected before completion", "connection"),
    ("connection failed", "connection"),
    ("we're currently experiencing high demand", "overloaded"),  # after five tries that a 5xx answered
    ("selected model is at capacity", "overloaded"),
)


class Stream:
    """Reads one process. Holds what the agent said last and which calls are open."""

    def __init__(self) -> None:
        self._said = ""
        self._open: set[str] = set()

    def read(self, line: bytes, start: int, end: int) -> tuple[Signal, ...]:
        found, rest = objects(line)
        signals = [signal for event in found for signal in self._event(event, start, end)]
        if rest or not found:
            signals.append(Unread(start=start, end=end, text=plain(rest)))
        return tuple(signals)

    def _event(self, event: Event, start: int, end: int) -> tuple[Signal, ...]:
        match event.get("type"):
            case "thread.started":
                return (Began(start=start, end=end, session=text(event.get("thread_id"))[:200]),)
            case "turn.started":
                return ()
            case "item.started" | "item.updated" | "item.completed" as step:
                return self._item(record(event.get("item")), start, end, over=step == "item.completed")
            case "turn.completed":
                return self._completed(record(event.get("usage")), start, end)
            case "turn.failed":
                return _failed(text(record(event.get("error")).get("message")), start, end, final=True)
            case "error":
                return _trouble(text(event.get("message")), start, end)
            case told if told == COMPACTED:
                return (Compacted(start=start, end=end),)
            case _:
                return (Unread(start=start, end=end),)

    def _item(self, item: Event, start: int, end: int, *, over: bool) -> tuple[Signal, ...]:
        kind = item.get("type")
        if kind == "agent_message":
            self._said = text(item.get("text"))
            return (Said(start=start, end=end, text=self._said),) if over and self._said else ()
        if kind in CALLS:
            return self._call(item, start, end, over=over)
        return ()

    def _call(self, item: Event, start: int, end: int, *, over: bool) -> tuple[Signal, ...]:
        name = text(item.get("id"))[:200]
        called: tuple[Signal, ...] = ()
        if name not in self._open:
            tool = text(item.get("tool"))[:200] or str(item["type"])
            called = (Called(start=start, end=end, id=name, tool=tool, command=_command(item)),)
            self._open.add(name)
        if not over:
            return called
        self._open.discard(name)
        return (*called, _returned(item, name, start, end))

    def _completed(self, usage: Event, start: int, end: int) -> tuple[Signal, ...]:
        words = self._said
        used = Used(
            start=start,
            end=end,
            # The CLI counts what it read from the cache, and wrote to it, as input too.
            tokens_in=max(0, whole(usage.get("input_tokens")) - whole(usage.get("cached_input_tokens"))),
            tokens_out=whole(usage.get("output_tokens")),
            cache_read=whole(usage.get("cached_input_tokens")),
            cache_write=whole(usage.get("cache_write_input_tokens")),
            total=True,  # of the whole thread: one that was taken up again counts what it used before
        )
        result = Resulted(
            start=start,
            end=end,
            ok=True,
            text=words[-RESULT_CHARS:],
            claims_done=claims_done(words),
            terminal="turn.completed",
        )
        return (used, result) if usage else (result,)


def _trouble(message: str, start: int, end: int) -> tuple[Signal, ...]:
    waits = _RECONNECTING.match(message)
    if waits is None:
        return _failed(message, start, end, final=False)
    number, why = int(waits[1] or 1), waits[2].strip(" ()")[:200]
    known = _status(why)
    silent_s = OBEYED_S if known == TOO_MANY else 0.0
    error = _name(why) or why
    return (Retrying(start=start, end=end, status=known, error=error, attempt=number, silent_s=silent_s),)


def _failed(message: str, start: int, end: int, *, final: bool) -> tuple[Signal, ...]:
    name = ""
    body, _ = objects(message[:TEXT_CHARS].encode())  # of a 400, the answer's body is the message
    if body and (told := error_object(body[0], start, end)):
        code = text(record(body[0].get("error")).get("code"))[:200]
        name, message = f"{told.error} {code}".strip(), told.message or message
    failed = Failed(
        start=start,
        end=end,
        status=_status(message),
        error=name or _name(message),
        message=message[:TEXT_CHARS],
    )
    if not final:
        return (failed,)
    return (failed, Resulted(start=start, end=end, ok=False, text=message[:RESULT_CHARS], terminal="turn.failed"))


def _name(message: str) -> str:
    """Return our name for a trouble that the CLI tells in words of its own, empty for any other."""
    flat = message[:TEXT_CHARS].replace("\u2019", "'").lower()
    return next((known for words, known in NAMES if flat.startswith(words)), "")


def _status(message: str) -> int | None:
    told = _STATUS.search(message[:TEXT_CHARS])
    return status(int(told[1])) if told else None


def _command(item: Event) -> str:
    """Return the shell command of a call without the shell around it, or what else tells what it is about."""
    line = text(item.get("command"))
    shell = _SHELL.fullmatch(line[: 2 * TEXT_CHARS])
    if shell:
        line = shell[1]
        if len(line) > 1 and line[0] == line[-1] == "'":
            line = line[1:-1].replace("'\\''", "'")
    for name in ("query", "server", "prompt"):
        line = line or text(item.get(name))
    changes = item.get("changes")
    if not line and isinstance(changes, list):
        line = ", ".join(text(record(change).get("path")) for change in changes[:20])
    return line[:TEXT_CHARS]


def _returned(item: Event, name: str, start: int, end: int) -> Returned:
    bad = item.get("status") == "failed" or whole(item.get("exit_code")) != 0 or isinstance(item.get("error"), dict)
    words = text(item.get("aggregated_output"))
    return Returned(start=start, end=end, id=name, text=words[:TEXT_CHARS], is_error=bad)
