"""What a failure's place in a log says: a few lines of a file of the night, without secrets, read as hostile."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable

from ralphd.cli import logs
from ralphd.core.model import is_loop_id
from ralphd.core.report_facts import TraceFact
from ralphd.core.report_parts import Report
from ralphd.views import ansi, words_trouble

EXCERPT_BYTES = 2048  # enough to see what happened; the file has the rest
WINDOW_BYTES = 16 << 10  # looked at on either side: a secret that begins before the place is one there too
SEAM = "\ufffc"  # between what comes before the place and the place: what is seen, as hiding may take out the unseen


def excerpts(night: str, made: Report) -> dict[str, str]:
    """Return what stands at the places that the page shows, by the place's words. What can't be had is left out.

    ``night``: the night's own folder; nothing outside of it is read, and no link is followed.
    """
    told = {words_trouble.place(trace): excerpt(night, trace) for trace in _shown(made)}
    return {place: text for place, text in told.items() if text}


def _shown(made: Report) -> Iterable[TraceFact]:
    for kind in made.outcomes:
        yield from [trace for trace in made.evidence if trace.kind == kind][: words_trouble.PLACES]


def excerpt(night: str, trace: TraceFact) -> str:
    """Return whole lines from where ``trace`` points to, or nothing."""
    inside = os.path.relpath(trace.file, night) if os.path.isabs(trace.file) else ""
    parts = inside.split(os.sep)
    if not inside or any(part in {"", ".", ".."} for part in parts):
        return ""
    first = max(0, trace.start - WINDOW_BYTES)
    data = _read(night, parts, first, trace.start - first + WINDOW_BYTES)
    here = data.rfind(b"\n", 0, max(0, trace.start - first)) + 1
    if here == 0 and first > 0:
        return ""  # a line too long to know what it began with
    wanted = max(trace.end - first, here + 1)
    end = data.find(b"\n", min(wanted, len(data)) - 1)
    hide = _hiding(night, trace, parts)
    text = _without_secrets(hide, data[:here], data[here : end if end >= 0 else len(data)])
    cut = "\n".join(ansi.coloured(text)).strip("\n").encode("utf-8", "replace")[:EXCERPT_BYTES]
    return cut.decode("utf-8", "ignore")


def _hiding(night: str, trace: TraceFact, parts: list[str]) -> Callable[[str], str]:
    """Return what takes out the secrets of the loop whose file it is, and of the one it is about."""
    named = parts[1] if parts[0] == "loops" and len(parts) > 1 else ""
    loops = [loop for loop in dict.fromkeys((named, trace.loop)) if is_loop_id(loop)]
    hiding = [logs.whose(folder)[1] for folder in (*(os.path.join(night, "loops", loop) for loop in loops), "")]

    def hide(text: str) -> str:
        for one in hiding:
            text = one(text)
        return text

    return hide


def _without_secrets(hide: Callable[[str], str], before: bytes, data: bytes) -> str:
    """Redact what comes before and the place in one; nothing is left when a secret reaches over the seam."""
    parts = (part.decode("utf-8", "replace").replace(SEAM, "?") for part in (before, data))
    return hide(SEAM.join(parts)).partition(SEAM)[2]


def _read(night: str, parts: list[str], place: int, size: int) -> bytes:
    """Read from a plain file below ``night``, step by step, so that no link can lead elsewhere."""
    opened: list[int] = []
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError, ValueError):
        for number, part in enumerate([night, *parts]):
            kind = os.O_NONBLOCK if number == len(parts) else os.O_DIRECTORY
            follow = os.O_NOFOLLOW if number else 0
            above = opened[-1] if opened else None
            opened.append(os.open(part, os.O_RDONLY | os.O_CLOEXEC | kind | follow, dir_fd=above))
            stack.callback(os.close, opened[-1])
        if stat.S_ISREG(os.fstat(opened[-1]).st_mode):
            return os.pread(opened[-1], size, place)
    return b""
