"""What ``opencode run --format json`` says, and what our plugin adds on the same stream.

Not what it seems: a step whose answer broke off ends with the reason ``unknown`` and is asked for again at once,
without end. A prompt that is too long is answered with a compaction and asked again, without end too. A call is told
when it is over. What sub-agents do is told by the plugin alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.agents.jsonl import (
    LONGEST_WAIT_S,
    RESULT_CHARS,
    TEXT_CHARS,
    objects,
    plain,
    real,
    record,
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

# Its own names of a trouble, in the words that are known.
NAMES = {
    "ContextOverflowError": "context_overflow",
    "ProviderAuthError": "auth",
    "MessageOutputLengthError": "max_output_tokens",
}
# Why an answer ended, when that is trouble.
CUT_SHORT = {"length": "max_output_tokens", "content-filter": "refusal"}
KNOWN_ENDS = ("stop", "tool-calls", *CUT_SHORT)
# In a row without one tool call: recorded were 240 broken answers in 27 s, and 23 overflows in 33 s, with no end in
# sight. A flaky server breaks off one answer, hardly three on end.
IN_VAIN = 3


@dataclass
class Stream:
    """Reads one process. Holds what one line alone doesn't tell."""

    _session: str = ""
    _said: str = ""  # the newest words of the model
    _asking: bool = False  # the plugin said that a request is under way
    _plugin: bool = False  # it speaks, so that what it tells isn't told twice
    _final: Resulted | None = None  # a final answer; if more follows, it was the summary of a compaction
    _broken: int = 0  # answers in a row that broke off
    _overflows: int = 0

    def read(self, line: bytes, start: int, end: int) -> tuple[Signal, ...]:
        found, rest = objects(line)
        signals = [signal for event in found for signal in self._event(event, (start, end))]
        if rest or not found:
            signals.append(Unread(start=start, end=end, text=plain(rest)))
        return tuple(signals)

    def _event(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        if event.get("type") == "ralphd":
            return self._tell(event, span)
        told = self._native(event, span)
        # Its own events come a moment after the plugin's, with which the next request may be told already.
        return (*told, Requesting(start=start, end=end)) if self._asking and told else told

    def _native(self, event: Event, span: Span) -> tuple[Signal, ...]:
        part = record(event.get("part"))
        match event.get("type"):
            case "step_start":
                return self._step(event, span)
            case "text":
                return self._text(part, span)
            case "reasoning":
                return () if self._plugin else (Streamed(start=span[0], end=span[1]),)
            case "tool_use":
                return self._used_tool(part, span)
            case "step_finish":
                return (*_used(record(part.get("tokens")), part.get("cost"), span), *self._finish(part, span))
            case "error":
                return self._error(record(event.get("error")), span)
            case _:
                return (Unread(start=span[0], end=span[1]),)

    def _step(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        compacted = self._final is not None and not self._plugin
        self._final = None
        session = text(event.get("sessionID"))[:200]
        begins = Began(start=start, end=end, session=session) if session != self._session else None
        self._session = session
        return (
            *((begins,) if begins else ()),
            *((Compacted(start=start, end=end),) if compacted else ()),
        )

    def _text(self, part: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        if part.get("synthetic") is not True:
            self._said = text(part.get("text"))
            return (Said(start=start, end=end, text=self._said),) if self._said else ()
        if record(part.get("metadata")).get("compaction_continue") is not True:
            return ()
        compacted = self._final is not None and not self._plugin
        self._final = None
        return (Compacted(start=start, end=end),) if compacted else ()

    def _used_tool(self, part: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        self._broken = self._overflows = 0
        state, name = record(part.get("state")), text(part.get("callID"))[:200]
        words = text(state.get("output")) or text(state.get("error"))
        failed = state.get("status") == "error" or whole(record(state.get("metadata")).get("exit")) != 0
        returned = Returned(start=start, end=end, id=name, text=words[:TEXT_CHARS], is_error=failed)
        if self._plugin:
            return (returned,)
        tool = text(part.get("tool"))[:200]
        called = Called(start=start, end=end, id=name, tool=tool, command=_short(record(state.get("input"))))
        return called, returned

    def _finish(self, part: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        reason = text(part.get("reason"))
        if reason not in KNOWN_ENDS:
            return self._broke_off(reason, span)
        self._broken = 0
        if reason == "tool-calls":
            return ()
        if reason in CUT_SHORT:
            what = f"the answer ended early: {reason}"
            return (Failed(start=start, end=end, error=CUT_SHORT[reason], message=what),)
        words = self._said[:RESULT_CHARS]
        done = claims_done(words)
        self._final = Resulted(start=start, end=end, ok=True, text=words, claims_done=done, terminal="stop")
        return (self._final,)

    def _broke_off(self, reason: str, span: Span) -> tuple[Signal, ...]:
        self._broken += 1
        if self._broken < IN_VAIN:
            return ()
        what = f"{self._broken} answers in a row broke off (reason {reason[:40]!r}), and it asks on without a pause"
        return (Failed(start=span[0], end=span[1], error="truncated", message=what, endless=True),)

    def _error(self, error: Event, span: Span) -> tuple[Signal, ...]:
        name, data = text(error.get("name"))[:200], record(error.get("data"))
        overflow = name == "ContextOverflowError"
        self._overflows += overflow
        self._final = None
        headers, message = record(data.get("responseHeaders")), text(data.get("message"))
        # An error within a stream, which had the status 200, is quoted as the message.
        told = _body(data.get("responseBody")) or _body(message)
        words = (NAMES.get(name), told.get("code"), told.get("type"), None if name in NAMES else name)
        return (
            Failed(
                start=span[0],
                end=span[1],
                status=status(data.get("statusCode")),
                error=" ".join(dict.fromkeys(word[:200] for word in words if isinstance(word, str) and word)),
                message=message[:TEXT_CHARS],
                retry_after_s=_wait_s(headers),
                retry_after=next((text(headers[name]) for name in headers if name.lower() == "retry-after"), "")[:200],
                endless=overflow and self._overflows >= IN_VAIN,
            ),
        )

    def _tell(self, event: Event, span: Span) -> tuple[Signal, ...]:
        """Take a line of our plugin, about any session of the process."""
        start, end = span
        self._plugin = True
        match event.get("event"):
            case "status":
                return self._state(event, span)
            case "piece":
                self._asking = True
                return (Streamed(start=start, end=end),)
            case "call":
                self._asking = False
                self._broken = self._overflows = 0
                name, tool = text(event.get("id"))[:200], text(event.get("tool"))[:200]
                words = text(event.get("command"))[:TEXT_CHARS]
                return (Called(start=start, end=end, id=name, tool=tool, command=words),)
            case "compacted" if event.get("session") in ("", self._session):
                self._final = None
                return (Compacted(start=start, end=end),)
            case "model" if not self._session:
                self._session = text(event.get("session"))[:200]
                model = text(event.get("model"))[:200]
                return (Began(start=start, end=end, session=self._session, model=model),)
            case "usage" if self._session and event.get("session") != self._session:
                return _used(record(event.get("tokens")), event.get("cost"), span)
            case _:
                return ()

    def _state(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        state = event.get("state")
        if state == "busy":
            self._asking = True
            return (Requesting(start=start, end=end),)
        if state != "retry":
            late = self._asking and self._final is not None and event.get("session") == self._session
            self._asking = False
            return (self._final,) if late and self._final else ()
        self._asking = True
        wait_s = (real(event.get("wait_ms")) or 0.0) / 1000
        message = text(event.get("message"))
        body = _body(message)  # the error object of an answer, where its message is not all that opencode tells
        return (
            Retrying(
                start=start,
                end=end,
                error=(text(body.get("type")) or text(body.get("message")) or message)[:200],
                attempt=whole(event.get("attempt")),
                delay_s=min(wait_s, LONGEST_WAIT_S),
            ),
        )


def _short(given: Event) -> str:
    """Return the shell command of a call, or the first of its inputs that tells what it is about."""
    for name in ("command", "filePath", "path", "pattern", "url", "query", "description", "prompt"):
        if value := text(given.get(name)):
            return value[:TEXT_CHARS]
    return ""


def _used(tokens: Event, cost: object, span: Span) -> tuple[Used, ...]:
    """Return what was used. Zeros stand for what the server or opencode doesn't know: the tokens, or the price."""
    cache = record(tokens.get("cache"))
    used = Used(
        start=span[0],
        end=span[1],
        tokens_in=whole(tokens.get("input")),
        tokens_out=whole(tokens.get("output")) + whole(tokens.get("reasoning")),
        cache_read=whole(cache.get("read")),
        cache_write=whole(cache.get("write")),
        cost_usd=real(cost) or None,
    )
    return (used,) if used.tokens_in or used.tokens_out or used.cache_read or used.cache_write else ()


def _body(value: object) -> Event:
    """Return the error object of an API's answer, which is quoted as text."""
    found, _ = objects(text(value)[:TEXT_CHARS].encode("utf-8", "replace"))
    return record(found[0].get("error")) or found[0] if found else {}


def _wait_s(headers: Event) -> float | None:
    """Return the seconds of a ``retry-after`` header; a date is read where the time is known."""
    told = {name.lower(): value for name, value in headers.items()}
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = text(told.get(name)).strip()
        if value.isascii() and value.replace(".", "", 1).isdigit():
            return min(float(value) * unit_s, LONGEST_WAIT_S)
    return None
