"""What a loop's agent said and did last, as sentences: what a person would read in its pane."""

from __future__ import annotations

import os
from collections.abc import Callable

from ralphd.agents import NAMES, Lines, adapter
from ralphd.cli.logs import sessions
from ralphd.pane.digest import plain, sentence

TAIL_BYTES = 128 << 10  # a page of sentences, between the events of a stream
SENTENCE_CHARS = 400
LOOK_AT_CHARS = 8192  # far behind what is sent
ENOUGH = 10  # sentences of a session that has only begun say nothing


def excerpt(folder: str, cli: str, hide: Callable[[str], str] = str) -> str:
    """Return the end of the newest session's log, of the one before too if that is short. Never raises.

    ``hide`` takes secrets out before anything is cut: half a secret is not known for one.
    """
    told: list[str] = []
    for session in reversed(sessions(folder)[-2:]):
        told = [*_sentences(_tail(session.path), cli, hide), *told]
        if len(told) >= ENOUGH:
            break
    return "\n".join(told)


def _sentences(data: bytes, cli: str, hide: Callable[[str], str]) -> list[str]:
    lines, reader = Lines(), adapter(cli if cli in NAMES else "command").reader()
    signals = (
        told for start, end, line in (*lines.feed(data), *lines.close()) for told in reader.read(line, start, end)
    )
    told = (plain(hide(sentence(signal)[:LOOK_AT_CHARS])[:SENTENCE_CHARS]) for signal in signals)
    return [text for text in told if text]


def _tail(path: str) -> bytes:
    """Read the end of a log, of its first piece if there are several; from a whole line on."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES))
    except OSError:
        return b""
    finally:
        os.close(fd)
    return data if size <= TAIL_BYTES else data.partition(b"\n")[2]
