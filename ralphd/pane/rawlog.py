"""Where the raw bytes of a trajectory go, and how much of an endless stream is kept."""

from __future__ import annotations

import os

from ralphd.pane.files import SAFE, forget, write_all

PIECE_BYTES = 64 << 20
NEWEST_PIECES = 3  # with the first one: 256 MiB a trajectory at most, its beginning and its end


class RawLog:
    """One stream in pieces ``name``, ``name.1``, ``name.2`` … of equal size.

    ``offset`` counts every byte of the stream, kept or not, so a signal's range means the same piece and place for
    ever. A disk that is full stops the log, not the agent: ``trouble`` then says why, ``lost_bytes`` how much.
    """

    def __init__(self, folder: str, name: str, *, piece_bytes: int = PIECE_BYTES) -> None:
        self.path = os.path.join(folder, name)
        self.offset = 0
        self.lost_bytes = 0
        self.trouble = ""
        self._name = name
        self._piece_bytes = piece_bytes
        self._piece = -1
        self._fd = -1
        self._folder = -1
        try:
            self._folder = _open_folder(folder)
        except OSError as error:
            self.trouble = str(error)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            piece, used = divmod(self.offset, self._piece_bytes)
            part = view[: self._piece_bytes - used]
            self._store(piece, part)
            self.offset += len(part)
            view = view[len(part) :]

    def close(self) -> None:
        for fd in (self._fd, self._folder):
            if fd >= 0:
                os.close(fd)
        self._fd = self._folder = -1

    def _store(self, piece: int, part: memoryview) -> None:
        if not self.trouble:
            try:
                if piece != self._piece:
                    self._turn_to(piece)
                write_all(self._fd, part)  # type: ignore[arg-type]  # any buffer will do
            except OSError as error:
                self.trouble = error.strerror or str(error)
        if self.trouble:
            self.lost_bytes += len(part)

    def _turn_to(self, piece: int) -> None:
        """Open a new piece (the descriptor stays ours whatever becomes of the name) and drop a middle one."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        forget(self._name_of(piece), dir_fd=self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | SAFE
        self._fd = os.open(self._name_of(piece), flags, 0o600, dir_fd=self._folder)
        self._piece = piece
        if piece - NEWEST_PIECES > 0:
            forget(self._name_of(piece - NEWEST_PIECES), dir_fd=self._folder)

    def _name_of(self, piece: int) -> str:
        return f"{self._name}.{piece}" if piece else self._name


def _open_folder(folder: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | SAFE
    try:
        return os.open(folder, flags)
    except FileNotFoundError:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return os.open(folder, flags)
