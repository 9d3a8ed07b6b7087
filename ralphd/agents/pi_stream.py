"""What ``pi --mode json`` says.

Not what it seems: pi exits with 0 whatever happened, so only the last message of the model tells. It takes an answer
that broke off for a good one. Each piece of an answer repeats all that came before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ralphd.agents.jsonl import (
    LONGEST_WAIT_S,
    RESULT_CHARS,
    TEXT_CHARS,
    objects,
    plain,
    real,
    record,
    records,
    status,
    text,
    whole,
)
from ralphd.core.signals import (
    Began,
    Called,
    Compacted,
    Failed,
    Requesting,
    Resulted,
    Retrying,
    Returned,
    Said,
    Signal,
    Streamed,
    Unread,
    Used,
    claims_done,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    Event = dict[str, object]
    Span = tuple[int, int]

BROKE_OFF = "the model stream ended without its end"  # our extension's words; pi asks again after "ended without"
PIECE = b'{"type":"message_update",'
# A piece this long isn't looked into: an answer of 40 kB comes with 200 MB of them, and they tell no more than that.
PIECE_BYTES = 16 << 10
COMPACTION_S = 600.0  # a summary of 20 000 tokens, of which the stream shows nothing
_STATUS = re.compile(r"(\d{3})\b")


@dataclass
class Stream:
    """Reads one process. Holds what one line alone doesn't tell."""

    _model: str = ""
    _said: str = ""  # the newest words of the model
    _ok: bool = False  # its newest message was a good one
    _told_usage: bool = False  # the server tells usage, so an answer without it was cut
    _trouble: str = ""  # the newest error's message

    def read(self, line: bytes, start: int, end: int) -> tuple[Signal, ...]:
        if len(line) > PIECE_BYTES and line.startswith(PIECE):
            return (Streamed(start=start, end=end),)
        found, rest = objects(line)
        signals = [signal for event in found for signal in self._event(event, (start, end))]
        if rest or not found:
            signals.append(Unread(start=start, end=end, text=plain(rest)))
        return tuple(signals)

    def _event(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        message = record(event.get("message"))
        match event.get("type"):
            case "session":
                return (Began(start=start, end=end, session=text(event.get("id"))[:200]),)
            case "turn_start":
                return (Requesting(start=start, end=end),)
            case "message_start":
                return self._message_start(message, span)
            case "message_update":
                return (Streamed(start=start, end=end),)
            case "message_end":
                return self._message_end(message, span)
            case "tool_execution_start":
                return (_called(event, span),)
            case "tool_execution_end":
                return (_returned(event, span),)
            case "agent_end":
                return self._end(span)
            case "auto_retry_start":
                return (_retrying(event, span),)
            case "compaction_start":
                return self._compacting(event, span)
            case "compaction_end":
                return _compacted(event, span)
            case "agent_start" | "turn_end" | "tool_execution_update" | "auto_retry_end" | "queue_update":
                return ()
            case _:
                return (Unread(start=start, end=end),)

    def _message_start(self, message: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        if message.get("role") != "assistant" or message.get("stopReason") == "error":
            return ()
        model = text(message.get("model"))[:200]
        news = model != self._model
        self._model = model
        return (*((Began(start=start, end=end, model=model),) if news else ()), Streamed(start=start, end=end))

    def _message_end(self, message: Event, span: Span) -> tuple[Signal, ...]:
        if message.get("role") != "assistant":
            return ()
        start, end = span
        usage, reason = record(message.get("usage")), message.get("stopReason")
        blocks = list(records(message.get("content")))
        words = "\n".join(text(block.get("text")) for block in blocks if block.get("type") == "text")
        calls = any(block.get("type") == "toolCall" for block in blocks)
        self._ok, self._said = reason in ("stop", "toolUse"), words
        signals: list[Signal] = [*_used(usage, span)]
        if words:
            signals.append(Said(start=start, end=end, text=words))
        if reason == "error":
            ours = record(message.get("ralphd"))  # what our extension adds
            told = text(ours.get("error")) or text(message.get("errorMessage"))
            signals.append(self._failure(told, real(ours.get("retryAfter")), span))
        elif reason == "length" and not calls:
            signals.append(Failed(start=start, end=end, error="max_output_tokens", message="the answer ended early"))
        elif reason == "stop" and self._told_usage and not whole(usage.get("totalTokens")):
            self._ok = False
            signals.append(Failed(start=start, end=end, error="truncated", message="the answer came without its usage"))
        self._told_usage = self._told_usage or whole(usage.get("totalTokens")) > 0
        return tuple(signals)

    def _failure(self, message: str, wait_s: float | None, span: Span) -> Failed:
        self._trouble = message
        code = _STATUS.match(message)
        cut = message.find("{")
        found, _ = objects(message[cut:][:TEXT_CHARS].encode("utf-8", "replace")) if cut >= 0 else ([], "")
        told = record(found[0].get("error")) or found[0] if found else {}
        names = [name for key in ("code", "type") if (name := text(told.get(key))[:200]) and name != "error"]
        if message == BROKE_OFF:
            names = ["truncated"]
        elif message == "terminated":  # what undici calls a connection that was reset
            names = ["connection"]
        return Failed(
            start=span[0],
            end=span[1],
            status=status(int(code[1])) if code else None,
            error=" ".join(names),
            message=(text(told.get("message")) or message)[:TEXT_CHARS],
            retry_after_s=None if wait_s is None else min(wait_s, LONGEST_WAIT_S),
        )

    def _end(self, span: Span) -> tuple[Signal, ...]:
        if not self._ok:
            return ()
        words = self._said[:RESULT_CHARS]
        done = claims_done(words)
        return (Resulted(start=span[0], end=span[1], ok=True, text=words, claims_done=done, terminal="agent_end"),)

    def _compacting(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        waits = Retrying(start=start, end=end, error="compacting", delay_s=COMPACTION_S)
        if event.get("reason") != "overflow":
            return (waits,)
        # pi knows the words of every server for this. Without a person it ends before it has asked again.
        return Failed(start=start, end=end, error="context_overflow", message=self._trouble[:TEXT_CHARS]), waits


def _called(event: Event, span: Span) -> Called:
    given = record(event.get("args"))
    told = (text(given.get(name)) for name in ("command", "path", "pattern", "url", "query", "description", "prompt"))
    return Called(
        start=span[0],
        end=span[1],
        id=text(event.get("toolCallId"))[:200],
        tool=text(event.get("toolName"))[:200],
        command=next((value for value in told if value), "")[:TEXT_CHARS],
    )


def _returned(event: Event, span: Span) -> Returned:
    content = records(record(event.get("result")).get("content"))
    words = "\n".join(text(block.get("text")) for block in content if block.get("text"))
    return Returned(
        start=span[0],
        end=span[1],
        id=text(event.get("toolCallId"))[:200],
        text=words[:TEXT_CHARS],
        is_error=event.get("isError") is True,
    )


def _retrying(event: Event, span: Span) -> Retrying:
    message = text(event.get("errorMessage"))[:200]
    code = _STATUS.match(message)
    return Retrying(
        start=span[0],
        end=span[1],
        status=status(int(code[1])) if code else None,
        error=message,
        attempt=whole(event.get("attempt")),
        delay_s=min((real(event.get("delayMs")) or 0.0) / 1000, LONGEST_WAIT_S),
    )


def _compacted(event: Event, span: Span) -> tuple[Signal, ...]:
    start, end = span
    result = record(event.get("result"))
    if result:
        return (Compacted(start=start, end=end, tokens_before=whole(result.get("tokensBefore")) or None),)
    words = text(event.get("errorMessage"))[:TEXT_CHARS]
    if event.get("reason") != "overflow" or not words:
        return ()
    return (Failed(start=start, end=end, error="context_overflow", message=words),)


def _used(usage: Event, span: Span) -> tuple[Used, ...]:
    """Return what was used. Zeros stand for what the server or pi doesn't know: the tokens, or the price."""
    used = Used(
        start=span[0],
        end=span[1],
        tokens_in=whole(usage.get("input")),
        tokens_out=whole(usage.get("output")),
        cache_read=whole(usage.get("cacheRead")),
        cache_write=whole(usage.get("cacheWrite")),
        cost_usd=real(record(usage.get("cost")).get("total")) or None,
    )
    return (used,) if used.tokens_in or used.tokens_out or used.cache_read or used.cache_write else ()
