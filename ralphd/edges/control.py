"""The control socket: JSON lines from the command line, for the same user only, never from inside a loop."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ralphd.core.errors import NothingRunning

# A request is a verb and a few names; a note to a loop is the longest part of any.
REQUEST_MAX_BYTES = 1 << 20
PATIENCE_S = 10.0

Reply = Callable[[dict[str, object], bool], None]
Handle = Callable[[dict[str, object], Reply], None]


class ControlServer:
    """Listens at ``<state>/control.sock``. ``handle(request, reply)`` is called from a connection's own thread."""

    def __init__(self, state: Path, handle: Handle) -> None:
        self._path = state / "control.sock"
        self._handle = handle
        self._socket = _bind(self._path)
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(PATIENCE_S)
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        finished = threading.Event()

        def reply(data: dict[str, object], last: bool) -> None:
            try:
                connection.sendall(json.dumps(data).encode() + b"\n")
            except OSError:
                finished.set()
            if last:
                finished.set()

        with connection:
            refusal = _refusal(connection)
            request = _read_request(connection)  # read even when refused: closing over unread bytes loses the reply
            if request is None or refusal:
                reply({"ok": False, "error": refusal or "not a request", "code": 1}, True)
                return
            self._handle(request, reply)
            finished.wait()


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
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as replies:
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
    server.listen(64)
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


def _refusal(connection: socket.socket) -> str:
    """Say why this peer is not served: another user, or a process of a loop (an agent must not steer its own night)."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if uid != os.getuid():
        return "this night belongs to another user"
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return "the caller can't be identified"
    if any(item.startswith(b"RALPHD_NONCE=") for item in environment.split(b"\0")):
        return "a process inside a loop may not steer the night"
    return ""


def _read_request(connection: socket.socket) -> dict[str, object] | None:
    data = b""
    try:
        while not data.endswith(b"\n"):
            chunk = connection.recv(65536)
            if not chunk or len(data) > REQUEST_MAX_BYTES:
                return None
            data += chunk
        request = json.loads(data)
    except (OSError, ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) else None
