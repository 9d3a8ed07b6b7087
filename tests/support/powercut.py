"""What may be on a disk after the power was cut at any moment: simulated from the system calls that a program made.

Whatever was synced is there. Of what was written since, each piece of a sector's size may be there or not, in any order.
A name that was made, changed or removed counts once its folder or its file was synced; of those since, the first so many.
No file system promises less to a program that syncs; one that lies about syncs isn't simulated.
"""

from __future__ import annotations

import ast
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.needs import missing

CALLS = "openat,write,pwrite64,ftruncate,fsync,fdatasync,rename,unlink,lseek"
SECTOR = 512
_CALL = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)")
_FD = re.compile(r"^(\d+)<(.*?)>$")


@dataclass(frozen=True)
class Op:
    """``kind``: write, cut, sync, make, rename, unlink, or ack, which is a line that the program wrote to ``acks``."""

    kind: str
    path: str
    at: int = 0
    data: bytes = b""
    to: str = ""


def traced(script: str, *arguments: str, env: dict[str, str], folder: Path) -> list[Op]:
    """Run a program of one thread to its end; returns what it did to files below ``folder``, in order."""
    out = folder.parent / "trace"
    command = ["strace", "-y", "-qq", "-s", str(1 << 24), "-e", f"trace={CALLS}", "-o", str(out)]
    try:
        done = subprocess.run([*command, sys.executable, "-c", script, *arguments], env=env, capture_output=True, text=True, check=False)  # fmt: skip
    except FileNotFoundError:
        missing("no strace")
    if "ptrace" in done.stderr:
        missing(f"nothing may be traced here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return list(_ops(out.read_text(), str(folder)))


def _ops(text: str, folder: str) -> Iterator[Op]:
    at: dict[str, int] = {}  # where plain writes go on, by path: each file here is written through one descriptor
    appending: set[str] = set()
    for line in text.splitlines():
        found = _CALL.match(line)
        if found is None or found[3].startswith("-"):
            continue
        name, given, result = found[1], found[2], int(found[3])
        parts = _split(given)
        paths = (
            [ast.literal_eval(part) for part in parts if part.startswith('"')]
            if name in ("rename", "unlink", "openat")
            else []
        )
        path = paths[0] if paths else (_FD.match(parts[0]) or ["", "", ""])[2]
        if not path.startswith(f"{folder}/") and not path.endswith("/acks") and path != folder:
            continue
        if name == "openat":
            at[path] = 0
            if "O_APPEND" in given:
                appending.add(path)
            if "O_CREAT" in given:
                yield Op("make", path)
            if "O_TRUNC" in given:
                yield Op("cut", path)
        elif name in ("write", "pwrite64"):
            data = ast.literal_eval("b" + parts[1])[:result]
            if path.endswith("/acks"):
                yield Op("ack", data.decode().strip())
                continue
            offset = int(parts[3]) if name == "pwrite64" else (-1 if path in appending else at.get(path, 0))
            at[path] = at.get(path, 0) + (result if name == "write" else 0)
            yield Op("write", path, at=offset, data=data)
        elif name == "lseek":
            at[path] = result
        elif name == "ftruncate":
            yield Op("cut", path, at=int(parts[1]))
        elif name in ("fsync", "fdatasync"):
            yield Op("sync", path)
        elif name == "rename":
            yield Op("rename", path, to=paths[1])
        elif name == "unlink":
            yield Op("unlink", path)


def _split(given: str) -> list[str]:
    """Split arguments at commas outside of quotes."""
    parts, start, quoted, escaped = [], 0, False, False
    for n, char in enumerate(given):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif char == "," and not quoted:
            parts.append(given[start:n].strip())
            start = n + 1
    return [*parts, given[start:].strip()]


@dataclass
class File:
    """``synced``: what is on the disk for certain. ``since``: what was written later."""

    synced: bytes = b""
    since: list[Op] = field(default_factory=list)
    size: int = 0  # as the program sees it


@dataclass
class Disk:
    """``names`` and ``certain``: which file lies where, as the program sees it, and as is on the disk for certain."""

    names: dict[str, File] = field(default_factory=dict)
    certain: dict[str, File] = field(default_factory=dict)
    renames: list[tuple[Op, File]] = field(default_factory=list)  # of names, since they were synced last
    acks: list[str] = field(default_factory=list)

    @classmethod
    def holding(cls, folder: Path) -> Disk:
        disk = cls()
        for path in folder.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                disk.names[str(path)] = File(synced=data, size=len(data))
        disk.certain = dict(disk.names)
        return disk

    def take(self, op: Op) -> None:
        match op.kind:
            case "ack":
                self.acks.append(op.path)
            case "make":
                if op.path not in self.names:
                    self.names[op.path] = File()
                    self.renames.append((op, self.names[op.path]))
            case "write" | "cut":
                file = self.names[op.path]
                where = file.size if op.at < 0 else op.at
                file.since.append(Op(op.kind, op.path, at=where, data=op.data))
                file.size = where if op.kind == "cut" else max(file.size, where + len(op.data))
            case "sync" if op.path in self.names:
                file = self.names[op.path]
                file.synced, file.since = _after(file.synced, file.since), []
                self.certain, self.renames = dict(self.names), []
            case "sync":  # a folder
                self.certain, self.renames = dict(self.names), []
            case "rename":
                self.names[op.to] = self.names.pop(op.path)
                self.renames.append((op, self.names[op.to]))
            case "unlink":
                self.renames.append((op, self.names.pop(op.path)))

    def left(self, chance: random.Random, at: Path, folder: Path) -> None:
        """Write into ``at`` what the power leaves of ``folder``."""
        names = dict(self.certain)
        for op, file in self.renames[: chance.randint(0, len(self.renames))]:
            names.pop(op.path, None)
            if op.kind != "unlink":
                names[op.to or op.path] = file
        for path, file in names.items():
            whole = chance.choice((0.0, 0.5, 0.9, 1.0))
            kept = [piece for op in file.since for piece in _pieces(op) if chance.random() < whole]
            target = at / os.path.relpath(path, folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_after(file.synced, kept))


def _pieces(op: Op) -> Iterator[Op]:
    if op.kind != "write":
        yield op
        return
    start = op.at
    while start < op.at + len(op.data):
        end = min(op.at + len(op.data), (start // SECTOR + 1) * SECTOR)
        yield Op("write", op.path, at=start, data=op.data[start - op.at : end - op.at])
        start = end


def _after(data: bytes, ops: list[Op]) -> bytes:
    held = bytearray(data)
    for op in ops:
        if op.kind == "cut":
            held = held[: op.at].ljust(op.at, b"\0")
        else:
            if len(held) < op.at:
                held.extend(bytes(op.at - len(held)))
            held[op.at : op.at + len(op.data)] = op.data
    return bytes(held)
