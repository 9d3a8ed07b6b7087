"""How does one response go over the wire, in whatever protocol, and how does it break?"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from support.model_script import Answer, Breakage, Point, Refusal, Request
from support.wire.heard import Heard

LOOK_EVERY_S = 0.2  # how soon a stalled response notices that the client left or the server closes


class Dialect(Protocol):
    """A module of this folder: one protocol, pure."""

    PING: str
    GARBAGE: str

    def speaks(self, path: str) -> bool: ...
    def hear(self, path: str, body: Mapping[str, Any]) -> Heard: ...
    def refused(self, refusal: Refusal, number: int) -> dict[str, Any]: ...
    def error_event(self, breakage: Breakage) -> str: ...
    def whole(self, request: Request, answer: Answer) -> dict[str, Any]:
        """The answer as a request without streaming gets it."""

    def stream(self, request: Request, answer: Answer) -> Iterator[tuple[str, Point | None]]:
        """The pieces of a stream, each with the point of the response that it reaches."""


class Ended(Exception):
    """The script ended this response early."""


def request_id(request: Request) -> dict[str, str]:
    return {"request-id": f"req_scripted{request.number:06d}"}


class Reply:
    """Writes one response and carries out its breakage when the response reaches the point of it."""

    def __init__(
        self,
        handler: BaseHTTPRequestHandler,
        closing: threading.Event,
        dialect: Dialect,
        breakage: Breakage | None = None,
    ) -> None:
        self.handler, self.closing, self.dialect, self.breakage = handler, closing, dialect, breakage
        self.streaming = False

    def send_json(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self._head(status, {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})})
        self.handler.wfile.write(data)

    def send_whole(self, request: Request, answer: Answer) -> None:
        """Without streaming every breakage happens before the body."""
        if self.breakage:
            self._break(self.breakage)
        self.send_json(200, self.dialect.whole(request, answer), request_id(request))

    def send_stream(self, request: Request, answer: Answer) -> None:
        self._reach("accept")
        self._head(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked",
                         **request_id(request)})  # fmt: skip
        self.streaming = True
        self._reach("headers")
        for piece, point in self.dialect.stream(request, answer):
            self._chunk(piece)
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
        if not data:
            return  # an empty chunk would end the body
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
                self._chunk(self.dialect.GARBAGE)
                return
            case "error_event" if self.streaming:
                self._chunk(self.dialect.error_event(breakage))
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
                self._chunk(self.dialect.PING)
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
