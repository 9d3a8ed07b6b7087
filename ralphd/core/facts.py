"""What is known when an agent's process has ended: the input of classification."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ralphd.core.reading import Reading


class EndedBy(StrEnum):
    """Who ended the process, when it was us."""

    ITSELF = ""
    RESULT_GRACE = "result_grace"  # it had its final result and did not exit
    QUIET = "quiet"  # no byte and an idle tree for too long
    SILENT_STREAM = "silent_stream"  # a request streamed nothing for too long
    ENDLESS = "endless"  # it asked in vain again and again, without a pause
    COMPACTIONS = "compactions"  # the one hard stop
    ASKED_ANEW = "asked_anew"  # a person wants inference asked now, and the CLI waited by itself
    GATE = "gate"  # the CLI asked again by itself, where one loop of its account asks for all
    REPEATING = "repeating"  # the same calls with the same results, over and over
    OPERATOR = "operator"  # pause, stop or restart ``now``
    NOTE = "note"  # so that it can be taken up again with a note that must not wait


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One process of an agent CLI, from start to end.

    ``exit_code`` is None when a signal ended it (``signal``) or when it never started (``start_error``).
    ``head_moved``: the loop's branch has another tip than before. ``files_changed``: something in the worktree is newer
    than the start; None: not known. ``worked_before``: an earlier attempt of this trajectory did either.
    ``stderr_tail``: at most 8 KiB, text.
    """

    cli: str
    exit_code: int | None
    signal: int | None = None
    start_error: str = ""
    seconds: float = 0.0
    ended_by: EndedBy = EndedBy.ITSELF
    reading: Reading
    stderr_tail: str = ""
    stderr_file: str = ""
    head_moved: bool = False
    files_changed: bool | None = None
    worked_before: bool = False
    tool_kills: int = 0
    log: str = ""
