"""The dashboard as an ASGI application: pages, their live regions, metrics, and three verbs if they are allowed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ralphd.core.errors import EdgeError, NothingRunning, RalphdError
from ralphd.core.model import is_loop_id
from ralphd.views import html, metrics, webpages
from ralphd.views.svg import safe
from ralphd.views.webgate import Door, Gate
from ralphd.views.webpages import Regions

HERE = Path(__file__).parent
STATUS_EVERY_S = 0.5  # with a daemon's pass of a second at most: on the screen within two seconds of the fact
ABSENT_EVERY_S = 2.0  # to say why nobody answers the journal is read
LOOP_EVERY_S = 2.0
REPORT_EVERY_S = 10.0
KEPT_S = 60.0  # however slow it was
BREATH_S = 15.0  # so often a stream says that it lives; what is gone is noticed by it
BODY_BYTES = 1024
OUTCOMES_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What the pages are made from; all may block, and raise RalphdError.

    ``status``: JSON of ralphd.status/1. ``outcomes(night, loop)``: the newest last, as `ralphd journal` tells them.
    ``digest(night, loop)``: the end of the log as sentences. ``report(night)``: its id and markup; of the newest where
    none is named. ``act(verb, loop)`` returns what came of it; None: this dashboard only looks. ``ending`` tells, at
    once, that streams shall end.
    """

    status: Callable[[], dict[str, Any]]
    outcomes: Callable[[str, str], list[dict[str, Any]]]
    digest: Callable[[str, str], str]
    nights: Callable[[], list[dict[str, Any]]]
    report: Callable[[str], tuple[str, str]]
    act: Callable[[str, str], str] | None = None
    ending: Callable[[], bool] = lambda: False


@dataclass(kw_only=True)
class Kept:
    """Answers that many lookers share: each is asked for by one at a time, and not again before it is ``every_s`` old.

    What was raised is kept like an answer. One that was slow is kept longer: asking takes ``share`` of a core at most.
    """

    every_s: float
    share: float = 1.0
    answers: dict[object, tuple[float, Any]] = field(default_factory=dict)
    locks: dict[object, asyncio.Lock] = field(default_factory=dict)
    most: int = 64  # of a night's loops few are looked at

    async def get(self, key: object, ask: Callable[[], Any]) -> Any:
        async with self.locks.setdefault(key, asyncio.Lock()):
            until, answer = self.answers.get(key, (0.0, None))
            if time.monotonic() >= until:
                answer, every_s = await self._ask(ask)
                if len(self.answers) > self.most:
                    self.answers.clear()
                self.answers[key] = (time.monotonic() + every_s, answer)
        if isinstance(answer, RalphdError):
            raise answer
        return answer

    async def _ask(self, ask: Callable[[], Any]) -> tuple[Any, float]:
        began = time.monotonic()
        try:
            answer = await run_in_threadpool(ask)
        except RalphdError as error:
            return error, max(self.every_s, ABSENT_EVERY_S)
        except OSError as error:
            return EdgeError(f"{error.strerror or error}"), max(self.every_s, ABSENT_EVERY_S)
        return answer, min(KEPT_S, max(self.every_s, (time.monotonic() - began) / self.share))


class Pages:
    """The routes. Nothing gets here that the gate refuses."""

    def __init__(self, sources: Sources, door: Door) -> None:
        self._from = sources
        self._door = door
        self._status = Kept(every_s=STATUS_EVERY_S * 0.8)
        self._loops = Kept(every_s=LOOP_EVERY_S, share=0.02)
        self._drawn: tuple[dict[str, Any] | None, Regions] = (None, {})
        self._reports = Kept(every_s=REPORT_EVERY_S, share=0.1, most=4)

    def routes(self) -> list[Route]:
        return [
            Route("/", self.now, methods=["GET"]),
            Route("/enter", self.enter, methods=["POST"]),
            Route("/act", self.act, methods=["POST"]),
            Route("/loop/{loop}", self.loop, methods=["GET"]),
            Route("/events/now", self.now_events, methods=["GET"]),
            Route("/events/loop/{loop}", self.loop_events, methods=["GET"]),
            Route("/report", self.report, methods=["GET"]),
            Route("/report/{night}", self.report, methods=["GET"]),
            Route("/nights", self.nights, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/static/{name}", static, methods=["GET"]),
            Route("/favicon.ico", lambda _: Response(status_code=204), methods=["GET"]),
        ]

    async def enter(self, request: Request) -> Response:
        told = await _json(request)
        if not self._door.holds(str(told.get("token", ""))):
            return PlainTextResponse("this is not the token\n", 403)
        response = Response(status_code=204)
        response.set_cookie(self._door.cookie, self._door.session, path="/", httponly=True, samesite="strict")
        return response

    async def act(self, request: Request) -> Response:
        if self._from.act is None:
            return PlainTextResponse("this dashboard only looks: `ralphd web --allow-actions`\n", 403)
        told = await _json(request)
        verb, loop = told.get("verb"), told.get("loop")
        if not isinstance(verb, str) or verb not in webpages.VERBS or not isinstance(loop, str) or not is_loop_id(loop):
            return PlainTextResponse("pause, resume or restart one loop\n", 400)
        try:
            return PlainTextResponse(await run_in_threadpool(self._from.act, verb, loop))
        except RalphdError as error:
            return PlainTextResponse(f"{error}\n", 409)

    async def now(self, request: Request) -> Response:
        if not request.scope["ralphd.known"]:
            return HTMLResponse(webpages.enter())
        try:
            return HTMLResponse(webpages.now(await self._ask()))
        except RalphdError as error:
            return HTMLResponse(webpages.trouble(str(error)))

    async def loop(self, request: Request) -> Response:
        name = request.path_params["loop"]
        try:
            loop, regions = await self._loop(name)
        except RalphdError as error:
            return _not_there(str(error))
        return HTMLResponse(webpages.loop_page(loop, regions, actions=self._from.act is not None))

    async def now_events(self, _request: Request) -> Response:
        return _stream(self._now_regions, self._from.ending)

    async def loop_events(self, request: Request) -> Response:
        name = request.path_params["loop"]

        async def regions() -> Regions:
            try:
                return (await self._loop(name))[1]
            except RalphdError as error:
                return {"said": safe(str(error))}

        return _stream(regions, self._from.ending)

    async def report(self, request: Request) -> Response:
        named = request.path_params.get("night", "")
        try:
            night, body = await self._reports.get(named, lambda: self._from.report(named))
        except RalphdError as error:
            return _not_there(str(error))
        return HTMLResponse(webpages.frame(f"Night {night}", body, here="" if named else "/report"))

    async def nights(self, _request: Request) -> Response:
        try:
            return HTMLResponse(webpages.nights(await run_in_threadpool(self._from.nights)))
        except NothingRunning:
            return HTMLResponse(webpages.nights([]))
        except RalphdError as error:
            return _not_there(str(error))

    async def metrics(self, _request: Request) -> Response:
        try:
            told: dict[str, Any] | None = await self._ask()
        except RalphdError:
            told = None
        return PlainTextResponse(metrics.render_metrics(told), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _ask(self) -> dict[str, Any]:
        told: dict[str, Any] = await self._status.get("", self._from.status)
        return told

    async def _now_regions(self) -> Regions:
        """Return the regions; drawn once for all who look."""
        try:
            told = await self._ask()
        except RalphdError as error:
            return {"fleet": webpages.sentence(str(error))}
        if self._drawn[0] is not told:
            self._drawn = (told, webpages.now_regions(told))
        return self._drawn[1]

    async def _loop(self, name: str) -> tuple[dict[str, Any], Regions]:
        told = await self._ask()
        night = str((told.get("night") or {}).get("id"))
        loop = next((loop for loop in told.get("loops") or () if loop["id"] == name), None)
        if loop is None:
            raise NothingRunning(f"no loop named {name} in night {night}")
        outcomes, digest = await self._loops.get((night, name), lambda: self._slow(night, name))
        return loop, webpages.loop_regions(loop, outcomes, digest)

    def _slow(self, night: str, name: str) -> tuple[list[dict[str, Any]], str]:
        return self._from.outcomes(night, name)[: -OUTCOMES_SHOWN - 1 : -1], self._from.digest(night, name)


def application(sources: Sources, door: Door) -> Gate:
    return Gate(Starlette(routes=Pages(sources, door).routes()), door)


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "style.css":
        text = html.style() + (HERE / "web.css").read_text(encoding="utf-8")
        return Response(text, media_type="text/css")
    if name in {"live.js", "enter.js"}:
        return Response((HERE / name).read_bytes(), media_type="text/javascript")
    return PlainTextResponse("no such file\n", 404)


def _stream(regions: Callable[[], Awaitable[Regions]], ending: Callable[[], bool]) -> Response:
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    return StreamingResponse(_events(regions, ending), headers=headers)


async def _events(regions: Callable[[], Awaitable[Regions]], ending: Callable[[], bool]) -> AsyncIterator[str]:
    seen: Regions = {}
    breath = time.monotonic()
    while not ending():
        fresh = await regions()
        event = webpages.changes(seen, fresh)
        seen = fresh
        if event or time.monotonic() > breath + BREATH_S:
            breath = time.monotonic()
            yield event or ": all is as it was\n\n"
        await asyncio.sleep(STATUS_EVERY_S)


async def _json(request: Request) -> Mapping[str, Any]:
    """Return the object that came; an empty one for whatever is none."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            return {}
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _not_there(why: str) -> Response:
    return HTMLResponse(webpages.trouble(why), 404)
