"""A dashboard on a real port with made-up sources, and a client that sends any bytes."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import uvicorn

from ralphd.core.errors import RalphdError
from ralphd.views.webapp import Sources, application
from ralphd.views.webgate import Door

TOKEN, SESSION = "t" * 43, "s" * 43


def loop_row(name: str = "loop-1", **more) -> dict:
    row = {
        "id": name, "task": "main", "pod": 0, "state": "running", "generation": 1, "trajectory": 3, "pid": 1, "pane": "%1",
        "worktree": "/w", "branch": "ralphd/n/l", "head": "a" * 40, "score": 1.0, "best_score": 2.0, "gain_per_h": 0.5, "compactions": 0,
        "tokens_in": 10, "tokens_out": None, "last_outcome": "done.next", "quiet_for_s": 1.0, "note": "",
    }  # fmt: skip
    return {**row, **more}


def status_of(*loops: dict, trouble: tuple[str, ...] = (), night: str = "2026-12-01-a") -> dict:
    return {
        "schema": "ralphd.status/1",
        "daemon": {"pid": 1, "version": "0", "started_at": None, "trouble": list(trouble), "next_night_at": None},
        "night": {"id": night, "state": "running", "started_at": "2026-12-01T00:00:00.000Z", "ends_at": None, "width": len(loops)},
        "loops": list(loops),
        "fleet": {"running": len(loops), "paused": 0, "waiting": 0, "verifying": 0, "submissions_per_h": 1.5, "throughput_per_h": 0.25},
    }  # fmt: skip


@dataclass
class Night:
    """What the pages show; a test changes it while they are open. ``acted`` keeps what was asked for."""

    status: dict | RalphdError = field(default_factory=lambda: status_of(loop_row()))
    outcomes: list[dict] = field(default_factory=list)
    digest: str = ""
    nights: list[dict] = field(default_factory=list)
    report: str = "<p>a report</p>"
    acted: list[tuple[str, str]] = field(default_factory=list)
    asked: int = 0

    def sources(self, *, actions: bool) -> Sources:
        def status():
            self.asked += 1
            if isinstance(self.status, RalphdError):
                raise self.status
            return self.status

        def act(verb, loop):
            self.acted.append((verb, loop))
            return f"{verb}: {loop}"

        return Sources(
            status=status,
            outcomes=lambda *_: self.outcomes,
            digest=lambda *_: self.digest,
            nights=lambda: self.nights,
            report=lambda night: (night or "2026-12-01-a", self.report),
            act=act if actions else None,
        )


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: str


@dataclass(frozen=True)
class Site:
    """``host``: as a browser names it. ``raw`` sends bytes and returns what came until the end, or the first ``until``."""

    port: int
    token: str = TOKEN
    session: str = SESSION

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def cookie(self) -> str:
        return f"ralphd-{self.port}={self.session}"

    def raw(self, data: bytes, until: bytes = b"") -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(data)
            got = b""
            while chunk := connection.recv(65536):
                got += chunk
                if (until and until in got) or _is_whole(got):
                    break
            return got

    def ask(self, method: str, target: str, headers: dict[str, str] | None = None, body: str = "") -> Answer:
        """Send one request; by default it comes from whoever has the session. A header that is empty is left out."""
        sent = {"Host": self.host, "Cookie": self.cookie, "Connection": "close", **(headers or {})}
        if body:
            sent["Content-Length"] = str(len(body.encode()))
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
        got = self.raw(f"{method} {target} HTTP/1.1\r\n{lines}\r\n{body}".encode())
        head, _, rest = got.partition(b"\r\n\r\n")
        first, *others = head.decode("latin-1").split("\r\n")
        found = {name.lower(): value for name, _, value in (line.partition(": ") for line in others)}
        return Answer(int(first.split()[1]), found, rest.decode())

    def post(self, target: str, data: object, headers: dict[str, str] | None = None) -> Answer:
        own = {"Origin": self.url, "Content-Type": "application/json", "X-Ralphd-Token": self.token}
        return self.ask("POST", target, {**own, **(headers or {})}, json.dumps(data))


def _is_whole(got: bytes) -> bool:
    """Tell whether an answer that says its length is all there: a connection may be kept for more."""
    head, end, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(end and length) and len(body) >= int(length[1])


def entered(url: str) -> Site:
    """Open the address that ``ralphd web`` printed, as a browser does."""
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#(\S+)", url)
    assert found, url
    site = Site(int(found[1]), token=found[2], session="")
    answer = site.post("/enter", {"token": site.token}, {"Cookie": ""})
    assert answer.status == 204, answer
    return replace(site, session=answer.headers["set-cookie"].partition("=")[2].partition(";")[0])


@contextlib.contextmanager
def dashboard(night: Night, *, actions: bool = False) -> Iterator[Site]:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    port = listening.getsockname()[1]
    server: uvicorn.Server
    made = replace(night.sources(actions=actions), ending=lambda: server.should_exit)
    app = application(made, Door(port=port, token=TOKEN, session=SESSION))
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            ws="none",
            http="h11",
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=10,
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Site(port)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
