"""Which tool calls run below an agent with no guard around them, and how such a call is watched and told why it ends.

For shells that can't be led to the guard: the one of the passwd entry that Codex runs, where that is not Bash, or one
that the model asks for. Each call is the leader of a session of its own, directly below the CLI.
"""

from __future__ import annotations

import os
import stat

from ralphd.pane.procs import children, forest, read, same, slurp
from ralphd.pane.watched import LINE_BYTES, Call, command_of, is_guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ralphd.pane.procs import Proc

COMMAND_OPTIONS = (b"-c", b"-lc", b"-ic", b"-ilc")
YOUNGEST_S = 0.2  # a shell that becomes the guard does so in its first tenth of a second
LOOK_S = 0.25  # between two looks for such calls; a fast one allocates half a gigabyte meanwhile


class BareCall(Call):
    """A call whose shell has no wrapper: the shell is one of its processes, and its output is its client's."""

    def __init__(self, **known: Any) -> None:
        super().__init__(**known)
        self.command = _typed(self.wrapper[0])
        self._client_file = ""

    @property
    def output(self) -> tuple[str, ...]:
        return ()

    def members(self) -> list[Proc]:
        """Return every living process of the call, its shell included."""
        survivors = [pid for pid, identity in self._known.items() if same(identity) is not None]
        shell = [self.wrapper[0]] if self.wrapper_lives() else []
        return self._note(forest([*survivors, *shell]))

    def abandoned(self, *, lives: bool) -> bool:  # noqa: ARG002 -- the contract; here the shell's end is no wrapper's
        """Leave what the shell left behind the rest of the call's time, as it has behind a guard."""
        return False

    def precedes(self, proc: Proc) -> bool:
        return self.wrapper[1] <= proc.start_ticks

    def say(self, text: str, exit_status: int) -> None:  # noqa: ARG002 -- the contract; the kill decides the status
        """Write the reason to the call's own output, which its client reads; the kill follows."""
        for number in (1, 2):
            if self.wrapper_lives() and _write(f"/proc/{self.wrapper[0]}/fd/{number}", text):
                return


def _write(path: str, text: str) -> bool:
    """Write to a pipe or a terminal, never to a file that the command itself writes, and never waiting for a reader."""
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
            return False
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.write(fd, text.encode("utf-8", "replace")) > 0
    except OSError:
        return False
    finally:
        os.close(fd)


def bare_calls(agent: int) -> list[Proc]:
    """Return who leads a session of its own directly below the processes of the agent's session, guards left out.

    No shell is looked for: one that has a single command, or a last one, becomes that.
    """
    found: list[Proc] = []
    waiting = [agent]
    while waiting:
        for pid in children(waiting.pop()):
            proc = read(pid)
            if proc is None or not proc.alive:
                continue
            if proc.sid == agent:
                waiting.append(pid)
            elif proc.sid == pid and not is_guard(pid, command_line(pid)):
                found.append(proc)
    return found


def command_line(pid: int) -> list[bytes]:
    return slurp(f"/proc/{pid}/cmdline", LINE_BYTES).split(b"\0")[:-1]


def _typed(pid: int) -> str:
    """Return what a shell was given by ``-c``, else the whole command line."""
    argv = command_line(pid)
    if any(option in COMMAND_OPTIONS for option in argv[1:2]):
        return command_of(pid)
    return b" ".join(argv).decode("utf-8", "replace")
