"""Who asks the scripted model, in which session and turn, and what was each asker told?

A night is many sessions of several loops on one server, so nothing is handed out from a queue: the answer depends on
the conversation (`conversations.py`), and is told in the protocol of the question (`wire/`).

Run it as a program: `python tests/support/model_server.py --scenario FILE --port-file FILE --log FILE`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TextIO

if not __package__:  # run as a program: the folder above holds the `support` package
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.conversations import Conversations, understand
from support.model_script import SIDE, SUMMARY, Answer, Breakage, Refusal, Request, Script, from_json
from support.wire import anthropic, chat, gemini, responses
from support.wire.hands import handed
from support.wire.heard import Heard
from support.wire.reply import Dialect, Ended, Reply, request_id

DIALECTS: tuple[Dialect, ...] = (anthropic, responses, chat, gemini)
KEPT_REQUESTS = 2000  # about 40 KB of text each with Claude Code: a night of this size stays under 100 MB


class ModelServer(ThreadingHTTPServer):
    """The scripted model on a loopback port; `serving()` runs it in a thread."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, script: Script, *, port: int = 0, log: TextIO | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script, self.log = script, log
        self.closing = threading.Event()
        self.requests: collections.deque[Request] = collections.deque(maxlen=KEPT_REQUESTS)
        self.strangers: collections.deque[str] = collections.deque(maxlen=KEPT_REQUESTS)
        self._conversations, self._lock, self._asked, self._began = (
            Conversations(),
            threading.Lock(),
            0,
            time.monotonic(),
        )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def contains(self, text: str, *, after: int = 0) -> bool:
        """Whether a request later than number `after` brought this text (a tool's result, a prompt)."""
        return any(text in request.news for request in self.seen() if request.number > after)

    def seen(self) -> tuple[Request, ...]:
        with self._lock:
            return tuple(self.requests)

    def receive(self, path: str, heard: Heard) -> Request:
        with self._lock:
            self._asked += 1
            request = self._conversations.place(understand(self._asked, path, heard), heard.answers)
            self.requests.append(request)
            return request

    def answer(self, request: Request) -> Answer:
        answer = self._choose(request)
        with self._lock:
            self._conversations.answered(request, answer)
        return answer

    def _choose(self, request: Request) -> Answer:
        match request.kind:
            case "main":
                return self.script.answer(request)
            case "compact":
                return SUMMARY
            case "side":
                return SIDE

    def note(self, **facts: object) -> None:
        if self.log:
            line = json.dumps({"at_s": round(time.monotonic() - self._began, 3), **facts})
            with self._lock:
                self.log.write(line + "\n")
                self.log.flush()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is daily business; anything else is a fault of the server."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the class above
        """Silent: the server keeps its own log."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        reply = Reply(self, self.server.closing, anthropic)
        if self._path().endswith("/models"):
            model = {
                "id": "scripted",
                "object": "model",
                "type": "model",
                "display_name": "scripted",
                "created_at": "2026-01-01T00:00:00Z",
            }
            listed = {"object": "list", "data": [model], "has_more": False, "first_id": "scripted"}
            reply.send_json(200, {**listed, "last_id": "scripted"})
        else:
            self._unknown(reply)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self._path()
        dialect = next((one for one in DIALECTS if one.speaks(path)), None)
        reply = Reply(self, self.server.closing, dialect or anthropic)
        if path.endswith(("/count_tokens", ":countTokens")):
            tokens = max(1, len(raw) // 4)
            reply.send_json(200, {"input_tokens": tokens, "totalTokens": tokens})
        elif dialect:
            self._ask(dialect, reply, raw)
        else:
            self._unknown(reply)

    def _ask(self, dialect: Dialect, reply: Reply, raw: bytes) -> None:
        try:
            heard = dialect.hear(self._path(), json.loads(raw))
        except ValueError as why:
            reply.send_json(400, dialect.refused(Refusal(status=400, message=f"not JSON: {why}"), 0))
        else:
            self._answer(dialect, self.server.receive(self.path, heard))

    def _answer(self, dialect: Dialect, request: Request) -> None:
        answer = handed(self.server.answer(request), request.tools, request.directory)
        self.server.note(**_facts(request, answer))
        fault = answer.fault
        reply = Reply(self, self.server.closing, dialect, fault if isinstance(fault, Breakage) else None)
        try:
            if isinstance(fault, Refusal):
                headers = {**request_id(request), **fault.headers}
                reply.send_json(fault.status, dialect.refused(fault, request.number), headers)
            elif request.stream:
                reply.send_stream(request, answer)
            else:
                reply.send_whole(request, answer)
        except (Ended, ConnectionError) as why:
            self.close_connection = True
            self.server.note(number=request.number, ended=str(why))

    def _unknown(self, reply: Reply) -> None:
        self.server.strangers.append(f"{self.command} {self.path}")
        refusal = Refusal(status=404, message=f"no such path {self.path}")
        reply.send_json(404, reply.dialect.refused(refusal, 0))

    def _path(self) -> str:
        return self.path.partition("?")[0]


def _facts(request: Request, answer: Answer) -> dict[str, object]:
    told = {
        name: getattr(request, name)
        for name in ("number", "kind", "directory", "session_id", "session", "turn", "attempt")
    }
    fault = answer.fault
    what = f"{fault.status}" if isinstance(fault, Refusal) else f"{fault.how} at {fault.at}" if fault else None
    return {**told, "stream": request.stream, "fault": what, "calls": [call.name for call in answer.calls]}


@contextlib.contextmanager
def serving(script: Script, *, log: TextIO | None = None) -> Iterator[ModelServer]:
    """The server, answering in a thread until the block ends."""
    with ModelServer(script, log=log) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="model server")
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A scripted model on loopback; speaks the protocols of four model makers."
    )
    parser.add_argument("--scenario", required=True, help="a JSON file; see from_json in model_script.py")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", help="write the port here once listening")
    parser.add_argument("--log", help="append one JSON line for each request")
    options = parser.parse_args()
    with open(options.scenario, encoding="utf-8") as file:
        script = from_json(file.read())
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(options.log, "a", encoding="utf-8")) if options.log else None
        server = stack.enter_context(ModelServer(script, port=options.port, log=log))
        if options.port_file:
            publish_port(options.port_file, server.server_address[1])
        print(server.base_url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.05)


def publish_port(path: str, port: int) -> None:
    """Whole or not at all: a reader never sees half a number."""
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(str(port))
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main()
