"""An endpoint of the Messages API on loopback that says exactly what a test wants, and keeps every request whole."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request as it came over the wire."""

    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.raw))

    @property
    def is_probe(self) -> bool:
        return "tools" not in self.body

    @property
    def everything(self) -> str:
        """All of it as text: whatever is in here has left the machine."""
        return f"{self.path}\n{dict(self.headers)}\n{self.raw.decode(errors='replace')}\n{json.dumps(self.body, ensure_ascii=False)}"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """``body`` in pieces, each after ``pause_s``."""

    status: int = 200
    body: Sequence[bytes] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    pause_s: float = 0.0


def message(name: str = "carry_on", given: object = None, **more: object) -> dict[str, Any]:
    """A whole answer that calls one tool."""
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": given}
    usage = {"input_tokens": 900, "output_tokens": 60, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 0}
    told = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [call]}
    return {**told, "stop_reason": "tool_use", "stop_sequence": None, "usage": usage, **more}


def said(value: object) -> Reply:
    return Reply(body=(json.dumps(value).encode(),))


class Endpoint(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Callable[[Received], Reply], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.answer, self.received = answer, list[Received]()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def questions(self) -> list[Received]:
        return [one for one in self.received if not one.is_probe]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the class above
        """Silent."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        got = Received(path=self.path, headers=dict(self.headers.items()), raw=raw)
        self.server.received.append(got)
        reply = self.server.answer(got)
        self.send_response(reply.status)
        for name, value in {"content-type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        for piece in reply.body:
            if self.server.closing.wait(reply.pause_s):
                break
            self.wfile.write(piece)
            self.wfile.flush()
        self.close_connection = True


@contextlib.contextmanager
def serving(answer: Callable[[Received], Reply], port: int = 0) -> Iterator[Endpoint]:
    with Endpoint(answer, port) as endpoint:
        thread = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            endpoint.closing.set()
            endpoint.shutdown()
            thread.join()


def free_port() -> int:
    """A port on which nobody listens, for now."""
    with Endpoint(lambda _: Reply()) as server:
        return int(server.server_address[1])


def wait_until(ask: Callable[[], object], deadline_s: float = 60.0) -> None:
    end = time.monotonic() + deadline_s
    while not ask():
        assert time.monotonic() < end, "never"
        time.sleep(0.02)
