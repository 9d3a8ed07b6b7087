"""What Qwen Code's stream-json says.

Not what it seems: when inference fails it still exits 0 with ``"subtype":"success","is_error":false``, and tells of the
failure only by ``[API Error: …]`` at the end of what looks like the model's answer. What separates that from a model
that writes the same words: such a message has no usage (the server reported none), and, with partial messages, the
words came as one piece.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ralphd.agents.jsonl import (
    RESULT_CHARS,
    TEXT_CHARS,
    objects,
    plain,
    record,
    records,
    text,
    whole,
)
from ralphd.core.signals import (
    Began,
    Called,
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
    Span = tuple[int, int]

OWN_WORDS = re.compile(
    r"(?:\[API Error: (.*)\](?:\n[^\n]{0,300})?|(Qwen OAuth (?:quota exceeded|free tier has been discontinued)\b.*))\Z",
    re.DOTALL,
)
OWN_CHARS = 8192  # of an error the CLI quotes; some APIs send a page of HTML
_WAITING = re.compile(rb"\[qwen-code\] Waiting for API capacity\.\.\. attempt (\d{1,6}), retry in (\d{1,6})s")
STATUS = re.compile(r"([45]\d\d)(?: |$)")
_TELLING = ("command", "file_path", "absolute_path", "path", "pattern", "query", "url", "prompt", "description")


@dataclass
class Stream:
    """Reads one process. Holds what one line alone doesn't tell."""

    _piece: str | None = None  # the last piece of text of the message that is coming, if pieces come
    _piece_of: str = ""  # that message's id
    _trouble: Failed | None = None  # what the newest message told of

    def read(self, line: bytes, start: int, end: int) -> tuple[Signal, ...]:
        found, rest = objects(line)
        signals = [signal for event in found for signal in self._event(event, (start, end))]
        if rest or not found:
            signals.append(Unread(start=start, end=end, text=plain(rest)))
        return tuple(signals)

    def read_error(self, line: bytes) -> tuple[Retrying, ...]:
        """Tell of the CLI's own wait before it asks again, which it announces on stderr, every half minute."""
        told = _WAITING.match(line)
        if told is None:
            return ()
        return (Retrying(error="rate_limit", attempt=int(told[1]), delay_s=float(told[2])),)

    def _event(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        match event.get("type"):
            case "system":
                return _system(event, span)
            case "stream_event":
                return self._part(event)
            case "assistant":
                return self._assistant(event, span)
            case "user":
                return _returned(event, span)
            case "result":
                return self._result(event, span)
            case _:
                return (Unread(start=start, end=end),)

    def _part(self, event: Event) -> tuple[Signal, ...]:
        if event.get("parent_tool_use_id"):
            return ()
        piece = record(event.get("event"))
        if piece.get("type") == "message_start":
            self._piece, self._piece_of = None, text(record(piece.get("message")).get("id"))
        if piece.get("type") == "content_block_delta":
            self._piece = text(record(piece.get("delta")).get("text"))
        return ()

    def _assistant(self, event: Event, span: Span) -> tuple[Signal, ...]:
        if event.get("parent_tool_use_id"):
            return ()  # a sub-agent's: this run reads of it as a tool result
        message = record(event.get("message"))
        usage = record(message.get("usage"))
        if not message:
            return ()
        words, piece = _text(message.get("content")), self._piece if self._piece_of == message.get("id") else None
        self._piece = self._trouble = None
        if "total_tokens" not in usage and not whole(usage.get("output_tokens")):
            self._trouble = _own_words(words, piece, span)
        if self._trouble is not None:
            return (self._trouble,)
        return (*_used(usage, span, total=False), *_blocks(message, span))

    def _result(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        trouble, self._trouble = self._trouble, None
        told = text(record(event.get("error")).get("message"))
        ok = event.get("is_error") is False and trouble is None
        failed = () if ok or trouble is not None else (_failure(told, span),)
        words = text(event.get("result")) or told
        result = Resulted(
            start=start,
            end=end,
            ok=ok,
            text=words[-RESULT_CHARS:],
            claims_done=ok and claims_done(words),
            terminal="" if ok else _terminal(event),
        )
        return (*_used(record(event.get("usage")), span, total=True), *failed, result)


def _terminal(event: Event) -> str:
    subtype = text(event.get("subtype"))
    return "api_error" if subtype == "success" else subtype or "error"


def _own_words(words: str, piece: str | None, span: Span) -> Failed | None:
    """Return the failure that the CLI wrote at the end of ``words``, if it did. ``piece`` is how that end arrived."""
    if piece is None:
        begin = max(words.rfind("[API Error: "), words.rfind("Qwen OAuth "))
        piece = words[begin:] if begin >= 0 else ""
    if len(piece) > OWN_CHARS or not words.endswith(piece) or not OWN_WORDS.match(piece):
        return None
    return _failure(piece, span)


def _failure(words: str, span: Span) -> Failed:
    told = OWN_WORDS.match(words)
    message = (told[1] or told[2]) if told else words
    number = STATUS.match(message)
    if number:
        message = message[number.end() :]
    return Failed(
        start=span[0],
        end=span[1],
        status=int(number[1]) if number else None,
        message=message[:TEXT_CHARS],
    )


def _system(event: Event, span: Span) -> tuple[Signal, ...]:
    if event.get("subtype") != "init":
        return ()
    name, model = text(event.get("session_id"))[:200], text(event.get("model"))[:200]
    version = text(event.get("qwen_code_version"))[:200]
    return (Began(start=span[0], end=span[1], session=name, model=model, version=version),)


def _blocks(message: Event, span: Span) -> tuple[Signal, ...]:
    signals: list[Signal] = []
    for block in records(message.get("content")):
        if block.get("type") == "text" and (words := text(block.get("text"))):
            signals.append(Said(start=span[0], end=span[1], text=words))
        if block.get("type") == "tool_use":
            signals.append(_called(block, span))
    return tuple(signals)


def _called(block: Event, span: Span) -> Called:
    given = record(block.get("input"))
    short = next((value for name in _TELLING if (value := text(given.get(name)))), "")
    name, tool = text(block.get("id"))[:200], text(block.get("name"))[:200]
    return Called(start=span[0], end=span[1], id=name, tool=tool, command=short[:TEXT_CHARS])


def _returned(event: Event, span: Span) -> tuple[Signal, ...]:
    if event.get("parent_tool_use_id"):
        return ()
    return tuple(
        Returned(
            start=span[0],
            end=span[1],
            id=text(block.get("tool_use_id"))[:200],
            text=_text(block.get("content"))[:TEXT_CHARS],
            is_error=block.get("is_error") is True,
        )
        for block in records(record(event.get("message")).get("content"))
        if block.get("type") == "tool_result"
    )


def _text(content: object) -> str:
    return text(content) or "".join(text(block.get("text")) for block in records(content))


def _used(usage: Event, span: Span, *, total: bool) -> tuple[Used, ...]:
    """Return a message's usage, or the process's. ``input_tokens`` there counts what the cache gave too."""
    if "total_tokens" not in usage and not total:
        return ()
    if not usage or (total and "total_tokens" not in usage and not whole(usage.get("input_tokens"))):
        return ()  # the server told none: unknown, not nothing
    cached = whole(usage.get("cache_read_input_tokens"))
    return (
        Used(
            start=span[0],
            end=span[1],
            tokens_in=max(0, whole(usage.get("input_tokens")) - cached),
            tokens_out=whole(usage.get("output_tokens")),
            cache_read=cached,
            total=total,
        ),
    )
