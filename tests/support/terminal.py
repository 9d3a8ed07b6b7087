"""A terminal in which a person runs one command: what it shows, and which keys are pressed."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from support.nightbox import until


class Terminal:
    """A pane of a tmux server of its own, of 80 by 24 and without colour."""

    def __init__(self, socket: Path, env: dict[str, str], cwd: Path) -> None:
        self._socket, self._cwd = str(socket), cwd
        self._env = {**env, "NO_COLOR": "1", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}

    def tmux(self, *arguments: str, check: bool = True) -> str:
        argv = ["tmux", "-f", "/dev/null", "-S", self._socket, *arguments]
        done = subprocess.run(argv, env=self._env, cwd=self._cwd, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, (arguments, done.stderr)
        return done.stdout

    def run(self, *argv: str) -> None:
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", "-s", "t", f"{shlex.join(argv)}; echo LEFT; cat")

    def screen(self, *more: str) -> str:
        return self.tmux("capture-pane", "-p", *more, "-t", "t")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "t", *keys)

    def wait(self, pattern: str) -> str:
        """The screen once it shows that."""
        return until(lambda: re.search(pattern, found := self.screen()) and found, pattern, say=self.screen)

    def close(self) -> None:
        self.tmux("kill-server", check=False)
