"""How does the scripted model speak OpenAI's Chat Completions API (opencode, pi, qwen; without streaming mini)?

A conversation has no id here; it is known by its directory, or by the branch in the prompt.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from support.model_script import Answer, Breakage, Point, Request, Usage
from support.wire.heard import Heard, Message, halves, message, names
from support.wire.openai import PING, refused

GARBAGE = 'data: {"choices": nope}\n\n'
ROLES = {"assistant": "model", "developer": "system"}
GREETING = "Got it. Thanks for the context!"  # qwen puts it into the model's mouth before the prompt

__all__ = ["GARBAGE", "PING", "error_event", "hear", "refused", "speaks", "stream", "whole"]


def speaks(path: str) -> bool:
    return path.endswith("/chat/completions")


def hear(path: str, body: Mapping[str, Any]) -> Heard:
    return Heard(
        messages=tuple(_message(one) for one in body.get("messages") or [] if one.get("content") != GREETING),
        stream=bool(body.get("stream")),
        model=str(body.get("model", "scripted")),
        tools=names(tool.get("function") or {} for tool in body.get("tools") or []),
    )


def _message(one: Mapping[str, Any]) -> Message:
    role = str(one.get("role"))
    return message(ROLES.get(role, role), one.get("content"))


def error_event(breakage: Breakage) -> str:
    return _line({"error": {"message": breakage.message, "type": "server_error", "code": breakage.error}})


def whole(request: Request, answer: Answer) -> dict[str, Any]:
    calls = _calls(request, answer)
    said = {"role": "assistant", "content": answer.text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": said, "finish_reason": _finish(answer)}
    return {**_head(request), "object": "chat.completion", "usage": _usage(answer.usage), "choices": [choice]}


def stream(request: Request, answer: Answer) -> Iterator[tuple[str, Point | None]]:
    head = {**_head(request), "object": "chat.completion.chunk"}
    for delta, point in _deltas(request, answer):
        yield _line({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}), point
    yield _line({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(answer)}]}), None
    yield _line({**head, "choices": [], "usage": _usage(answer.usage)}), None
    yield "data: [DONE]\n\n", None


def _deltas(request: Request, answer: Answer) -> Iterator[tuple[dict[str, Any], Point | None]]:
    yield {"role": "assistant", "content": ""}, "start"
    reached: Point | None = "delta"
    for part in halves(answer.text) if answer.text or not answer.calls else ():
        yield {"content": part}, reached
        reached = None
    for index, call in enumerate(_calls(request, answer)):
        yield {"tool_calls": [{"index": index, **call}]}, reached
        reached = None


def _calls(request: Request, answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": f"call_scripted{request.number}_{index}", "type": "function",
         "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for index, call in enumerate(answer.calls)
    ]  # fmt: skip


def _finish(answer: Answer) -> str:
    return answer.stop or ("tool_calls" if answer.calls else "stop")


def _head(request: Request) -> dict[str, Any]:
    return {"id": f"chatcmpl-scripted{request.number}", "created": int(time.time()), "model": request.model}


def _usage(tokens: Usage) -> dict[str, Any]:
    tokens_in = tokens.tokens_in + tokens.cache_read + tokens.cache_write
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens.tokens_out,
        "total_tokens": tokens_in + tokens.tokens_out,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
    }


def _line(event: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(event)}\n\n"
