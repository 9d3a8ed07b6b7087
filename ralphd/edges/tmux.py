"""What the private tmux server holds, and how windows in it are opened, read and ended."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ralphd.core.errors import TmuxError, UsageError
from ralphd.edges import tmux_script
from ralphd.edges.processes import Identity, identity, signal_if_same
from ralphd.edges.tmux_script import SESSION
from ralphd.edges.tmux_socket import peer_pid

if TYPE_CHECKING:
    from ralphd.edges.tmux_call import Answer, BoundedServer

OLDEST_TMUX = (3, 2)  # default-size, `=name` targets and `source-file -` all behave from here on
CALL_TIMEOUT_S = 5.0  # a healthy server answers in 3 ms; a herd of 512 windows gets more, see open_windows
WINDOW_TIMEOUT_S = 0.1  # per window: 512 took 1.8 s on two idle cores
START_TIMEOUT_S = 10.0  # how long a dying server may stand in the way of a new one

_PANE_ID = re.compile(r"%\d{1,9}", re.ASCII)
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})", re.ASCII)
_NO_SERVER = ("no server running", "(No such file or directory)", "(Connection refused)")
_DYING_SERVER = ("server exited", "lost server", "no current target", "no sessions", *_NO_SERVER)
_NO_TARGET = ("can't find",)

# Everything that reaches a pane's environment from here; the runner adds what the night's configuration names.
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "XDG_RUNTIME_DIR")

_PANE_FIELDS = (
    "pane_id",
    "pane_pid",
    "pane_dead",
    "window_active_clients",
    "pane_in_mode",
    f"==:#{{session_name}},{SESSION}",
    "window_name",  # last: the only field that could hold a space
)
_PANE_FORMAT = " ".join(f"#{{{field}}}" for field in _PANE_FIELDS)


@dataclass(frozen=True, kw_only=True)
class Pane:
    """One pane. ``attached``: a person looks at this very window; ``in_mode``: they scroll in copy mode."""

    window_name: str
    pane_id: str
    pid: int
    dead: bool
    attached: bool
    in_mode: bool


@dataclass(frozen=True, kw_only=True)
class Client:
    """A terminal that is attached. ``pid`` is the tmux client's."""

    tty: str
    pid: int
    window_name: str


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep what the server and every pane start with: a short allow-list, no secrets, no surrounding tmux."""
    kept = {name: environ[name] for name in _PASSED if name in environ}
    return {"PATH": os.defpath, "TERM": "screen-256color", "SHELL": "/bin/sh", **kept}


class Tmux:
    """The server behind one socket. Every method raises TmuxError when tmux fails or doesn't answer in time."""

    def __init__(self, socket: str, *, environ: Mapping[str, str], timeout_s: float = CALL_TIMEOUT_S) -> None:
        self.socket = socket
        self._environ = clean_environment(environ)
        self._timeout_s = timeout_s

    # ------------------------------------------------------------------ is there a usable tmux?

    def version(self) -> str:
        """Give what ``tmux -V`` says, such as ``tmux 3.3a``. UsageError when there is no tmux."""
        self._program()
        return " ".join(self._server().bounded("-V").stdout) or "tmux of no version"

    def check(self) -> str:
        """Give the version, or raise UsageError naming it and the way out when it is older than 3.2."""
        version = self.version()
        match = _VERSION.search(version)
        if match and (int(match[1]), int(match[2])) < OLDEST_TMUX:
            raise UsageError(
                f"{version} is too old: ralphd needs tmux 3.2 or newer; install a newer one (apt install tmux)"
            )
        return version

    # ------------------------------------------------------------------ the server

    def server_pid(self) -> int | None:
        """Ask the kernel who listens on the socket: known even while the server hangs. None: no server."""
        pid = peer_pid(self.socket)
        # A pane's child that was just forked holds a dead server's socket open for a moment more.
        return pid if pid is not None and identity(pid) else None

    def alive(self) -> bool:
        """Whether something listens; a hung server is alive, and ``panes`` says that it doesn't answer."""
        return self.server_pid() is not None

    def kill_server(self, wait_s: float = START_TIMEOUT_S) -> None:
        """Ask the server to end and wait until its process is gone, so that a new one can start at once.

        One that is still there after ``wait_s`` is killed. Without a server nothing happens.
        """
        pid = self.server_pid()
        if pid is None:
            return
        try:
            watched = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            with contextlib.suppress(TmuxError):  # it hangs: then it is made to end
                self._call("kill-server", tolerate=_DYING_SERVER)
            if _ended(watched, wait_s):
                return
            signal.pidfd_send_signal(watched, signal.SIGKILL)
            if not _ended(watched, wait_s):
                raise TmuxError(f"tmux server {pid} (socket {self.socket}) doesn't end, not even killed")
        finally:
            os.close(watched)

    def bring_socket_back(self, server: Identity, wait_s: float = START_TIMEOUT_S) -> bool:
        """Have a server whose socket was removed make it anew; False when that server is gone or doesn't."""
        if not signal_if_same(server, signal.SIGUSR1):
            return False
        deadline = time.monotonic() + wait_s
        while self.server_pid() != server.pid:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    # ------------------------------------------------------------------ windows and panes

    def open_windows(
        self, windows: Sequence[tuple[str, Sequence[str]]], *, home: Sequence[str], reuse: bool = False
    ) -> dict[str, str]:
        """Open every ``(name, argv)`` by one call; ``{name: pane_id}``.

        Names are loop ids; ``argv[0]`` is absolute, and no shell reads any of it. A missing session is made first, with
        ``home`` running in window 0. A name that is already open is a TmuxError, or with ``reuse`` its pane as it is.
        A name that is missing in the answer could not be opened; TmuxError when that is so of all.
        """
        tmux_script.refuse_bad_names([name for name, _ in windows])
        script_of = {name: tmux_script.window(name, argv) for name, argv in windows}
        open_now = {pane.window_name: pane.pane_id for pane in self.panes().values()}
        taken = {name: open_now[name] for name in script_of if name in open_now}
        if taken and not reuse:
            raise TmuxError(f"window {', '.join(sorted(taken))} is open already; end its pane before opening it again")
        wanted = [script for name, script in script_of.items() if name not in taken]
        opened, said = self._source([*tmux_script.house(home, open_now), *wanted], len(wanted))
        answer = {name: pane_id for name, pane_id in {**opened, **taken}.items() if name in script_of}
        if said and not answer:
            raise TmuxError(f"tmux opened no window: {said[:500]}")
        return answer

    def panes(self) -> dict[str, Pane]:
        """Every pane of the session by pane id; empty when there is no server. Titles are never read."""
        answer = self._call("list-panes", "-a", "-F", _PANE_FORMAT, tolerate=_DYING_SERVER)
        return {pane.pane_id: pane for line in answer.stdout if (pane := _pane(line))}

    def kill_pane(self, pane_id: str) -> bool:
        """End exactly this pane. False when it was gone already."""
        answer = self._call("kill-pane", "-t", _exact(pane_id), tolerate=(*_NO_TARGET, *_DYING_SERVER))
        return answer.returncode == 0

    def capture(self, pane_id: str, lines: int) -> list[str]:
        """Read the last ``lines`` lines of a pane with its scrollback, text only. The text is the agent's: hostile."""
        answer = self._call("capture-pane", "-p", "-t", _exact(pane_id), "-S", f"-{lines}")
        return answer.stdout[-lines:]

    # ------------------------------------------------------------------ people

    def clients(self) -> list[Client]:
        """Who is attached; empty when there is no server."""
        form = "#{client_pid} #{client_tty} #{window_name}"
        answer = self._call("list-clients", "-F", form, tolerate=_DYING_SERVER)
        rows = [line.split(" ", 2) for line in answer.stdout]
        return [Client(pid=int(pid), tty=tty, window_name=name) for pid, tty, name in rows]

    def attach_argv(self, window: str | None = None) -> list[str]:
        """Say what to exec to look at a window or the session; it works inside another tmux too, not in this one."""
        if window is not None:
            tmux_script.refuse_bad_names([window])
        target = f"={SESSION}:={window}" if window else f"={SESSION}"
        return [self._program(), "-f", "/dev/null", "-S", self.socket, "attach-session", "-t", target]

    # ------------------------------------------------------------------ how tmux is called

    def _program(self) -> str:
        program = shutil.which("tmux", path=self._environ["PATH"])
        if program is None:
            raise UsageError("there is no tmux on PATH; install it: apt install tmux")
        return program

    def _server(self) -> BoundedServer:
        # libtmux costs 70 ms of a processor, and who only adopts loops asks tmux nothing.
        from ralphd.edges.tmux_call import BoundedServer  # noqa: PLC0415

        try:
            program = self._program()
        except UsageError as error:  # in the middle of a night it is a failure like any other
            raise TmuxError(str(error)) from None
        return BoundedServer(self.socket, program=program, environ=self._environ, timeout_s=self._timeout_s)

    def _call(self, *args: str, tolerate: Sequence[str] = ()) -> Answer:
        answer = self._server().bounded(*args)
        said = " ".join(answer.stderr)
        if answer.returncode != 0 and not any(text in said for text in tolerate):
            raise TmuxError(f"tmux {args[0]} failed: {said[:500] or f'exit {answer.returncode}'}")
        return answer

    def _source(self, lines: Sequence[str], windows: int) -> tuple[dict[str, str], str]:
        """Run a script: ``{name: pane_id}`` of what it opened, and what tmux complained of.

        A server that is just going away is waited out.
        """
        script = "".join(lines)
        timeout_s = self._timeout_s + WINDOW_TIMEOUT_S * windows
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            answer = self._server().bounded("start-server", ";", "source-file", "-", stdin=script, timeout_s=timeout_s)
            said = " ".join(answer.stderr)
            opened = dict(line.split(" ", 1)[::-1] for line in answer.stdout if line.startswith("%"))
            dying = answer.returncode != 0 and any(text in said for text in _DYING_SERVER)
            if not dying or opened or time.monotonic() > deadline:
                return opened, said
            self._wait_while_it_dies()

    def _wait_while_it_dies(self) -> None:
        pid = self.server_pid()
        try:
            watched = os.pidfd_open(pid) if pid else None
        except ProcessLookupError:
            watched = None
        if watched is None:
            time.sleep(0.01)  # nobody to wait for: the next try starts a server of its own
            return
        try:
            _ended(watched, 1.0)
        finally:
            os.close(watched)


def _ended(pidfd: int, wait_s: float) -> bool:
    watcher = select.poll()  # select() refuses descriptors past 1023, and the daemon holds a log per loop
    watcher.register(pidfd, select.POLLIN)
    return bool(watcher.poll(wait_s * 1000))


def _exact(pane_id: str) -> str:
    if not _PANE_ID.fullmatch(pane_id):
        raise TmuxError(f"{pane_id!r} is not a pane id such as %12")
    return pane_id


def _pane(line: str) -> Pane | None:
    fields = line.split(" ", len(_PANE_FIELDS) - 1)
    if len(fields) != len(_PANE_FIELDS) or not _PANE_ID.fullmatch(fields[0]) or fields[5] != "1":
        return None
    pane_id, pid, dead, clients, in_mode, _ours, name = fields
    return Pane(
        window_name=name,
        pane_id=pane_id,
        pid=int(pid or 0),
        dead=dead == "1",
        attached=clients not in ("", "0"),
        in_mode=in_mode not in ("", "0"),
    )
