"""What the Gemini CLI's stream-json says.

Not what it seems: a stream that broke off ends with status ``error`` and exit status 0, and says why only in an
``error`` event before. An API's own error object, with its status, lies in the text of a message. A final answer is the
pieces since the last tool call; the result doesn't repeat it.
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
    status,
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

_API_ERROR = "[API Error: "
_RETRY = re.compile(rb"Attempt (\d{1,4}) failed(?: with status (\d{3}))?[^\n]{0,500}?\. Retrying ")
_RETRY_AFTER = re.compile(rb"Retrying after (\d{1,9})ms")
LONGEST_RETRY_S = 40.0  # it waits 30 s and a third of that at the most, where the server names no time


@dataclass
class Stream:
    """Reads one process. Holds what one line alone doesn't tell."""

    _words: str = ""  # of the answer that is coming
    _words_from: int = 0
    _told: str = ""  # by the newest error event of the run

    def read(self, line: bytes, start: int, end: int) -> tuple[Signal, ...]:
        found, rest = objects(line)
        signals = [signal for event in found for signal in self._event(event, (start, end))]
        if rest or not found:
            signals.append(Unread(start=start, end=end, text=plain(rest)))
        return tuple(signals)

    def read_error(self, line: bytes) -> tuple[Retrying, ...]:
        """Tell of the CLI's own wait before it asks again, which it announces on stderr alone."""
        told = _RETRY.match(line)
        if told is None:
            return ()
        after = _RETRY_AFTER.search(line)
        delay_s = int(after[1]) / 1000 if after else LONGEST_RETRY_S
        return (Retrying(status=int(told[2]) if told[2] else None, attempt=int(told[1]), delay_s=delay_s),)

    def _event(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        match event.get("type"):
            case "init":
                name, model = text(event.get("session_id"))[:200], text(event.get("model"))[:200]
                return (Began(start=start, end=end, session=name, model=model),)
            case "message":
                return self._message(event, span)
            case "tool_use":
                return (*self._said(end), _called(event, span))
            case "tool_result":
                return (*self._said(end), _returned(event, span))
            case "error":
                self._told = text(event.get("message"))[:TEXT_CHARS]
                return ()  # a warning as often as not: the result decides
            case "result":
                return self._result(event, span)
            case _:
                return (Unread(start=start, end=end),)

    def _message(self, event: Event, span: Span) -> tuple[Signal, ...]:
        if event.get("role") != "assistant":
            return ()  # the prompt
        if not self._words:
            self._words_from = span[0]
        self._words = (self._words + text(event.get("content")))[-RESULT_CHARS:]
        return ()

    def _said(self, end: int) -> tuple[Said, ...]:
        words, self._words = self._words, ""
        return (Said(start=self._words_from, end=end, text=words),) if words else ()

    def _result(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        words, ok = self._words, event.get("status") == "success"
        failed = () if ok else (self._failed(event, span),)
        kind = text(record(event.get("error")).get("type"))
        result = Resulted(
            start=start,
            end=end,
            ok=ok,
            text=words,
            claims_done=ok and claims_done(words),
            terminal="" if ok else "aborted_cancelled" if kind == "FatalCancellationError" else kind or "error",
        )
        # A broken answer is in no session that could be taken up again, so it doesn't count as one.
        said, self._told = self._said(end) if ok else (), ""
        self._words = ""
        return (*said, *_used(event, span), *failed, result)

    def _failed(self, event: Event, span: Span) -> Failed:
        error = record(event.get("error"))
        message = text(error.get("message")) or self._told
        told = _api_error(message)
        kind = text(error.get("type"))
        return Failed(
            start=span[0],
            end=span[1],
            status=status(told.get("code")) or status(error.get("code")),
            error="" if kind == "unknown" else kind[:200],
            message=(text(told.get("message")) or message)[:TEXT_CHARS],
        )


def _api_error(message: str) -> Event:
    """Return the API's error object that the CLI quotes in ``[API Error: {"error": …}]``."""
    quoted = message.find("{") if message.startswith(_API_ERROR) else -1
    found = objects(message[quoted:].encode())[0] if quoted >= 0 else []
    return record(found[0].get("error")) if found else {}


def _called(event: Event, span: Span) -> Called:
    given = record(event.get("parameters"))
    short = next((value for name in _TELLING if (value := text(given.get(name)))), "")
    tool = text(event.get("tool_name"))[:200]
    return Called(start=span[0], end=span[1], id=_name(event), tool=tool, command=short[:TEXT_CHARS])


_TELLING = ("command", "file_path", "absolute_path", "path", "dir_path", "pattern", "query", "prompt", "description")


def _returned(event: Event, span: Span) -> Returned:
    words = text(event.get("output")) or text(record(event.get("error")).get("message"))
    is_error = event.get("status") == "error"
    return Returned(start=span[0], end=span[1], id=_name(event), text=words[:TEXT_CHARS], is_error=is_error)


def _name(event: Event) -> str:
    return text(event.get("tool_id"))[:200]


def _used(event: Event, span: Span) -> tuple[Used, ...]:
    """Return the totals of this process. ``input_tokens`` there counts what the cache gave too."""
    stats = event.get("stats")
    if not isinstance(stats, dict) or "input_tokens" not in stats:
        return ()
    cached = whole(stats.get("cached"))
    return (
        Used(
            start=span[0],
            end=span[1],
            tokens_in=max(0, whole(stats.get("input_tokens")) - cached),
            tokens_out=whole(stats.get("output_tokens")),
            cache_read=cached,
            total=True,
        ),
    )
