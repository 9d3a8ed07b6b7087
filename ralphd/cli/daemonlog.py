"""The daemon's own log: sentences a person can follow in the home window, one line an event, appended, 0600."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback

from ralphd.core.redact import Redactor


class DaemonLog:
    """Never stops who writes: a line that a full disk refuses is left out. Each line is redacted, whatever is in it."""

    def __init__(self, path: str, redactor: Redactor) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._redactor = redactor

    def info(self, event: str, **facts: object) -> None:
        self._write("info", event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self._write("warning", event, facts)

    def error(self, event: str, **facts: object) -> None:
        self._write("error", event, facts)

    def exception(self, event: str, **facts: object) -> None:
        """Log the exception that is being handled, with its traceback."""
        raised = "".join(traceback.format_exception(sys.exception())).rstrip()
        self._write("error", event, {**facts, "exception": raised})

    def _write(self, level: str, event: str, facts: dict[str, object]) -> None:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        told = {"timestamp": now, "level": level, "event": event, **facts}
        line = self._redactor.text(" ".join(f"{name}={value!r}" for name, value in told.items()))
        with contextlib.suppress(OSError):
            os.write(self._fd, f"{line}\n".encode("utf-8", "backslashreplace"))
