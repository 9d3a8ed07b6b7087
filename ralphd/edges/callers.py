"""Which process is at the other end of the control socket, and whether it may steer the night."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

ANCESTORS_MAX = 1024  # a chain of processes is a dozen long; a torn read of it must not loop for ever
LOOKS = 10  # at a chain that changes while it is read, because somebody in it ends
RUNNER_OPTIONS = (b"-I", b"-S", b"-E")  # how a loop's runner is started, see shipped.LEAN_PYTHON
RUNNER_FILE = b"/ralphd/pane/runner.py"


def refusal_of(connection: socket.socket) -> str:
    """Say why this peer is not served: another user, or a process of a loop (an agent must not steer its own night)."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if uid != os.geteuid():
        return "this night belongs to another user"
    inside = _is_inside(pid)
    if inside is None:
        return "the caller can't be identified: /proc doesn't show it and all its parents"
    return "a process inside a loop may not steer the night" if inside else ""


def hides_ancestors() -> bool:
    """Tell whether /proc keeps one of our own ancestors from us, so that no caller from here would be identified."""
    for _ in range(LOOKS):
        try:
            list(_ancestors(os.getpid()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # whoever ended between two reads has left its children to another parent: look again
        except OSError:
            return True
        return False
    return True


def _is_inside(pid: int) -> bool | None:
    """Tell whether a loop's runner, or this daemon, started a process. None: it can't be told, the process is gone.

    Its own environment says so, unless it was cleared; its ancestors say so in any case, because a runner adopts what
    its agent's children leave behind. Where we run inside somebody's loop ourselves, that loop's runner doesn't count.
    """
    for _ in range(LOOKS):
        try:
            return _has_nonce(pid) or _descends_from_a_loop(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # whoever ended between two reads has left its children to another parent: look again
        except OSError:
            return None
    return None


def _has_nonce(pid: int) -> bool:
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    return any(item.startswith(b"RALPHD_NONCE=") for item in environment.split(b"\0"))


def _descends_from_a_loop(pid: int) -> bool:
    above_us = set(_ancestors(os.getpid()))
    for ancestor in _ancestors(pid):
        if ancestor in above_us:
            return False
        if ancestor == os.getpid() or _is_runner(ancestor):
            return True
    return False


def _ancestors(pid: int) -> Iterator[int]:
    """Yield the parent, its parent and so on, up to init. FileNotFoundError or ProcessLookupError when one is gone."""
    for _ in range(ANCESTORS_MAX):
        pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        if pid <= 1:
            return
        yield pid


def _is_runner(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return tuple(words[1:4]) == RUNNER_OPTIONS and len(words) > 4 and words[4].endswith(RUNNER_FILE)
