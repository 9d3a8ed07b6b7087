"""How does the scripted model speak Gemini's generateContent and streamGenerateContent (gemini)?

The model and whether to stream stand in the path; a conversation has no id, it is known by its directory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from support.model_script import Answer, Breakage, Point, Refusal, Request, Usage
from support.wire.heard import Heard, Message, halves, message, names, text_of

STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
TOO_LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
GARBAGE = 'data: {"candidates": nope}\n\n'
PING = ": keep-alive\n\n"


def speaks(path: str) -> bool:
    return path.endswith((":generateContent", ":streamGenerateContent"))


def hear(path: str, body: Mapping[str, Any]) -> Heard:
    model, _, method = path.rpartition("/")[2].partition(":")
    return Heard(
        messages=tuple(map(_message, body.get("contents") or [])),
        system=text_of(body.get("systemInstruction")),
        stream=method.startswith("stream"),
        model=model,
        tools=names(one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])),
    )


def _message(one: Mapping[str, Any]) -> Message:
    return message("model" if one.get("role") == "model" else "user", one.get("parts"))


def refused(refusal: Refusal, number: int) -> dict[str, Any]:
    words = refusal.message or (TOO_LONG if refusal.too_long else "scripted error")
    status = refusal.error or STATUS.get(refusal.status, "UNKNOWN")
    details = [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds}s"}
        for name, seconds in refusal.headers.items()
        if name == "retry-after"
    ]
    return {"error": {"code": refusal.status, "message": words, "status": status, "details": details}}


def error_event(breakage: Breakage) -> str:
    return _line({"error": {"code": 503, "message": breakage.message, "status": "UNAVAILABLE"}})


def whole(request: Request, answer: Answer) -> dict[str, Any]:
    text = [{"text": answer.text}] if answer.text or not answer.calls else []
    return _chunk(request, answer, [*text, *_calls(answer)], end=True)


def stream(request: Request, answer: Answer) -> Iterator[tuple[str, Point | None]]:
    """There is no event before the first piece: `start` and `delta` both are behind it."""
    pieces = [[{"text": part}] for part in halves(answer.text)] if answer.text or not answer.calls else []
    pieces += [_calls(answer)] if answer.calls else []
    for index, parts in enumerate(pieces):
        yield _line(_chunk(request, answer, parts, end=index == len(pieces) - 1)), "delta" if index == 0 else None
        if index == 0:
            yield "", "start"


def _chunk(request: Request, answer: Answer, parts: Sequence[Mapping[str, Any]], *, end: bool) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    return {
        "candidates": [{**candidate, **({"finishReason": answer.stop or "STOP"} if end else {})}],
        "usageMetadata": _usage(answer.usage),
        "modelVersion": request.model,
        "responseId": f"scripted{request.number}",
    }


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": call.name, "args": call.arguments}} for call in answer.calls]


def _usage(tokens: Usage) -> dict[str, Any]:
    tokens_in = tokens.tokens_in + tokens.cache_read + tokens.cache_write
    return {
        "promptTokenCount": tokens_in,
        "candidatesTokenCount": tokens.tokens_out,
        "cachedContentTokenCount": tokens.cache_read,
        "totalTokenCount": tokens_in + tokens.tokens_out,
    }


def _line(event: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(event)}\n\n"
