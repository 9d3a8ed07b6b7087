"""What people took of a night: ``taken.jsonl`` in the night's folder, a line a take, another when it is undone."""

from __future__ import annotations

import json
import os
from dataclasses import replace

from ralphd.core import codec
from ralphd.core.taken import Taken

NAME = "taken.jsonl"
READ_BYTES = 4 << 20  # some ten thousand takes


def add(night_folder: str, taken: Taken) -> None:
    """Append durably: whoever undoes it needs it."""
    path = os.path.join(night_folder, NAME)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(codec.dump(taken)).encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def read(night_folder: str) -> tuple[Taken, ...]:
    """Return every take, the oldest first; what was undone says so. Lines that make no sense are passed over."""
    found: dict[str, Taken] = {}
    for line in _lines(os.path.join(night_folder, NAME)):
        try:
            taken = codec.load(Taken, json.loads(line))
        except (ValueError, codec.Malformed):
            continue
        before = found.get(taken.id)
        found[taken.id] = replace(before, undone_at=taken.undone_at) if before is not None else taken
    return tuple(found.values())


def _lines(path: str) -> list[bytes]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with os.fdopen(fd, "rb") as file:
        return file.read(READ_BYTES).splitlines()
