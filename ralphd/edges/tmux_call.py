"""How one tmux command runs so that a hung server or program can't hold its caller."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

import libtmux
from libtmux.common import tmux_cmd

from ralphd.core.errors import TmuxError

_REAP_S = 1.0  # after SIGKILL; longer only when the kernel holds it, and then nobody should wait


class Answer(tmux_cmd):
    """What a tmux command said: ``stdout`` and ``stderr`` as lines, and its ``returncode``."""

    def __init__(self, argv: list[str], *, stdout: bytes, stderr: bytes, returncode: int) -> None:
        # Not tmux_cmd's own constructor: it starts the process with no time limit and with our whole environment.
        self.cmd = argv
        self.stdout = _lines(stdout)
        self.stderr = _lines(stderr)
        self.returncode = returncode


class BoundedServer(libtmux.Server):
    """libtmux's server whose every command has a time limit, a clean environment and no configuration file."""

    def __init__(self, socket: str, *, program: str, environ: Mapping[str, str], timeout_s: float) -> None:
        super().__init__(socket_path=socket, config_file="/dev/null")
        self._prefix = [program, "-f", "/dev/null", "-S", socket]
        self._environ = dict(environ)
        self._timeout_s = timeout_s

    def cmd(self, cmd: str, *args: Any, target: str | int | None = None) -> tmux_cmd:
        """Run what any part of libtmux asks for. TmuxError when tmux can't be run or doesn't answer in time."""
        aimed = [] if target is None else ["-t", str(target)]
        return self.bounded(cmd, *aimed, *(str(arg) for arg in args))

    def bounded(self, *args: str, stdin: str = "", timeout_s: float | None = None) -> Answer:
        """One tmux command line with ``stdin`` fed to it; the answer, whatever its exit code."""
        argv = [*self._prefix, *args]
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            process = _start(argv, self._environ)
        except (OSError, ValueError) as error:
            raise TmuxError(f"tmux can't be run: {error}") from None
        try:
            stdout, stderr = process.communicate(stdin.encode(), timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise TmuxError(f"tmux {args[0]} didn't answer within {limit_s:g} s (socket {self.socket_path})") from None
        finally:
            _end(process)
        return Answer(argv, stdout=stdout, stderr=stderr, returncode=process.returncode)


def _start(argv: list[str], environ: dict[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    # In "/" because panes inherit it, and no pane should hold the folder of whoever typed `ralphd start`. In a session
    # of its own so that what a wrapper around tmux started goes with it; a server that was started has left by itself.
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd="/", env=environ, start_new_session=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):  # unsent input of a process that is gone
                stream.close()


def _lines(output: bytes) -> list[str]:
    return output.decode("utf-8", "backslashreplace").removesuffix("\n").split("\n") if output else []
