"""How a runner reads and writes small files that an agent of the same user may have tampered with."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import File

SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY  # never through a link, never blocked by a FIFO
PIECE_BYTES = 1 << 16  # from 128 KiB on, malloc learns to keep what is freed: 0.1 MiB more in each pane


class NotPlain(OSError):
    """Something else than a regular file lies there: a link, a folder, a FIFO, a device."""


def open_regular(path: str, flags: int = os.O_RDONLY, *, dir_fd: int | None = None) -> int:
    """Open ``path`` without following a link and return the descriptor. Raises OSError, NotPlain for odd things."""
    try:
        fd = os.open(path, flags | SAFE, 0o600, dir_fd=dir_fd)
    except OSError as error:
        if os.path.islink(path) and dir_fd is None:
            raise NotPlain(error.errno, "is a symbolic link", path) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotPlain(0, "is not a regular file", path)
    return fd


def read_regular(path: str, limit_bytes: int) -> bytes:
    """Return the bytes of a regular file. Raises NotPlain also when it is larger than ``limit_bytes``."""
    fd = open_regular(path)
    try:
        if os.fstat(fd).st_size > limit_bytes:
            raise NotPlain(0, f"is larger than {limit_bytes} bytes", path)
        return _read_up_to(fd, limit_bytes + 1)[:limit_bytes]
    finally:
        os.close(fd)


def _read_up_to(fd: int, count: int) -> bytes:
    pieces = []
    while count > 0:
        piece = os.read(fd, min(count, PIECE_BYTES))
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def replace_whole(path: str, data: bytes) -> None:
    """Put ``data`` at ``path`` at once: a reader sees the old file or the new one, never a half."""
    temporary = f"{path}.new"
    forget(temporary)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)
    os.rename(temporary, path)


def lay(folder: str, files: tuple[File, ...]) -> None:
    """Put an adapter's files below ``folder``, each whole. What an agent put in place of a folder of it is removed."""
    for file in files:
        parts = file.path.split("/")
        if ".." in parts or not all(parts):
            raise ValueError(f"not a path below the folder: {file.path!r}")
        path = folder
        for part in ("", *parts[:-1]):
            path = os.path.join(path, part) if part else path
            if os.path.islink(path):
                os.unlink(path)
            os.makedirs(path, mode=0o700, exist_ok=True)
        path = os.path.join(path, parts[-1])
        if file.link:
            forget(path)
            os.symlink(file.link, path)
        else:
            replace_whole(path, file.text.encode())


def forget(path: str, *, dir_fd: int | None = None) -> bool:
    """Remove a file if it is there and can be; say whether it was."""
    try:
        os.unlink(path, dir_fd=dir_fd)
    except OSError:
        return False
    return True


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
