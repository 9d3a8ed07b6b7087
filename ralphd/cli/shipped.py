"""Where prompts/, migrations/ and systemd/ are: in the package when installed from a wheel, beside it in a checkout."""

from __future__ import annotations

import os
import subprocess
import sys

import ralphd
from ralphd.core.errors import UsageError

PACKAGE = os.path.dirname(os.path.abspath(ralphd.__file__))
GUARDED = os.path.join(PACKAGE, "pane", "guarded.py")
RUNNER = os.path.join(PACKAGE, "pane", "runner.py")
# -I -S -E: nothing of the user's Python setup is loaded; -X frozen_modules keeps the runner's start short.
LEAN_PYTHON = (os.path.realpath(sys.executable), "-I", "-S", "-E")
RUNNER_USAGE = 2  # what the runner says when it is given no loop
RUNNER_PATIENCE_S = 60.0  # it answers in 60 ms; a machine that is this slow is not one to spend a night on


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


def check_runner(python: tuple[str, ...] = LEAN_PYTHON, runner: str = RUNNER) -> None:
    """See that a runner can start at all: in a window nobody would read why not. Raises UsageError."""
    try:
        done = subprocess.run(
            [*python, runner],
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=RUNNER_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"the loops' runner can't be started: {error}; install ralphd again") from None
    if done.returncode != RUNNER_USAGE:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
        raise UsageError(f"the loops' runner can't run with {python[0]}: {said[-1][:300]}; install ralphd again")
