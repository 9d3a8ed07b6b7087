"""How does an answer look on the wire of the Anthropic Messages API, and how does it break?"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.model_script import Answer, Breakage, Point, Refusal, Request, Usage

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
GARBAGE = 'event: content_block_delta\ndata: {"type": nope}\n\n'
PING = 'event: ping\ndata: {"type": "ping"}\n\n'
LOOK_EVERY_S = 0.2  # how soon a stalled response notices that the client left or the server closes


class Ended(Exception):
    """The script ended this response early."""


def error_body(refusal: Refusal, number: int) -> dict[str, Any]:
    kind = refusal.error or ERROR_TYPES.get(refusal.status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": request_id(number)}


def request_id(number: int) -> str:
    return f"req_scripted{number:06d}"


def message(request: Request, answer: Answer) -> dict[str, Any]:
    """The whole message, as a request without streaming gets it."""
    return {
        "id": f"msg_scripted{request.number:06d}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": blocks(request, answer),
        "stop_reason": answer.stop or ("tool_use" if answer.calls else "end_turn"),
        "stop_sequence": None,
        "usage": usage(answer.usage, answer.usage.tokens_out),
    }


def blocks(request: Request, answer: Answer) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": answer.text}] if answer.text or not answer.calls else []
    tools = [
        {
            "type": "tool_use",
            "id": f"toolu_scripted{request.number:06d}{index:02d}",
            "name": call.name,
            "input": placed(call.arguments, request.directory),
        }
        for index, call in enumerate(answer.calls)
    ]
    return [*text, *tools]


def placed(value: Any, directory: str) -> Any:
    """The value with `{cwd}` replaced in every string."""
    if isinstance(value, str):
        return value.replace("{cwd}", directory)
    if isinstance(value, Mapping):
        return {key: placed(one, directory) for key, one in value.items()}
    return [placed(one, directory) for one in value] if isinstance(value, list) else value


def usage(tokens: Usage, tokens_out: int) -> dict[str, Any]:
    return {
        "input_tokens": tokens.tokens_in,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "output_tokens": tokens_out,
        "service_tier": "standard",
    }


def events(whole: Mapping[str, Any], first_usage: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Point | None]]:
    """The message as stream events, each with the point of the response that it reaches."""
    head = {**whole, "content": [], "stop_reason": None, "usage": first_usage}
    yield {"type": "message_start", "message": head}, "start"
    for index, block in enumerate(whole["content"]):
        yield from _block_events(index, block)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": whole["usage"]["output_tokens"]}}, None
    yield {"type": "message_stop"}, None


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Point | None]]:
    tool = block["type"] == "tool_use"
    whole = json.dumps(block["input"]) if tool else block["text"]
    empty = {**block, "input": {}} if tool else {**block, "text": ""}
    yield {"type": "content_block_start", "index": index, "content_block": empty}, None
    for half, part in enumerate((whole[: len(whole) // 2], whole[len(whole) // 2 :])):
        delta = {"type": "input_json_delta", "partial_json": part} if tool else {"type": "text_delta", "text": part}
        reached: Point | None = "delta" if index == half == 0 else None
        yield {"type": "content_block_delta", "index": index, "delta": delta}, reached
    yield {"type": "content_block_stop", "index": index}, None


class Reply:
    """Writes one response and carries out its breakage when the response reaches the point of it."""

    def __init__(self, handler: BaseHTTPRequestHandler, breakage: Breakage | None, closing: threading.Event) -> None:
        self.handler, self.breakage, self.closing = handler, breakage, closing
        self.streaming = False

    def send_json(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self._head(status, {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})})
        self.handler.wfile.write(data)

    def send_whole(self, request: Request, answer: Answer) -> None:
        """Without streaming every breakage happens before the body."""
        if self.breakage:
            self._break(self.breakage)
        self.send_json(200, message(request, answer), {"request-id": request_id(request.number)})

    def send_stream(self, request: Request, answer: Answer) -> None:
        self._reach("accept")
        self._head(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked",
                         "request-id": request_id(request.number)})  # fmt: skip
        self.streaming = True
        self._reach("headers")
        for event, point in events(message(request, answer), usage(answer.usage, 1)):
            self._chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n")
            if point:
                self._reach(point)
        self._finish()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.handler.send_response(status)
        for name, value in {**headers, "connection": "close"}.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.flush()

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.handler.wfile.flush()

    def _finish(self) -> None:
        if self.streaming:
            self.handler.wfile.write(b"0\r\n\r\n")
            self.handler.wfile.flush()

    def _reach(self, point: Point) -> None:
        if self.breakage and self.breakage.at == point:
            self._break(self.breakage)

    def _break(self, breakage: Breakage) -> None:
        match breakage.how:
            case "stall":
                self._stall(breakage)
                return
            case "malformed" if self.streaming:
                self._chunk(GARBAGE)
                return
            case "error_event" if self.streaming:
                error = {"type": "error", "error": {"type": breakage.error, "message": breakage.message}}
                self._chunk(f"event: error\ndata: {json.dumps(error)}\n\n")
                self._finish()
            case "truncate" if self.streaming:
                self._finish()
            case "reset":
                self._hang_up(linger=True)
            case _:
                self._hang_up(linger=False)
        raise Ended(breakage.how)

    def _stall(self, breakage: Breakage) -> None:
        until = time.monotonic() + breakage.seconds
        next_ping = time.monotonic() + breakage.ping_every_s
        while time.monotonic() < until:
            if self.closing.wait(LOOK_EVERY_S) or self._client_left():
                raise Ended("the client left a stalled response")
            if breakage.ping_every_s and self.streaming and time.monotonic() >= next_ping:
                self._chunk(PING)
                next_ping += breakage.ping_every_s

    def _client_left(self) -> bool:
        connection = self.handler.connection
        try:
            return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _hang_up(self, *, linger: bool) -> None:
        """Closes the connection: with a reset (a zero linger time) or an ordinary end."""
        connection = self.handler.connection
        with contextlib.suppress(OSError):  # the client was quicker
            if linger:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                connection.shutdown(socket.SHUT_RDWR)
        connection.close()
