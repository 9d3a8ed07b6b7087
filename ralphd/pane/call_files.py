"""Which files of finished tool calls stay for a person to look at, and how large."""

from __future__ import annotations

import os

from ralphd.pane.limits import FLOOD, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.pane.watched import Call

KEPT_CALLS = 50  # finished calls whose files stay for a person to look at
KEPT_SPILLS = 200  # and of those whose agent was told to read the file


class CallFiles:
    """The files of the calls that this runner saw end, oldest first."""

    def __init__(self) -> None:
        self._finished: list[str] = []
        self._spilled: list[str] = []

    def finish(self, call: Call, output_bytes: int) -> None:
        """Cut what the call wrote to what a flood may have, and remove the files of the oldest one over the count."""
        spilled = call.over is not None or size_of(call.files) > output_bytes
        for path in call.files:
            _cut(path, output_bytes * FLOOD)
        kept, most = (self._spilled, KEPT_SPILLS) if spilled else (self._finished, KEPT_CALLS)
        kept.append(call.base)
        if len(kept) > most:
            for ending in (".out", ".err", ".verdict"):
                _remove(kept[0] + ending)
            del kept[0]


def _cut(path: str, limit: int) -> None:
    try:
        if os.lstat(path).st_size <= limit:
            return
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.ftruncate(fd, limit)
    finally:
        os.close(fd)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
