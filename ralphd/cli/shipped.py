"""Where prompts/, migrations/ and systemd/ are: in the package when installed from a wheel, beside it in a checkout."""

from __future__ import annotations

import os

import ralphd
from ralphd.core.errors import UsageError

PACKAGE = os.path.dirname(os.path.abspath(ralphd.__file__))
GUARDED = os.path.join(PACKAGE, "pane", "guarded.py")
RUNNER = os.path.join(PACKAGE, "pane", "runner.py")


def folder(name: str) -> str:
    """Return the folder ``name``. Raises UsageError when this installation lacks it."""
    for place in (os.path.join(PACKAGE, "shipped", name), os.path.join(os.path.dirname(PACKAGE), name)):
        if os.path.isdir(place):
            return place
    raise UsageError(f"this installation of ralphd has no {name}/ folder; install it again from the wheel")


def text(name: str) -> str:
    """Return a prompt's text by its path below prompts/."""
    with open(os.path.join(folder("prompts"), name), encoding="utf-8") as file:
        return file.read()
