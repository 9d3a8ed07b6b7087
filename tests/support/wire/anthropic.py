"""How does the scripted model speak the Anthropic Messages API (Claude Code)?

The session is in `metadata.user_id`: JSON text with a `session_id` (older versions: `user_..._session_UUID`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from support.model_script import Answer, Breakage, Point, Refusal, Request, Usage
from support.wire.heard import Heard, halves, message, names, text_of

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
GARBAGE = 'event: content_block_delta\ndata: {"type": nope}\n\n'
PING = 'event: ping\ndata: {"type": "ping"}\n\n'
SESSION = re.compile(r"session_(?:id\W+)?([0-9a-f-]{36})")


def speaks(path: str) -> bool:
    return path.endswith("/messages")


def hear(path: str, body: Mapping[str, Any]) -> Heard:
    told = SESSION.search(str((body.get("metadata") or {}).get("user_id", "")))
    return Heard(
        messages=tuple(message(_role(one), one.get("content")) for one in body.get("messages") or []),
        system=text_of(body.get("system")),
        session_id=told[1] if told else "",
        stream=bool(body.get("stream")),
        model=str(body.get("model", "scripted")),
        tools=names(body.get("tools")),
    )


def _role(one: Mapping[str, Any]) -> str:
    return "model" if one.get("role") == "assistant" else str(one.get("role"))


def refused(refusal: Refusal, number: int) -> dict[str, Any]:
    kind = refusal.error or ERROR_TYPES.get(refusal.status, "api_error")
    words = refusal.message or (TOO_LONG if refusal.too_long else "scripted error")
    return {"type": "error", "error": {"type": kind, "message": words}, "request_id": request_id(number)}


def error_event(breakage: Breakage) -> str:
    error = {"type": "error", "error": {"type": breakage.error, "message": breakage.message}}
    return f"event: error\ndata: {json.dumps(error)}\n\n"


def request_id(number: int) -> str:
    return f"req_scripted{number:06d}"


def whole(request: Request, answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_scripted{request.number:06d}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": _blocks(request, answer),
        "stop_reason": answer.stop or ("tool_use" if answer.calls else "end_turn"),
        "stop_sequence": None,
        "usage": _usage(answer.usage, answer.usage.tokens_out),
    }


def stream(request: Request, answer: Answer) -> Iterator[tuple[str, Point | None]]:
    for event, point in _events(whole(request, answer), _usage(answer.usage, 1)):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n", point


def _blocks(request: Request, answer: Answer) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": answer.text}] if answer.text or not answer.calls else []
    tools = [
        {"type": "tool_use", "id": f"toolu_scripted{request.number:06d}{index:02d}", "name": call.name,
         "input": call.arguments}
        for index, call in enumerate(answer.calls)
    ]  # fmt: skip
    return [*text, *tools]


def _usage(tokens: Usage, tokens_out: int) -> dict[str, Any]:
    return {
        "input_tokens": tokens.tokens_in,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "output_tokens": tokens_out,
        "service_tier": "standard",
    }


def _events(
    message: Mapping[str, Any], first_usage: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], Point | None]]:
    """The message as stream events, each with the point of the response that it reaches."""
    head = {**message, "content": [], "stop_reason": None, "usage": first_usage}
    yield {"type": "message_start", "message": head}, "start"
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": message["usage"]["output_tokens"]}}, None
    yield {"type": "message_stop"}, None


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Point | None]]:
    tool = block["type"] == "tool_use"
    empty = {**block, "input": {}} if tool else {**block, "text": ""}
    yield {"type": "content_block_start", "index": index, "content_block": empty}, None
    for half, part in enumerate(halves(json.dumps(block["input"]) if tool else block["text"])):
        delta = {"type": "input_json_delta", "partial_json": part} if tool else {"type": "text_delta", "text": part}
        reached: Point | None = "delta" if index == half == 0 else None
        yield {"type": "content_block_delta", "index": index, "delta": delta}, reached
    yield {"type": "content_block_stop", "index": index}, None
