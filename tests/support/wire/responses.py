"""How does the scripted model speak OpenAI's Responses API (codex)?

The session is `prompt_cache_key`, the thread's id; the directory stands in `<environment_context>`.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from support.model_script import Answer, Breakage, Point, Request, Usage
from support.wire.heard import Heard, Message, message, names
from support.wire.openai import PING, refused

GARBAGE = 'event: response.output_text.delta\ndata: {"type": nope}\n\n'
MODEL_ITEMS = ("function_call", "custom_tool_call", "local_shell_call")
RESULT_ITEMS = ("function_call_output", "custom_tool_call_output")

Reached = tuple[dict[str, Any], Point | None]

__all__ = ["GARBAGE", "PING", "error_event", "hear", "refused", "speaks", "stream", "whole"]


def speaks(path: str) -> bool:
    return path.endswith("/responses")


def hear(path: str, body: Mapping[str, Any]) -> Heard:
    return Heard(
        messages=tuple(filter(None, map(_message, body.get("input") or []))),
        system=str(body.get("instructions") or ""),
        session_id=str(body.get("prompt_cache_key") or ""),
        stream=bool(body.get("stream")),
        model=str(body.get("model", "scripted")),
        tools=names(body.get("tools")),
    )


def _message(item: Mapping[str, Any]) -> Message | None:
    """One item of the input; reasoning and the like is nobody's message."""
    kind = item.get("type", "message")
    if kind in MODEL_ITEMS:
        return message("model", item.get("name"))
    if kind in RESULT_ITEMS:
        return message("tool", item.get("output"))
    role = {"assistant": "model", "developer": "system"}.get(str(item.get("role")), "user")
    return message(role, item.get("content")) if kind == "message" else None


def error_event(breakage: Breakage) -> str:
    error = {"code": "server_is_overloaded", "message": breakage.message}
    response = {"id": "resp_scripted", "object": "response", "status": "failed", "output": [], "error": error}
    return _line({"type": "response.failed", "sequence_number": 9, "response": response})


def whole(request: Request, answer: Answer) -> dict[str, Any]:
    return {
        "id": f"resp_scripted{request.number}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": request.model,
        "output": _items(request, answer),
        "error": None,
        "incomplete_details": None,
        "usage": _usage(answer.usage),
    }


def stream(request: Request, answer: Answer) -> Iterator[tuple[str, Point | None]]:
    numbers = itertools.count()
    for event, point in _events(whole(request, answer)):
        yield _line({**event, "sequence_number": next(numbers)}), point


def _line(event: Mapping[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _items(request: Request, answer: Answer) -> list[dict[str, Any]]:
    text = {"type": "output_text", "text": answer.text, "annotations": []}
    said = {"type": "message", "id": f"msg_scripted{request.number}", "role": "assistant", "status": "completed",
            "content": [text]}  # fmt: skip
    calls = [
        {"type": "function_call", "id": f"fc_scripted{request.number}_{index}", "name": call.name,
         "call_id": f"call_scripted{request.number}_{index}", "arguments": json.dumps(call.arguments),
         "status": "completed"}
        for index, call in enumerate(answer.calls)
    ]  # fmt: skip
    return [*([said] if answer.text or not calls else []), *calls]


def _usage(tokens: Usage) -> dict[str, Any]:
    tokens_in = tokens.tokens_in + tokens.cache_read + tokens.cache_write
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens_in + tokens.tokens_out,
    }


def _events(done: Mapping[str, Any]) -> Iterator[Reached]:
    begun = {**done, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}, "start"
    for index, item in enumerate(done["output"]):
        pieces = _text_events if item["type"] == "message" else _call_events
        for event, point in pieces(item):
            yield {**event, "output_index": index}, point if index == 0 else None
        yield {"type": "response.output_item.done", "output_index": index, "item": item}, None
    yield {"type": "response.completed", "response": done}, None


def _text_events(item: Mapping[str, Any]) -> Iterator[Reached]:
    part = item["content"][0]
    place = {"item_id": item["id"], "content_index": 0}
    yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress", "content": []}}, None
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}, None
    yield {"type": "response.output_text.delta", **place, "delta": part["text"]}, "delta"
    yield {"type": "response.output_text.done", **place, "text": part["text"]}, None
    yield {"type": "response.content_part.done", **place, "part": part}, None


def _call_events(item: Mapping[str, Any]) -> Iterator[Reached]:
    place = {"item_id": item["id"]}
    yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress", "arguments": ""}}, None
    yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}, "delta"
    yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}, None
