"""A place that takes notifications over HTTP on loopback, keeps them, and can be slow or refuse."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Hook:
    """``told``: every JSON that came. ``status`` is what it answers; until ``speaks`` is set it answers nothing."""

    url: str = ""
    told: list[dict] = field(default_factory=list)
    status: int = 200
    speaks: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def hook() -> Iterator[Hook]:
    place = Hook()
    place.speaks.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            place.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            place.speaks.wait()
            with contextlib.suppress(OSError):
                self.send_response(place.status)
                self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    place.url = f"json://127.0.0.1:{server.server_port}/s3cr3t-path"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield place
    finally:
        place.speaks.set()
        server.shutdown()
        thread.join()
        server.server_close()
