"""How do many stub agents share one night: each loop plays the part that bears its name, a shell script of its own?"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.nightbox import NightBox, night_box
from support.repositories import git

# What every part may use. `alive`: show signs of life and do nothing else, until the night ends.
HELPERS = """\
alive() { while :; do echo .; sleep 0.5; done; }
commit() { git add -A && git commit -qm "$1"; }
from() { [ "$RALPHD_TRAJECTORY" -ge "$1" ]; }
"""


def play(folder: Path, parts: Mapping[str, str]) -> Path:
    """Return a program that plays the part named like the loop it runs in."""
    folder.mkdir(parents=True, exist_ok=True)
    for loop, script in parts.items():
        (folder / loop).write_text(HELPERS + script)
    program = folder / "agent"
    program.write_text(f'#!/bin/sh\nexec bash {shlex.quote(str(folder))}/"$RALPHD_LOOP"\n')
    program.chmod(0o755)
    return program


@contextmanager
def cast(
    root: Path,
    parts: Mapping[str, str],
    toml: str,
    files: Mapping[str, str],
    *,
    repo: str = "repo",
    environ: Mapping[str, str] | None = None,
) -> Iterator[NightBox]:
    """A box with a repository of ``files``; in ``toml`` the word PROGRAM stands for the agent."""
    at = root / repo
    at.mkdir(parents=True)
    git(at, "init", "-q", "-b", "main")
    for name, text in {"PROMPT.md": "Go on.\n", **files}.items():
        (at / name).write_text(text)
    git(at, "add", "-A")
    git(at, "commit", "-qm", "begin")
    with night_box(root, at, environ) as box:
        box.configure(toml.replace("PROGRAM", str(play(root / "cast", parts))))
        yield box


def ended(box: NightBox, loop: str) -> list[dict]:
    """The bodies of a loop's trajectory ends, as its runner wrote them down."""
    try:
        records = box.records(loop)
    except FileNotFoundError:
        return []
    return [record["body"] for record in records if record["type"] == "TrajectoryEnded"]


def kinds(box: NightBox, loop: str) -> list[str]:
    return [body["outcome"]["kind"] for body in ended(box, loop)]


def bodies(box: NightBox, loop: str, kind: str) -> list[dict]:
    return [record["body"] for record in box.records(loop) if record["type"] == kind]


def stranger(*command: str, **env: str) -> subprocess.Popen[bytes]:
    """A process of somebody else, in a session of its own."""
    return subprocess.Popen(
        command,
        env={"PATH": os.environ["PATH"], **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
