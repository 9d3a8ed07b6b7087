"""The newest sentences of a loop's log, for who looks again and again: each byte is read once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from ralphd.agents import Lines, adapter
from ralphd.cli import logs
from ralphd.pane.digest import plain, sentence

BEGIN_BYTES = 1 << 16  # of what is there already: more than a screen of sentences
LINES_KEPT = 200


class Tail:
    """Follows one loop, session after session, piece after piece."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._cli, self._hide = logs.whose(folder)
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._session: logs.Session | None = None
        self._piece, self._place = "", 0
        self._read: Callable[[bytes], None] = lambda _chunk: None

    def look(self) -> list[str]:
        """Return the newest sentences so far."""
        newest = next(reversed(logs.sessions(self._folder)), None)
        if newest is not None and newest != self._session:
            self._begin(newest)
        if self._session is not None:
            self._follow(self._session.path)
        return list(self._lines)

    def _begin(self, session: logs.Session) -> None:
        self._lines.append(f"--- {session.title}")
        self._session, self._piece = session, _newest_piece(session.path)
        self._place = max(0, _size(self._piece) - BEGIN_BYTES)
        self._read = self._reader(skips=self._place > 0)

    def _reader(self, *, skips: bool) -> Callable[[bytes], None]:
        lines, reader = Lines(), adapter(self._cli).reader()
        left_out = [skips]  # the rest of a line that began before

        def read(chunk: bytes) -> None:
            for start, end, line in lines.feed(chunk):
                if left_out[0]:
                    left_out[0] = False
                    continue
                for told in reader.read(line, start, end):
                    if words := plain(self._hide(sentence(told)[: logs.SENTENCE_CHARS])):
                        self._lines.append(words)

        return read

    def _follow(self, path: str) -> None:
        budget = BEGIN_BYTES * 16  # of one look: a flood must not keep a person waiting
        while budget > 0:
            data = logs.read_at(self._piece, self._place)
            if data:
                self._place += len(data)
                budget -= len(data)
                self._read(data)
            elif (following := logs.next_piece(path, self._piece)) != self._piece:
                self._piece, self._place = following, 0
            else:
                return


def _newest_piece(path: str) -> str:
    piece = path
    while (following := logs.next_piece(path, piece)) != piece:
        piece = following
    return piece


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0
