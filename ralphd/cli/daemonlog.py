"""The daemon's own log: sentences a person can follow in the home window, one line an event, appended, 0600."""

from __future__ import annotations

import contextlib
import os
import weakref
from functools import cached_property
from typing import TYPE_CHECKING, TextIO, cast

from ralphd.core.redact import Redactor

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor


class LogFile:
    """A log that never stops who writes it: a line that a full disk refuses is left out."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        weakref.finalize(self, os.close, self._fd)  # a daemon with a schedule opens one for each night and each wait

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            os.write(self._fd, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


class DaemonLog:
    """Each line is redacted, whatever is in it."""

    def __init__(self, path: str, redactor: Redactor) -> None:
        self._file = LogFile(path)
        self._redactor = redactor

    def info(self, event: str, **facts: object) -> None:
        self._logger.info(event, **facts)

    def warning(self, event: str, **facts: object) -> None:
        self._logger.warning(event, **facts)

    def error(self, event: str, **facts: object) -> None:
        self._logger.error(event, **facts)

    def exception(self, event: str, **facts: object) -> None:
        """Log the exception that is being handled, with its traceback."""
        self._logger.exception(event, **facts)  # noqa: LOG004  # its caller handles one

    @cached_property
    def _logger(self) -> FilteringBoundLogger:
        import structlog  # noqa: PLC0415  # who takes a night up must not wait for it

        processors: list[Processor] = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            structlog.processors.format_exc_info,
            lambda _logger, _method, facts: cast("EventDict", self._redactor.data(facts)),  # before it is quoted
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"], drop_missing=True),
            lambda _logger, _method, line: self._redactor.text(str(line)),
        ]
        file = cast("TextIO", self._file)  # all that structlog asks of it is there
        logger: FilteringBoundLogger = structlog.wrap_logger(
            structlog.WriteLogger(file), processors=processors, wrapper_class=structlog.make_filtering_bound_logger(20)
        )
        return logger
