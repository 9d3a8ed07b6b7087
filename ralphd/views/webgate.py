"""Who may ask a dashboard for what: everything is checked before any route is looked for."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Pages take their style and script from us and nothing from anybody else; nobody may frame them.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
)
OPEN = {("GET", "/"), ("GET", "/static/style.css"), ("GET", "/static/enter.js"), ("GET", "/favicon.ico")}
ENTER = ("POST", "/enter")
ACT = ("POST", "/act")
PLAIN = re.compile(rb"/(?:[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)?", re.ASCII)
PATH_BYTES = 200  # the longest path of ours has two ids of 40
OWN_HEADER = "x-ralphd-token"  # a page of another origin can't set it without asking, and nobody says yes

Headers = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Door:
    """``token`` opens, and acts; ``session`` is what a browser that has opened keeps in its cookie, and only looks."""

    port: int
    token: str
    session: str

    @property
    def cookie(self) -> str:
        """Return the cookie's name: browsers share cookies between the ports of a host."""
        return f"ralphd-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        bare = {"127.0.0.1", "localhost"} if self.port == 80 else set()  # a browser leaves http's own port out
        return frozenset({f"127.0.0.1:{self.port}", f"localhost:{self.port}", *bare})

    def holds(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


@dataclass(frozen=True, kw_only=True)
class Refusal:
    status: int
    why: str


class Gate:
    """ASGI around the application; adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS]
                message = {**message, "headers": [*message.get("headers", ()), *own]}
            await send(message)

        scope["ralphd.known"] = False
        refusal = refuse(scope, self._door)
        if refusal is None:
            await self._app(scope, receive, with_headers)
        else:
            await _say(with_headers, refusal)


async def _say(send: Any, refusal: Refusal) -> None:
    body = f"{refusal.why}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def refuse(scope: MutableMapping[str, Any], door: Door) -> Refusal | None:
    """Return why a request is not answered; None where it may go on, with ``ralphd.known`` set as it is."""
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
    method, path = scope["method"], scope["path"]
    raw = scope.get("raw_path") or path.encode()
    if [value for name, value in headers if name == "host"] not in [[host] for host in door.hosts]:
        return Refusal(status=403, why="this host is not served here")
    if _all(headers, "upgrade") or "upgrade" in _all(headers, "connection").lower():
        return Refusal(status=400, why="there is nothing to upgrade to")
    if len(raw) > PATH_BYTES or not PLAIN.fullmatch(raw) or path.encode() != raw or scope.get("query_string"):
        return Refusal(status=400, why="no such path")
    if method not in {"GET", "HEAD", "POST"} or (method == "HEAD" and path.startswith("/events/")):
        return Refusal(status=405, why="only GET and POST are understood")
    foreign = _foreign(method, headers, door)
    if foreign is not None:
        return foreign
    scope["ralphd.known"] = knows(headers, door)
    return _unknown(method, path, headers, door, known=scope["ralphd.known"])


def _foreign(method: str, headers: Headers, door: Door) -> Refusal | None:
    """Refuse what a page of another origin makes a browser send; following a link is no harm."""
    site, mode = _all(headers, "sec-fetch-site"), _all(headers, "sec-fetch-mode")
    if method != "POST":
        if site in {"", "none", "same-origin"} or mode == "navigate":
            return None
        return Refusal(status=403, why="another site asks for this")
    if _all(headers, "origin") not in {f"http://{host}" for host in door.hosts} or site not in {"", "same-origin"}:
        return Refusal(status=403, why="another site asks for this")
    if _all(headers, "content-type") != "application/json":
        return Refusal(status=400, why="JSON is understood, nothing else")
    return None


def _unknown(method: str, path: str, headers: Headers, door: Door, *, known: bool) -> Refusal | None:
    asked = ("GET" if method == "HEAD" else method, path)
    if asked in OPEN or asked == ENTER:
        return None
    if not known:
        return Refusal(status=403, why="open the address that `ralphd web` printed")
    if asked == ACT and not door.holds(_all(headers, OWN_HEADER)):
        return Refusal(status=403, why="open the address that `ralphd web` printed, in this tab, to act")
    return None


def knows(headers: Headers, door: Door) -> bool:
    """Tell whether a request carries the session's cookie, or the token itself as a scraper does."""
    held = [door.holds(value[7:]) for name, value in headers if name == "authorization" and value.startswith("Bearer ")]
    return any(held) or any(
        hmac.compare_digest(given.encode("utf-8", "replace"), door.session.encode())
        for given in _cookies(headers, door.cookie)
    )


def _cookies(headers: Headers, wanted: str) -> Iterable[str]:
    for name, value in headers:
        if name == "cookie":
            for part in value.split(";"):
                key, _, given = part.strip().partition("=")
                if key == wanted:
                    yield given


def _all(headers: Headers, wanted: str) -> str:
    """Return a header's value; several of one name are one that fits nothing."""
    return ", ".join(value for name, value in headers if name == wanted)
