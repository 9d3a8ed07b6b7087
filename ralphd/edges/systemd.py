"""How a service manager hears from the daemon: the sd_notify protocol, spoken without libsystemd."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
# The manager's end is a queue of datagrams that it empties at once; a manager that hangs must not hold a pass up.
SEND_TIMEOUT_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Notifier:
    """``address`` as in NOTIFY_SOCKET; empty: nobody listens, and ``tell`` does nothing."""

    address: str = ""

    def tell(self, **news: str | int) -> bool:
        """Send assignments such as ``READY=1`` as one message; False when nobody takes it, which is no trouble.

        A value is cut at its first line: a line break would begin an assignment of its own.
        """
        if not self.address:
            return False
        lines = [f"{name}={str(value).partition(chr(10))[0]}" for name, value in news.items()]
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
            ours.settimeout(SEND_TIMEOUT_S)
            ours.connect(_real(self.address))
            ours.sendall("\n".join(lines).encode("utf-8", "replace"))
            return True
        return False


def _real(address: str) -> str:
    return "\0" + address[1:] if address.startswith("@") else address


def notifier(environ: Mapping[str, str]) -> Notifier:
    """Find whom to tell: a path, or an abstract name behind ``@``. Any other address is ignored."""
    address = environ.get("NOTIFY_SOCKET", "")
    return Notifier(address=address if address.startswith(("/", "@")) and len(address) > 1 else "")


def watchdog_interval(environ: Mapping[str, str]) -> float | None:
    """Return after how many seconds without a ping the manager ends us; None when it doesn't, or means another."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() and int(text) > 0 else None


def forget(environ: MutableMapping[str, str]) -> None:
    """Take the manager's address out of an environment: what we start has nothing to tell it."""
    for name in VARIABLES:
        environ.pop(name, None)
