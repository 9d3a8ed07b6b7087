"""What one tool call uses, whom it started, and how all of that is ended."""

from __future__ import annotations

import os
import signal
import stat

from ralphd.pane import cgroup
from ralphd.pane import limits as lim
from ralphd.pane.procs import descends_from, forest, read, same, signal_if_same, slurp, strike

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ralphd.pane.limits import Excess, Limits, Usage
    from ralphd.pane.procs import Identity, Proc

GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard")
LINE_BYTES = 65536  # of a wrapper's command line, enough to name what an agent typed
TERM_GRACE_S = 0.1  # the client that sent TERM follows with KILL within 0.2 s (gemini, qwen)


class Call:
    """One tool call from its announcement until its last process is gone. Times are in seconds of one clock."""

    def __init__(
        self, *, call_id: str, wrapper: Identity, opened: float, folder: str, max_seconds: float, group: str = ""
    ) -> None:
        self.id = call_id
        self.cell = os.path.join(group, call_id) if group else ""  # its cgroup, if the wrapper made one
        self.wrapper = wrapper
        self.opened = opened
        self.base = os.path.join(folder, call_id)
        self.due = opened + min(lim.SHORTEST_S, max_seconds)
        self.command = command_of(wrapper[0])
        self._client_file = appended_by(wrapper[0], os.path.realpath(self.base) + ".out")
        self.status: int | None = None
        self.closed = False  # its end is told
        self.over: Excess | None = None
        self.stopping_since: float | None = None
        self.peak_bytes: int | None = None
        self._child: Identity | None = None  # the command itself, the wrapper's first child
        self._known: dict[int, Identity] = {}
        self._leaders: set[int] = set()
        self._written = 0

    @property
    def output(self) -> tuple[str, ...]:
        """Return where the command's output is: our files, or the one its client gave it to append to."""
        return (self._client_file,) if self._client_file else self.files

    @property
    def files(self) -> tuple[str, str]:
        return self.base + ".out", self.base + ".err"

    def wrapper_lives(self) -> bool:
        return same(self.wrapper) is not None

    def abandoned(self, *, lives: bool) -> bool:
        """Say whether its client killed the wrapper before that told its end: the call is over, so is its tree."""
        return not lives and self.status is None

    def owns(self, orphan: Proc) -> bool:
        """Say whether a process that lost its parent is in a group or session that this call made."""
        return orphan.pgid in self._leaders or orphan.sid in self._leaders

    def adopt(self, orphan: Proc) -> None:
        self._known[orphan.pid] = orphan.identity

    def members(self) -> list[Proc]:
        """Return every living process of the call but the wrapper and what the wrapper prints with."""
        pid = self.wrapper[0]
        wrapper = same(self.wrapper)
        survivors = [pid for pid, identity in self._known.items() if same(identity) is not None]
        celled = cgroup.pids(self.cell) if self.cell else ()
        found = forest([*survivors, *celled, *([pid] if wrapper else ())], without=() if wrapper else (pid,))
        if wrapper:
            found = self._without_printers([proc for proc in found if proc.pid != pid])
        return self._note(found)

    def _note(self, found: list[Proc]) -> list[Proc]:
        """Remember whom the call has, and which groups and sessions these lead."""
        pid = self.wrapper[0]
        self._known = {proc.pid: proc.identity for proc in found}
        self._leaders = {pid, *(proc.pid for proc in found)} & {n for proc in found for n in (proc.pgid, proc.sid)} | (
            self._leaders
        )
        return found

    def _without_printers(self, found: list[Proc]) -> list[Proc]:
        direct = [proc for proc in found if proc.ppid == self.wrapper[0]]
        if self._child is None and direct:
            self._child = min(direct, key=lambda proc: proc.start_ticks).identity
        # The wrapper starts one command. Whatever else is its own child prints the output of that one when it is over.
        printers = [proc.pid for proc in direct if proc.identity != self._child]
        return [proc for proc in found if proc.pid not in printers] if printers else found

    def usage(self, procs: Iterable[Proc], limits: Limits, now: float) -> Usage:
        procs = list(procs)
        memory = lim.memory_of(procs, limits.memory_bytes)
        if procs:
            self.peak_bytes = max(self.peak_bytes or 0, memory)
        return lim.Usage(
            seconds=now - self.opened,
            memory_bytes=memory,
            output_bytes=lim.size_of(self.output),
            processes=len(procs),
            disk_free_bytes=lim.disk_free(os.path.dirname(self.base)),
        )

    def killed_by_kernel(self, limits: Limits) -> Excess | None:
        if not self.cell or not cgroup.oom_kills(self.cell):
            return None
        self.peak_bytes = max(self.peak_bytes or 0, cgroup.peak_bytes(self.cell) or 0)
        return lim.Excess(limit=lim.MEMORY, figure=self.peak_bytes, allowed=limits.memory_bytes)

    def plan(self, usage: Usage, limits: Limits, now: float) -> None:
        """Set when this call has to be looked at next."""
        grew, self._written = usage.output_bytes - self._written, usage.output_bytes
        self.due = now + lim.look_again_in(usage, limits, grew_bytes=grew)

    def say(self, text: str, exit_status: int) -> None:
        """Leave the wrapper its words, whole or not at all: it looks for them when its command has ended."""
        draft = self.base + ".draft"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(draft, flags, 0o600)
            try:
                os.write(fd, f"{exit_status}\n{text}".encode("utf-8", "replace"))
            finally:
                os.close(fd)
            os.rename(draft, self.base + ".verdict")
        except OSError:
            return  # a full disk or a folder the agent removed: the kill must go on, without its reason

    def strike(self, strays: Callable[[], None]) -> None:
        """Kill every member. ``strays`` gives this call what lost its parent since."""

        def find() -> list[Proc]:
            strays()
            return self.members()

        if self.cell:
            cgroup.kill(self.cell)
        strike(find)

    def ask_to_end(self, now: float) -> None:
        self.stopping_since = now
        self.due = now + TERM_GRACE_S
        for proc in self.members():
            signal_if_same(proc.identity, signal.SIGTERM)
            signal_if_same(proc.identity, signal.SIGCONT)


def appended_by(pid: int, ours: str) -> str:
    """Return the file that a wrapper lets its command append to for its client; "" where that is ``ours``."""
    # Descriptor 3 is where its command writes. Its stdout may be the bell just now, as it announces itself.
    try:
        path = os.readlink(f"/proc/{pid}/fd/3").removesuffix(" (deleted)")
        now = os.stat(f"/proc/{pid}/fd/3")
    except OSError:
        return ""
    return path if stat.S_ISREG(now.st_mode) and path != ours else ""


def command_of(pid: int) -> str:
    """Return the command line that a wrapper was given, without what its client put around it."""
    argv = slurp(f"/proc/{pid}/cmdline", LINE_BYTES).decode("utf-8", "replace").split("\0")[:-1]
    line = " ".join(argv[2:]).removeprefix("-- ").removeprefix("-lc ").removeprefix("-c ")
    if line.startswith("__CODEX_SNAPSHOT_") and "\nexec '" in line:
        # codex: restore the person's settings, then exec 'SHELL' -c 'COMMAND'
        line = line.partition("\nexec '")[2].partition("' -c '")[2].removesuffix("'").replace("'\\''", "'") or line
    if "/shell-snapshots/" in line and " && eval " in line:
        # claude: source SNAPSHOT && … && eval 'COMMAND' < /dev/null && pwd -P >| FILE
        line = line.partition(" && eval ")[2].rpartition(" && pwd -P")[0].removesuffix(" < /dev/null") or line
        if line.startswith("'") and line.endswith("'"):
            line = line[1:-1].replace("'\\''", "'").replace("'\"'\"'", "'")
    if "_bgpids_file=" in line and "' EXIT\n" in line:
        # gemini: …; _bgpids_file=FILE ( trap '…' EXIT COMMAND ) __code=$? exit $__code, a line each
        line = line.partition("' EXIT\n")[2].rpartition("\n)\n__code=")[0] or line
    return line


def is_wrapper(pid: int, start_ticks: int, owner: int) -> bool:
    """Say whether that very process runs our guard below ``owner``: only such a one may announce a call."""
    proc = read(pid)
    if proc is None or not proc.alive or proc.start_ticks != start_ticks or not descends_from(pid, owner):
        return False
    return is_guard(pid, slurp(f"/proc/{pid}/cmdline", LINE_BYTES).split(b"\0"))


def is_guard(pid: int, argv: list[bytes]) -> bool:
    """Say whether the command line of a process is that of our guard."""
    for arg in argv[1:2]:  # the kernel runs a script as: interpreter, script, arguments
        try:
            if os.path.samefile(os.path.join(f"/proc/{pid}/cwd".encode(), arg), GUARD):
                return True
        except (OSError, ValueError):
            continue
    return False
