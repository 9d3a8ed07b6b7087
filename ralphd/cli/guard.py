"""One command under the limits of a tool call, for people."""

from __future__ import annotations

import math
import os
import sys

import click

from ralphd.cli import settings, shipped
from ralphd.core.configfile import size
from ralphd.core.errors import EdgeError, UsageError

GREEDY = {"ignore_unknown_options": True, "allow_interspersed_args": False}  # what follows is the command's own


@click.command(context_settings=GREEDY)
@click.option("--seconds", type=float, help="End it after this long (default: limits.tool_seconds).")
@click.option("--memory", metavar="SIZE", help="End it beyond this, its whole tree (default: limits.tool_memory).")
@click.option("--config", "config", metavar="FILE", default="", help="Take the limits from this ralphd.toml.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def guard(seconds: float | None, memory: str | None, config: str, command: tuple[str, ...]) -> None:
    """Run a command under the limits of a tool call.

    For example: ralphd guard -- make test. Its output and exit status are its own;
    past a limit it is ended with all it started, and the status is 124 (time)
    or 137 (memory).
    """
    limits = settings.found_from(os.getcwd(), config).read().limits
    seconds_s = limits.tool_seconds if seconds is None else seconds
    memory_bytes = limits.tool_memory_bytes if memory is None else _size(memory)
    if not 0 < seconds_s < math.inf:
        raise UsageError(f"--seconds must be a number over 0, not {seconds_s:g}")
    order = ["--seconds", f"{seconds_s:g}", "--memory", str(memory_bytes), "--", *command]
    argv = [sys.executable, "-I", "-S", "-E", shipped.GUARDED, *order]
    try:
        os.execv(sys.executable, argv)  # noqa: S606 - by argv; the guard takes our place, so signals reach it
    except OSError as error:
        raise EdgeError(f"the guard can't be run: {error.strerror}") from None


def _size(text: str) -> int:
    try:
        return size(text)
    except ValueError as error:
        raise UsageError(f"--memory {error}") from None
