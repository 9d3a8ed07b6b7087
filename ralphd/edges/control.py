"""The control socket: JSON lines from the command line, for the same user only, never from inside a loop."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ralphd.core.errors import NothingRunning
from ralphd.edges.callers import refusal_of

# A request is a verb and a few names; a note to a loop is the longest part of any.
REQUEST_MAX_BYTES = 1 << 20
REQUEST_S = 5.0  # for a whole request, however it trickles in: a command sends it in one piece
UNREAD_S = 10.0  # how long a peer may leave a reply lying before it is given up
TALKS_MAX = 128  # a person has a handful; past it the oldest that hasn't asked yet makes room
GOODBYE_S = 2.0  # when the daemon leaves, for the last replies
SHORT_OF_DESCRIPTORS_S = 0.2  # until the next try to take a peer in

Reply = Callable[[dict[str, object], bool], None]
Handle = Callable[[dict[str, object], Reply], None]


@dataclass(eq=False, kw_only=True)
class _Talk:
    """One connection. ``patience`` is the moment (monotonic) at which its peer has had time enough."""

    socket: socket.socket
    patience: float
    heard: bytearray = field(default_factory=bytearray)
    asked: bool = False
    deaf: bool = False  # nothing more is read: it has asked, or has nothing more to say
    unsent: bytearray = field(default_factory=bytearray)
    finished: bool = False


class ControlServer:
    """Listens at ``<state>/control.sock``. ``handle(request, reply)`` is called from its one thread: it must not wait.

    ``reply`` may be called from any thread, and never waits for the peer either.
    """

    def __init__(self, state: Path, handle: Handle) -> None:
        self._path = state / "control.sock"
        self._handle = handle
        self._socket = _bind(self._path)
        self._socket.setblocking(False)
        self._bell, self._ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._talks: list[_Talk] = []
        self._closing = False
        self._lock = threading.Lock()  # of every talk's `unsent` and `finished`
        self._ringing = threading.Lock()  # so that no byte goes to whoever has the bell's descriptor next
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ, None)
        self._selector.register(self._bell, selectors.EVENT_READ, None)
        self._not_before = 0.0  # of the next accept
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._wake()
        self._thread.join(GOODBYE_S + UNREAD_S)
        self._socket.close()
        with self._ringing:
            os.close(self._ring)
            self._ring = -1
        self._path.unlink(missing_ok=True)

    def _wake(self) -> None:
        with self._ringing, contextlib.suppress(OSError):  # full: it is awake already; closed: it needs no waking
            os.write(self._ring, b"!")

    def _serve(self) -> None:
        while not self._closing:
            self._turn()
        self._selector.unregister(self._socket)
        until = time.monotonic() + GOODBYE_S
        for talk in [talk for talk in self._talks if not talk.unsent]:
            self._drop(talk)
        while self._talks and time.monotonic() < until:
            self._turn()
        for talk in list(self._talks):
            self._drop(talk)
        self._selector.close()
        os.close(self._bell)

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._next_s()):
            if key.fileobj is self._socket:
                self._accept()
            elif key.fileobj == self._bell:
                os.read(self._bell, 4096)
            elif key.data in self._talks:
                self._hear(key.data)
        now = time.monotonic()
        if self._not_before and now >= self._not_before and not self._closing:
            self._not_before = 0.0
            self._selector.register(self._socket, selectors.EVENT_READ, None)
        for talk in list(self._talks):
            self._send(talk)
            if now >= talk.patience and (talk.unsent or not talk.asked):
                self._drop(talk)

    def _next_s(self) -> float | None:
        moments = [talk.patience for talk in self._talks if talk.unsent or not talk.asked]
        moments += [self._not_before] if self._not_before else []
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM} and not self._make_room():
                self._selector.unregister(self._socket)
                self._not_before = time.monotonic() + SHORT_OF_DESCRIPTORS_S
            return
        connection.setblocking(False)
        talk = _Talk(socket=connection, patience=time.monotonic() + REQUEST_S)
        refusal = refusal_of(connection)
        if not refusal and len(self._talks) >= TALKS_MAX and not self._make_room():
            refusal = "too many commands wait already"
        self._talks.append(talk)
        if refusal:
            with contextlib.suppress(OSError):
                connection.recv(65536)  # closing over what wasn't read would show as a reset
            self._refuse(talk, refusal)
        else:
            self._selector.register(connection, selectors.EVENT_READ, talk)

    def _make_room(self) -> bool:
        """Give up the oldest that hasn't asked for anything yet."""
        idle = next((talk for talk in self._talks if not talk.asked), None)
        if idle is not None:
            self._drop(idle)
        return idle is not None

    def _hear(self, talk: _Talk) -> None:
        try:
            data = b"" if talk.deaf else talk.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            self._drop(talk)
            return
        if talk.deaf:
            return
        talk.heard += data
        if data and len(talk.heard) <= REQUEST_MAX_BYTES and not talk.heard.endswith(b"\n"):
            return
        request = _request(bytes(talk.heard))
        talk.heard.clear()
        self._quiet(talk)
        if request is None:
            self._refuse(talk, "not a request")
            return
        talk.asked = True
        self._handle(request, lambda data, last: self._reply(talk, data, last=last))

    def _refuse(self, talk: _Talk, why: str) -> None:
        self._quiet(talk)
        self._reply(talk, {"ok": False, "error": why, "code": 1}, last=True)
        self._send(talk)

    def _quiet(self, talk: _Talk) -> None:
        talk.deaf = True
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(talk.socket)

    def _reply(self, talk: _Talk, data: dict[str, object], *, last: bool) -> None:
        with self._lock:
            if talk.finished:
                return
            talk.unsent += json.dumps(data).encode() + b"\n"
            talk.patience = time.monotonic() + UNREAD_S
            talk.finished = last
        self._wake()

    def _send(self, talk: _Talk) -> None:
        with self._lock:
            try:
                while talk.unsent:
                    del talk.unsent[: talk.socket.send(talk.unsent)]
            except BlockingIOError:
                pass
            except OSError:
                talk.unsent.clear()
                talk.finished = True
            waits, over = bool(talk.unsent), talk.finished and not talk.unsent
        if over:
            self._drop(talk)
        elif talk.deaf:
            self._watch_writing(talk, waits=waits)

    def _watch_writing(self, talk: _Talk, *, waits: bool) -> None:
        watched = talk.socket in self._selector.get_map()
        if waits and not watched:
            self._selector.register(talk.socket, selectors.EVENT_WRITE, talk)
        elif watched and not waits:
            self._selector.unregister(talk.socket)

    def _drop(self, talk: _Talk) -> None:
        if talk not in self._talks:
            return
        self._talks.remove(talk)
        self._quiet(talk)
        with self._lock:
            talk.finished = True
        talk.socket.close()


def ask(state: Path, request: dict[str, object], patience_s: float | None = None) -> Iterator[dict[str, object]]:
    """Send a request and yield its replies, the last one last. Raises NothingRunning when no daemon listens.

    ``patience_s`` bounds the wait for each reply: TimeoutError after it. None: for ever.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patience_s)
        try:
            with _short_path(state / "control.sock") as path:
                connection.connect(path)
        except OSError:
            raise NothingRunning(f"no daemon runs for {state}; `ralphd start` starts one") from None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused unheard: the reply says why
            connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as replies, contextlib.suppress(ConnectionResetError):
            for line in replies:
                yield json.loads(line)


def _bind(path: Path) -> socket.socket:
    """Bind with mode 0600 from birth: between bind and chmod there would be a gap."""
    path.unlink(missing_ok=True)  # the state folder is owned (flock), so a socket found here is a dead daemon's
    server = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        with _short_path(path) as short:
            server.bind(short)
    finally:
        os.umask(before)
    server.listen(256)
    return server


@contextlib.contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """Name a socket through its folder's descriptor: AF_UNIX paths end at 107 bytes, state folders don't."""
    if len(os.fsencode(path)) < 100:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _request(data: bytes) -> dict[str, object] | None:
    try:
        request = json.loads(data) if data.endswith(b"\n") and len(data) <= REQUEST_MAX_BYTES else None
    except (ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) else None
