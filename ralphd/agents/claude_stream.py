"""What Claude Code's stream-json says.

Not what it seems: an API failure ends with ``"subtype":"success","is_error":true``; 2.1.197 even calls its
terminal_reason ``completed``. A result is not the end, there may be several. The words of a tool result, of the model
or of a sub-agent are never a failure of this run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ralphd.agents.jsonl import (
    RESULT_CHARS,
    TEXT_CHARS,
    error_object,
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

SYNTHETIC = "<synthetic>"  # the CLI's own words in the model's place
# Of an answer that is still coming. A ping only says that the connection lives; the ends of blocks and messages come
# after the call they hold, which may take its time.
PIECES = ("message_start", "content_block_start", "content_block_delta")
MILLISECONDS_FROM = 1e11  # as seconds that is the year 5138
HTTP_LIMITED = 429
COMPACTION_S = 600.0  # a summary of 20 000 tokens, of which the stream shows nothing
COUNTED_MESSAGES = 64  # ids whose usage is known; the lines of one message follow closely


@dataclass
class Stream:
    """Reads one process. Holds what one line alone doesn't tell."""

    _trouble: Failed | None = None  # the newest synthetic message that told of an error
    _answered: bool = False  # since then: another answer makes it old
    _resets_at: float | None = None  # of the limit that was hit
    _counted: dict[str, None] = field(default_factory=dict)
    _spent: Used = field(default_factory=lambda: Used(total=True))
    _cost_told_usd: float = 0.0

    def read(self, line: bytes, start: int, end: int) -> tuple[Signal, ...]:
        found, rest = objects(line)
        signals = [signal for event in found for signal in self._event(event, (start, end))]
        if rest or not found:
            signals.append(Unread(start=start, end=end, text=plain(rest)))
        return tuple(signals)

    def _event(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        match event.get("type"):
            case "system":
                return _system(event, span, self._resets_at)
            case "stream_event":
                return self._piece(event, span)
            case "assistant":
                return self._assistant(event, span)
            case "user":
                return _returned(event, span)
            case "result":
                return self._result(event, span)
            case "rate_limit_event":
                return self._limit(event)
            case _:
                return (error_object(event, start, end) or Unread(start=start, end=end),)

    def _piece(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        piece = record(event.get("event"))
        if piece.get("type") == "message_delta" and (out := whole(record(piece.get("usage")).get("output_tokens"))):
            return (Used(start=start, end=end, tokens_out=out),)
        if piece.get("type") not in PIECES:
            return ()
        self._answered = True
        used = self._use(record(piece.get("message")), span, output=False)
        return (Streamed(start=start, end=end), *used)

    def _assistant(self, event: Event, span: Span) -> tuple[Signal, ...]:
        message = record(event.get("message"))
        own_words = message.get("model") == SYNTHETIC or event.get("is_api_error_message") is True
        if own_words or text(event.get("error")):  # a field beside the message, where no model can write
            return self._synthetic(event, message, span)
        self._answered = True
        blocks = [signal for block in records(message.get("content")) for signal in _block(block, span)]
        return (*self._use(message, span, output=True), *blocks)

    def _synthetic(self, event: Event, message: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        words = _text(message.get("content"))
        if event.get("parent_tool_use_id"):
            return ()  # a sub-agent's trouble: this run reads of it as a tool result
        if not event.get("error") and event.get("is_api_error_message") is not True:
            return (Said(start=start, end=end, text=words),) if words else ()
        self._trouble = Failed(
            start=start,
            end=end,
            status=status(event.get("api_error_status")),
            error=_names(event.get("api_error"), event.get("error"), event.get("api_error_type")),
            message=words[:TEXT_CHARS],
            resets_at=self._resets_at,
        )
        self._answered = False
        return (self._trouble,)

    def _result(self, event: Event, span: Span) -> tuple[Signal, ...]:
        start, end = span
        ok = event.get("is_error") is False
        words = text(event.get("result")) or "\n".join(_strings(event.get("errors")))
        result = Resulted(
            start=start,
            end=end,
            ok=ok,
            text=words[:RESULT_CHARS],
            claims_done=ok and claims_done(words),
            terminal=text(event.get("terminal_reason")) or text(event.get("subtype")),
        )
        failed = () if ok else self._failure(event, words, span)
        self._trouble = None
        return (self._total(event, span), *failed, result)

    def _failure(self, event: Event, words: str, span: Span) -> tuple[Failed, ...]:
        """Put together what the synthetic message and the result tell of one failure, if that is more than was said."""
        trouble = self._trouble or Failed()
        whole_story = self._story(event, words, trouble, span)
        told = (trouble.status, trouble.error, trouble.message)
        news = self._answered or told != (whole_story.status, whole_story.error, whole_story.message)
        return (whole_story,) if news or self._trouble is None else ()

    def _story(self, event: Event, words: str, trouble: Failed, span: Span) -> Failed:
        terminal = event.get("terminal_reason")
        return Failed(
            start=trouble.start if self._trouble else span[0],
            end=span[1],
            status=status(event.get("api_error_status")) or trouble.status,
            error=_names(
                *trouble.error.split(),
                None if terminal in ("completed", "api_error") else terminal,
                event.get("api_error_type"),
                event.get("stop_reason") if event.get("stop_reason") == "refusal" else None,
                None if event.get("subtype") == "success" else event.get("subtype"),
            ),
            message=(trouble.message or words)[:TEXT_CHARS],
            resets_at=self._resets_at,
        )

    def _limit(self, event: Event) -> tuple[Signal, ...]:
        """Keep the reset time of a limit that was hit. A mere warning is no limit."""
        told = record(event.get("rate_limit_info"))
        resets_at = real(told.get("resetsAt")) if told.get("status") == "rejected" else None
        self._resets_at = resets_at / 1000 if resets_at and resets_at > MILLISECONDS_FROM else resets_at
        return ()

    def _use(self, message: Event, span: Span, *, output: bool) -> tuple[Used, ...]:
        """Count a message's usage once: it comes with its start and again with each of its blocks."""
        name, usage = text(message.get("id")), record(message.get("usage"))
        if not usage or name in self._counted:
            return ()
        self._counted[name] = None
        if len(self._counted) > COUNTED_MESSAGES:
            del self._counted[next(iter(self._counted))]
        return (_used(usage, span, output=output),)

    def _total(self, event: Event, span: Span) -> Used:
        """Add what was used since the last result to this process's total.

        ``modelUsage`` and ``total_cost_usd`` also count what a resumed session used before; ``usage`` leaves out
        sub-agents and compactions, and is all that 2.1.197 tells of one run.
        """
        since = record(event.get("model_usage_since_last_result"))
        parts = [_model_used(record(model), span) for model in since.values()]
        if "model_usage_since_last_result" not in event:
            parts = [_used(record(event.get("usage")), span, output=True, cost_usd=self._cost_since(event))]
        for part in parts:
            self._spent = _sum(self._spent, part)
        return self._spent

    def _cost_since(self, event: Event) -> float | None:
        told = real(event.get("total_cost_usd"))
        if told is None:
            return None
        before, self._cost_told_usd = self._cost_told_usd, told
        return max(0.0, told - before)


def _system(event: Event, span: Span, resets_at: float | None) -> tuple[Signal, ...]:
    start, end = span
    match event.get("subtype"):
        case "init":
            return (
                Began(
                    start=start,
                    end=end,
                    session=text(event.get("session_id"))[:200],
                    model=text(event.get("model"))[:200],
                    version=text(event.get("claude_code_version"))[:200],
                ),
            )
        case "status" if event.get("status") == "requesting":
            return (Requesting(start=start, end=end),)
        case "status" if event.get("status") == "compacting":
            return (Retrying(start=start, end=end, error="compacting", delay_s=COMPACTION_S),)
        case "api_retry":
            return (_retrying(event, span, resets_at),)
        case "compact_boundary":
            told = record(event.get("compact_metadata"))
            before, after = real(told.get("pre_tokens")), real(told.get("post_tokens"))
            return (
                Compacted(
                    start=start,
                    end=end,
                    tokens_before=None if before is None else int(before),
                    tokens_after=None if after is None else int(after),
                ),
            )
        case _:
            return ()


def _retrying(event: Event, span: Span, resets_at: float | None) -> Retrying:
    """Take a wait of its own. With a subscription the limit's reset comes just before, without the client's jitter."""
    told = status(event.get("error_status"))
    return Retrying(
        start=span[0],
        end=span[1],
        status=told,
        error=text(event.get("error"))[:200],
        attempt=whole(event.get("attempt")),
        delay_s=(real(event.get("retry_delay_ms")) or 0.0) / 1000,
        resets_at=resets_at if told == HTTP_LIMITED else None,
    )


def _block(block: Event, span: Span) -> tuple[Signal, ...]:
    start, end = span
    match block.get("type"):
        case "text" if words := text(block.get("text")):
            return (Said(start=start, end=end, text=words),)
        case "tool_use":
            name = text(block.get("id"))[:200]
            return (Called(start=start, end=end, id=name, tool=text(block.get("name"))[:200], command=_short(block)),)
        case "thinking" | "redacted_thinking":
            return (Streamed(start=start, end=end),)
        case _:
            return ()


def _short(block: Event) -> str:
    """Return the shell command of a call, or the first of its inputs that tells what it is about."""
    given = record(block.get("input"))
    for name in ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt"):
        if value := text(given.get(name)):
            return value[:TEXT_CHARS]
    return ""


def _returned(event: Event, span: Span) -> tuple[Signal, ...]:
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
    """Return the text of a message's content, which may be plain or in blocks."""
    return text(content) or "\n".join(text(block.get("text")) for block in records(content) if block.get("text"))


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _names(*names: object) -> str:
    """Join the CLI's own names of a trouble, the most telling first."""
    told = {name[:200]: None for name in names if isinstance(name, str) and name not in ("", "unknown")}
    return " ".join(told)


def _used(usage: Event, span: Span, *, output: bool, cost_usd: float | None = None) -> Used:
    return Used(
        start=span[0],
        end=span[1],
        tokens_in=whole(usage.get("input_tokens")),
        tokens_out=whole(usage.get("output_tokens")) if output else 0,
        cache_read=whole(usage.get("cache_read_input_tokens")),
        cache_write=whole(usage.get("cache_creation_input_tokens")),
        cost_usd=cost_usd,
    )


def _model_used(usage: Event, span: Span) -> Used:
    return Used(
        start=span[0],
        end=span[1],
        tokens_in=whole(usage.get("inputTokens")),
        tokens_out=whole(usage.get("outputTokens")),
        cache_read=whole(usage.get("cacheReadInputTokens")),
        cache_write=whole(usage.get("cacheCreationInputTokens")),
        cost_usd=real(usage.get("costUSD")),
    )


def _sum(total: Used, part: Used) -> Used:
    cost_usd = total.cost_usd if part.cost_usd is None else (total.cost_usd or 0.0) + part.cost_usd
    return Used(
        start=part.start,
        end=part.end,
        tokens_in=(total.tokens_in or 0) + (part.tokens_in or 0),
        tokens_out=(total.tokens_out or 0) + (part.tokens_out or 0),
        cache_read=(total.cache_read or 0) + (part.cache_read or 0),
        cache_write=(total.cache_write or 0) + (part.cache_write or 0),
        cost_usd=cost_usd,
        total=True,
    )
