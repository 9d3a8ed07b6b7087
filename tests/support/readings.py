"""Whole streams through the real cutting and reading, for tests."""

from __future__ import annotations

from ralphd.agents import Lines, adapter
from ralphd.core.facts import Facts
from ralphd.core.reading import Reading
from ralphd.core.signals import Signal


def signals(cli: str, data: bytes, chunk: int = 65536) -> list[Signal]:
    """Read ``data`` as the runner does, ``chunk`` bytes at a time."""
    lines, reader = Lines(), adapter(cli).reader()
    cut = [line for at in range(0, len(data), chunk) for line in lines.feed(data[at : at + chunk])]
    return [signal for start, end, line in [*cut, *lines.close()] for signal in reader.read(line, start, end)]


def reading(cli: str, data: bytes, chunk: int = 65536) -> Reading:
    fold = Reading()
    for signal in signals(cli, data, chunk):
        fold.add(signal)
    return fold


def facts(cli: str, data: bytes = b"", *, exit_code: int | None = 0, **known: object) -> Facts:
    """The facts of one process that printed ``data``."""
    return Facts(
        cli=cli, exit_code=exit_code, reading=reading(cli, data), log="the.log", stderr_file="the.err", **known
    )
