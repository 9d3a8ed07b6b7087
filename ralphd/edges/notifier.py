"""How a person who is not looking is told: apprise, in a process that ends within the minute."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from ralphd.core.errors import EdgeError

PATIENCE_S = 20.0  # the port promises a minute, a night's end has two messages; all places are asked at once
MESSAGE_CHARS = 2000  # the shortest limit of what people use (Discord's)
MODULE = "ralphd.edges.notify_now"


class Apprise:
    """The working default of ports.Notifier.

    A process of its own: what hangs in somebody's plugin can be ended, and the daemon pays no memory for it.
    """

    def __init__(self, urls: Sequence[str], environ: Mapping[str, str], patience_s: float = PATIENCE_S) -> None:
        self._urls = list(urls)
        self._environ = dict(environ)
        self._patience_s = patience_s
        self._child: subprocess.Popen[bytes] | None = None

    def notify(self, title: str, body: str) -> None:
        """Tell every place. Raises EdgeError that names those which failed by their number and kind, never by URL."""
        failed = self._run({"urls": self._urls, "title": _cut(title), "body": _cut(body)})
        if failed:
            places = ", ".join(_place(self._urls, number) for number in failed)
            raise EdgeError(f"not told: {places} can't be reached or refused")

    def refused(self) -> list[str]:
        """Return the places that apprise can't make sense of, without asking any of them."""
        return [_place(self._urls, number) for number in self._run({"urls": self._urls})]

    def close(self) -> None:
        """End what is under way: whoever sent it is told that it failed."""
        if (child := self._child) is not None:
            child.kill()

    def _run(self, order: dict[str, object]) -> list[int]:
        """Return the numbers of the places that failed, from 0 on. Raises EdgeError."""
        try:
            child = self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what apprise logs has the URLs in it
                env=self._environ,
                cwd="/",
                start_new_session=True,  # a Ctrl-C meant for another must not swallow a message
            )
        except OSError as error:
            raise EdgeError(f"not told: {error.strerror or error}") from None
        with child:
            try:
                said, _ = child.communicate(json.dumps(order).encode(), self._patience_s)
            except subprocess.TimeoutExpired:
                raise EdgeError(f"not told: no answer within {self._patience_s:g} s") from None
            finally:
                child.kill()
        try:
            return [int(number) for number in json.loads(said)["failed"]]
        except (ValueError, KeyError, TypeError):
            raise EdgeError(f"not told: apprise failed (exit status {child.returncode})") from None


def _place(urls: Sequence[str], number: int) -> str:
    """Name a place of ``notify.urls`` without what is secret in it."""
    kind, there, _ = urls[number].partition("://")
    return f"notify.urls[{number}]{f' ({kind})' if there and kind.isalnum() else ''}"


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS else f"{text[: MESSAGE_CHARS - 1]}…"
