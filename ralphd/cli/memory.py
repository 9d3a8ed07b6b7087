"""What a daemon that waits for its next night keeps on disk, so that its own end doubles no night and forgets none."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, date, datetime

from ralphd.cli.place import Place
from ralphd.cli.settings import Settings, recalled
from ralphd.core.waiting import Waiting

_MOST_BYTES = 1 << 16  # 60 dates and 60 times take less than 4 KiB


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Which settings the coming nights have, and what is accounted for."""

    settings: Settings
    waiting: Waiting


def keep(place: Place, memory: Memory) -> None:
    """Write it down, whole or not at all. OSError when the disk won't have it."""
    waiting = memory.waiting
    data = {
        "settings": memory.settings.remember(),
        "looked_at": waiting.looked_at.timestamp(),
        "had": [day.isoformat() for day in waiting.had],
        "missed": [due.timestamp() for due in waiting.missed],
    }
    draft = f"{place.schedule}.draft"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, place.schedule)


def recall(place: Place) -> Memory | None:
    """Read it back; None when no daemon waited, or when the file is none of ours."""
    try:
        fd = os.open(place.schedule, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            data = json.loads(file.read(_MOST_BYTES))
        waiting = Waiting(
            looked_at=_moment(data["looked_at"]),
            had=tuple(date.fromisoformat(day) for day in data["had"]),
            missed=tuple(_moment(at) for at in data["missed"]),
        )
        return Memory(settings=recalled(data["settings"]), waiting=waiting)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def forget(place: Place) -> None:
    """Nobody waits any more."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place.schedule)


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
