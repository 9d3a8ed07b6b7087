"""What a coding CLI's adapter must offer, and what the runner gives it."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ralphd.core.exchange import Assignment
    from ralphd.core.signals import Retrying, Signal

    class Reader(Protocol):
        """Turns the lines of one process's stdout into signals. One reader a process."""

        def read(self, line: bytes, start: int, end: int) -> tuple[Signal, ...]:
            """Never raises, whatever ``line`` holds; ``start`` and ``end`` are its byte range in the log."""

    class Overhearing(Reader, Protocol):
        """A reader whose CLI tells of its own waits on stderr. Of that nothing else counts: it is anybody's words."""

        def read_error(self, line: bytes) -> tuple[Retrying, ...]:
            """Never raises. The lines of stderr come when they are complete."""

    class Adapter(Protocol):
        """A module of this package: HOW to speak to one CLI. Pure: it starts nothing and opens nothing."""

        @property
        def TELLS(self) -> Tells: ...  # noqa: N802 -- a constant of a module
        @property
        def guarded_lines(self) -> str:
            """What a shell line that must be guarded contains; an empty string: every line is guarded."""

        def launch(self, assignment: Assignment, turn: Turn) -> Launch: ...
        def reader(self) -> Reader: ...


@dataclass(frozen=True, kw_only=True)
class File:
    """What a CLI must find in a file: ``path`` is relative to ``Turn.home``. A ``link`` leads there instead."""

    path: str
    text: str = ""
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start the CLI. The prompt comes on stdin; the runner adds TMPDIR and the RALPHD_* variables.

    With ``Tells.input`` the prompt is told as everything else is, and stdin stays open until the final result.

    ``files`` are laid into ``Turn.home`` before the start, for their owner only; nothing is written elsewhere.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    files: tuple[File, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One process to start.

    ``session`` is a UUID, or the CLI's own name of the session that it takes up again. ``guard`` is the guard script's
    path, ``tmp`` its own TMPDIR, ``home`` a folder of the loop's own for what the CLI must find in files.
    """

    session: str
    attempt: int = 1
    resume: bool = False  # take up ``session`` again instead of beginning it
    guard: str = ""
    tmp: str = ""
    home: str = ""


@dataclass(frozen=True, kw_only=True)
class Tells:
    """What a CLI lets us know or do."""

    tokens: bool  # it tells usage
    compactions: bool  # it tells each compaction
    partial: bool  # it tells each request and each piece of an answer, so silence can be measured
    resume: bool  # a session can be taken up again with its context
    kept_from_call: bool = False  # but only once a tool was called: before, it keeps no session
    input: Callable[[str], bytes] | None = None  # how a text is told on stdin while it runs; None: it takes none then
    idle_share: float = 0.0  # of one core, that its own process takes while it does nothing
    idle_bytes: int = 0  # that it then reads and writes in a quarter of a minute
    streams: bool = True  # its answers come in pieces, so a request under which nothing stirs is stalled
    trips_at_first: bool = False  # of several that begin at once where none ever began, some may fail
    bare_calls: bool = False  # what leads a session of its own below it is a tool call, with a guard or without
