"""What a night is, beside the journal: night.json in its folder, so that a lost journal does not orphan its loops."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ralphd.core import codec, events
from ralphd.core.events import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ralphd.core.redact import Redactor

NAME = "night.json"
TOO_LARGE_BYTES = 16 << 20  # 512 loops take 300 KiB
_FRAME = (events.NightStarted, events.TaskAdded, events.LoopAdded)


@dataclass(frozen=True, kw_only=True)
class NightFile:
    """``frame``: the entries a night begins with. ``ended``: its last entry, None while it is open."""

    night: str
    frame: tuple[Entry, ...]
    ended: Entry | None = None


def write(folder: str, entries: Iterable[Entry], redact: Redactor) -> None:
    """Leave the night's frame, and its end if that is given, in its folder, whole or as it was. Raises OSError."""
    chosen = [entry for entry in entries if isinstance(entry.body, (*_FRAME, events.NightEnded))]
    lines = [_line(entry, redact) for entry in chosen]
    text = json.dumps({"schema": "ralphd.night/1", "night": chosen[0].night, "entries": lines}, indent=0)
    path = os.path.join(folder, NAME)
    draft = f"{path}.draft"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def close(folder: str, end: Entry, redact: Redactor) -> None:
    """Add the night's end to its file. Raises OSError."""
    known = read(folder)
    if known is not None and known.ended is None:
        write(folder, (*known.frame, end), redact)


def read(folder: str) -> NightFile | None:
    """Return what the file says; None when there is none, or none that a night could be taken up from."""
    try:
        fd = os.open(os.path.join(folder, NAME), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            data = json.loads(file.read(TOO_LARGE_BYTES))
        night = str(data["night"])
        entries = [_entry(line, night) for line in data["entries"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    frame = tuple(entry for entry in entries if isinstance(entry.body, _FRAME))
    ended = next((entry for entry in entries if isinstance(entry.body, events.NightEnded)), None)
    whole = bool(frame) and isinstance(frame[0].body, events.NightStarted) and os.path.basename(folder) == night
    return NightFile(night=night, frame=frame, ended=ended) if whole else None


def _line(entry: Entry, redact: Redactor) -> dict[str, object]:
    type_, body = events.body_to_json(entry.body)
    return {"at": entry.at, "loop": entry.loop, "type": type_, "body": redact.data(body)}


def _entry(line: dict[str, object], night: str) -> Entry:
    at = line["at"]
    if not isinstance(at, (int, float)):
        raise codec.Malformed("at: expected a number")
    body = events.body_from_json(str(line["type"]), line["body"])
    return Entry(at=float(at), night=night, loop=str(line["loop"]), body=body)
