"""Serves the dashboard: what its pages are made from, its socket, its token, its server."""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import replace
from typing import Any

import uvicorn

from ralphd.cli import here
from ralphd.cli.book import Book
from ralphd.cli.excerpt import excerpt
from ralphd.cli.journal import outcomes
from ralphd.cli.logs import whose
from ralphd.cli.nightfolders import loop_folder, newest_night
from ralphd.cli.place import Place
from ralphd.cli.reports import extras, list_nights, make_report
from ralphd.core.config import Config
from ralphd.core.errors import EdgeError, UsageError
from ralphd.edges.journal import JournalReader
from ralphd.views import html
from ralphd.views.webapp import Sources, application
from ralphd.views.webgate import Door

TOKEN_BYTES = 32
LEAST_TOKEN = 32  # characters of one that a person made
LOOPBACK = "127.0.0.1"
CONNECTIONS = 128  # ten lookers with all their pages, and the scrapers


def open_door(port: int, token_file: str) -> tuple[socket.socket, Door]:
    """Listen on this machine. Raises UsageError over the file, EdgeError over the port."""
    token = _token(token_file) if token_file else secrets.token_urlsafe(TOKEN_BYTES)
    listening = _listen(port)
    session = secrets.token_urlsafe(TOKEN_BYTES)
    return listening, Door(port=listening.getsockname()[1], token=token, session=session)


def serve(listening: socket.socket, made: Sources, door: Door) -> None:
    server: uvicorn.Server
    settings = uvicorn.Config(
        application(replace(made, ending=lambda: server.should_exit), door),
        log_config=None,
        log_level="critical",
        access_log=False,
        http="h11",
        ws="none",
        lifespan="off",
        server_header=False,
        proxy_headers=False,  # nobody stands before it, so nobody may say who asks
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,  # streams of events end within a second
    )
    server = uvicorn.Server(settings)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # how uvicorn passes on what it was ended by
        return


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()  # before the address is told
    except OSError as error:
        listening.close()
        raise EdgeError(f"port {port} can't be had: {error.strerror}; without --port a free one is taken") from None
    return listening


def _token(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        token = file.read(4096).strip()
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise UsageError(f"{path} can be read by others: chmod 600 {path}")
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise UsageError(f"{path} must hold {LEAST_TOKEN} letters and digits or more, as `openssl rand -hex 32` gives")
    return token


def sources(where: Place, config: Config | None, *, allow_actions: bool) -> Sources:
    """Gather what the pages are made from: the daemon's status, the journal read-only, the loops' logs."""

    def status() -> dict[str, Any]:
        return _ask(where, {"verb": "status"})

    def told(night: str, loop: str) -> list[dict[str, Any]]:
        reader = JournalReader.open(where.journal(config))
        try:
            return [dict(line) for line in outcomes(Book(reader=reader, night=night, loop=loop))]
        finally:
            reader.close()

    def digest(night: str, loop: str) -> str:
        folder = loop_folder(newest_night(where, night), loop)
        cli, hide = whose(folder)
        return excerpt(folder, cli, hide)

    def report(night: str) -> tuple[str, str]:
        made = make_report(where, night, config)
        return made.night.id, html.report_body(made, extras(where, made, config))

    def act(verb: str, loop: str) -> str:
        loops = _ask(where, {"verb": verb, "loops": [loop]}).get("loops", [])
        return f"{verb}: {', '.join(map(str, loops))}"

    return Sources(
        status=status,
        outcomes=told,
        digest=digest,
        nights=lambda: list_nights(where, config),
        report=report,
        act=act if allow_actions else None,
    )


def _ask(where: Place, request: dict[str, object]) -> dict[str, Any]:
    """Return the data of the daemon's answer. Raises RalphdError."""
    for reply in here.request(where, request):
        if isinstance(data := reply.get("data"), dict):
            return data
    raise EdgeError("the daemon's answer has nothing in it")
