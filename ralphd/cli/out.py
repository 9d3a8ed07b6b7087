"""How words reach whoever called: in the encoding that their terminal has, harmless, whatever they quote."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable

import click

from ralphd.views.text import lines

INTERRUPTED = 130  # 128 + SIGINT, as a shell says it
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def be_lenient() -> None:
    """Show a letter that the terminal's encoding lacks as an escape instead of failing on it."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # None when it is closed; something else in tests
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Print one line; foreign words in it can't move the cursor."""
    click.echo(_harmless(text))


def hint(text: str) -> None:
    """Print one line on stderr, where it doesn't disturb what is piped on."""
    click.echo(_harmless(text), err=True)


def _harmless(text: str) -> str:
    return " ".join(lines(text)).rstrip()


def data(value: object) -> None:
    click.echo(json.dumps(value, indent=1))


def data_lines(values: Iterable[object]) -> None:
    """Print one JSON value a line."""
    for value in values:
        click.echo(json.dumps(value))


def encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def columns() -> int:
    return shutil.get_terminal_size().columns


def is_terminal() -> bool:
    """Tell whether a person sees what is printed and can answer."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
