"""Which tool calls of this loop run now, which of them passed a limit, and what they left behind.

Driven by an event loop that it doesn't own: wait for ``fileno()`` and ``next_tick_in()``, call ``on_readable`` and
``tick``. The wrapper (``guard``) announces each call on a FIFO; this side looks, kills and leaves the reason.
"""

from __future__ import annotations

import os
import re
import time

from ralphd.pane import cgroup
from ralphd.pane.bare import LOOK_S as BARE_LOOK_S
from ralphd.pane.bare import YOUNGEST_S, BareCall, bare_calls
from ralphd.pane.bell import Bell
from ralphd.pane.call_events import CallClosed, CallKilled, CallOpened
from ralphd.pane.call_files import CallFiles
from ralphd.pane.limits import SHORTEST_S, Limits, excess, explain, explain_kernel, shorten, size_of
from ralphd.pane.procs import TICKS_PER_S, boot_id, children, end_all, environ, forest, read, slurp
from ralphd.pane.watched import TERM_GRACE_S, Call, is_wrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.pane.call_events import CallEvent
    from ralphd.pane.limits import Excess
    from ralphd.pane.procs import Identity, Proc

OPEN_CALLS = 256  # agents run a handful at once
_OPEN = re.compile(rb"open (([0-9]{1,10})-([0-9]{1,20})) ([0-9]{1,10})\Z")
_CLOSE = re.compile(rb"close ([0-9]{1,10}-[0-9]{1,20}) ([0-9]{1,3})\Z")
_END = re.compile(rb"end ([0-9]{1,10}-[0-9]{1,20})\Z")
_RESET = ("env", "--default-signal=INT,QUIT")  # coreutils 8.31 and later


class CallWatch:
    """The calls of one loop. ``folder`` is the loop's own and is made here, 0700.

    ``owner`` is the subreaper that all of the loop's processes descend from (this process). ``nonce`` is the
    ``NAME=value`` in the environment of the agent; what lost its parent and lacks it hides, and counts as a call's.
    ``group`` is a cgroup from ``cgroup.make``, "" for none; ``close`` removes it.
    """

    def __init__(
        self,
        folder: str,
        limits: Limits,
        *,
        match: str = "",
        nonce: str = "",
        owner: int | None = None,
        group: str = "",
    ) -> None:
        self.folder = os.path.abspath(folder)
        self.match = match
        self.agent: int | None = None  # its direct child's pid, never taken for an orphan
        self.bare = False  # watch the calls of the agent that no guard wraps, too
        self.calling = False  # the agent told of a call that has not returned: only then there may be such
        self._bare_look_at = 0.0
        self._nonce = nonce.encode()
        self._owner = owner or os.getpid()
        self._calls: dict[str, Call] = {}
        self._events: list[CallEvent] = []
        self._placed: dict[Identity, str] = {}
        self._files = CallFiles()
        self._group = group
        self._bell = Bell(self.folder)
        self._resets_signals = env_resets_signals()
        self.limits = limits

    @property
    def limits(self) -> Limits:
        """What each call may use; a new value holds for calls that run already."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        _leave_text(os.path.join(self.folder, "memory.text"), explain_kernel(limits))

    def environment(self) -> dict[str, str]:
        """Return what the agent needs in its environment so that the guard finds us. Follows the limits: ask anew."""
        return {
            "RALPHD_CALLS": self.folder,
            "RALPHD_CALL": "",  # a night that is started from within a tool call has calls of its own
            "RALPHD_RUNNER": str(self._owner),
            "RALPHD_LIMIT_OUTPUT": str(self.limits.output_bytes),
            "RALPHD_CGROUP": self._group or "",
            "RALPHD_CGROUP_BYTES": str(int(self.limits.memory_bytes * cgroup.HEADROOM)),
            "RALPHD_GUARD_MATCH": self.match,
            "RALPHD_GUARD_ENV": " ".join(_RESET) if self._resets_signals else "",
        }

    def fileno(self) -> int:
        return self._bell.fileno()

    def close(self) -> None:
        self._bell.close()
        if self._group:
            cgroup.remove_all(self._group)

    def on_readable(self, now: float) -> None:
        """Take what the wrappers wrote. Never blocks; takes at most one pipe full."""
        for line in self._bell.lines():
            self._line(line, now)

    def _line(self, line: bytes, now: float) -> None:
        if found := _OPEN.match(line):
            self._opened(found, now)
        elif found := _CLOSE.match(line):
            call = self._calls.get(found[1].decode())
            if call is not None:
                call.status = int(found[2])
                call.due = now
        elif found := _END.match(line):
            call = self._calls.get(found[1].decode())
            if call is not None and call.stopping_since is None:
                call.ask_to_end(now)

    def _opened(self, found: re.Match[bytes], now: float) -> None:
        call_id, pid, ticks = found[1].decode(), int(found[2]), int(found[3])
        known = self._calls.get(call_id)
        if isinstance(known, BareCall) and is_wrapper(pid, ticks, self._owner):
            del self._calls[call_id]  # a shell that took its time to become the guard
            self._call(call_id, (pid, ticks), known.opened)
            return
        if found[4] != found[2] or call_id in self._calls or len(self._calls) >= OPEN_CALLS:
            return
        alive = read(pid) is not None
        if alive and not is_wrapper(pid, ticks, self._owner) and not _ended(pid, ticks):
            return
        call = self._call(call_id, (pid, ticks), now)
        if call.wrapper_lives():
            self._events.append(CallOpened(call_id=call_id, command=shorten(call.command)))

    def _call(self, call_id: str, who: tuple[int, int], opened: float, *, bare: bool = False) -> Call:
        call = (BareCall if bare else Call)(
            call_id=call_id,
            wrapper=(*who, boot_id()),
            opened=opened,
            folder=self.folder,
            group="" if bare else self._group,
            max_seconds=self.limits.seconds,
        )
        self._calls[call_id] = call
        return call

    def _seeks_bare(self) -> bool:
        return self.bare and self.calling and self.agent is not None

    def _find_bare(self, now: float) -> None:
        """Open a call for each that no guard wraps, as old as it is."""
        self._bare_look_at = now + BARE_LOOK_S
        up_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        for proc in bare_calls(self.agent) if self.agent is not None else ():
            call_id, age_s = f"{proc.pid}-{proc.start_ticks}", up_s - proc.start_ticks / TICKS_PER_S
            if age_s >= YOUNGEST_S and call_id not in self._calls and len(self._calls) < OPEN_CALLS:
                # No older than the last look: a machine that slept meanwhile must not cost it its time.
                opened = now - min(age_s, YOUNGEST_S + BARE_LOOK_S)
                call = self._call(call_id, (proc.pid, proc.start_ticks), opened, bare=True)
                self._events.append(CallOpened(call_id=call_id, command=shorten(call.command)))

    def next_tick_in(self, now: float) -> float | None:
        """Return the seconds until ``tick`` is due, or None while nothing is open or left."""
        if self._events:
            return 0.0
        due = [call.due for call in self._calls.values()]
        if self._seeks_bare():
            due.append(self._bare_look_at)
        return max(0.0, min(due) - now) if due else None

    def tick(self, now: float) -> list[CallEvent]:
        """Look at every call that is due; kill what passed a limit. Return what happened since the last tick."""
        if self._seeks_bare() and self._bare_look_at <= now:
            self._find_bare(now)
        if any(call.due <= now for call in self._calls.values()):
            self._place_orphans(now)
            for call in list(self._calls.values()):
                if call.due <= now:
                    self._look(call, now)
        events, self._events = self._events, []
        return events

    def _look(self, call: Call, now: float) -> None:
        procs = call.members()
        lives = call.wrapper_lives()
        if not lives and call.status is None:
            self.on_readable(now)  # it may have told its end and died since we read last
        usage = call.usage(procs, self.limits, now)
        over = call.killed_by_kernel(self.limits) or (excess(usage, self.limits) if procs else None)
        if over is not None and call.over is None:
            self._kill(call, over, now, returned=bool(procs) and not lives)
        elif procs and self._doomed(call, now, lives=lives):
            call.strike(lambda: self._place_orphans(now))
        if not lives and not call.closed:
            self._closed(call, now)
        if not lives and not procs:
            self._forget(call)
            return
        call.plan(usage, self.limits, now)
        if call.over is not None or call.stopping_since is not None or (call.status is not None and lives):
            call.due = now + SHORTEST_S

    @staticmethod
    def _doomed(call: Call, now: float, *, lives: bool) -> bool:
        if call.over is not None:
            return True
        if call.stopping_since is not None:
            return now - call.stopping_since >= TERM_GRACE_S
        return call.abandoned(lives=lives)

    def _kill(self, call: Call, over: Excess, now: float, *, returned: bool) -> None:
        seconds = now - call.opened
        text = explain(over, seconds=seconds, command=call.command, files=call.output)
        if not returned:
            call.say(text, over.exit_status)
        call.over = over
        call.strike(lambda: self._place_orphans(now))
        self._events.append(
            CallKilled(
                call_id=call.id,
                limit=over.limit,
                figure=over.figure,
                allowed=over.allowed,
                seconds=seconds,
                command=shorten(call.command),
                spill=next((path for path in call.output if size_of((path,))), ""),
                text=text,
                returned=returned,
            )
        )

    def _closed(self, call: Call, now: float) -> None:
        call.closed = True
        self._events.append(
            CallClosed(call_id=call.id, status=call.status, seconds=now - call.opened, peak_bytes=call.peak_bytes)
        )

    # What lost its parent is a child of the owner now.

    def orphans(self) -> list[Proc]:
        """Return the living direct children of the owner that are not the agent: what was daemonised."""
        found = (read(pid) for pid in children(self._owner) if pid != self.agent)
        return [proc for proc in found if proc is not None and proc.alive]

    def _place_orphans(self, now: float) -> None:
        orphans = self.orphans()
        living = {proc.identity for proc in orphans}
        self._placed = {identity: owner for identity, owner in self._placed.items() if identity in living}
        for proc in orphans:
            if proc.identity not in self._placed:
                call_id = self._place(proc, now)
                self._placed[proc.identity] = call_id
                if call_id in self._calls:
                    self._calls[call_id].adopt(proc)

    def _place(self, orphan: Proc, now: float) -> str:
        settings = environ(orphan.pid)
        for setting in settings:
            if setting.startswith(b"RALPHD_CALL=") and (raw := setting[len(b"RALPHD_CALL=") :]):
                return self._by_id(raw, now)
        for call in self._calls.values():
            if call.owns(orphan):
                return call.id
        bare = [call for call in self._calls.values() if isinstance(call, BareCall) and call.precedes(orphan)]
        if bare:  # what a guard doesn't mark can only be told by when it began
            return max(bare, key=lambda call: call.opened).id
        if self._nonce and self._nonce not in settings and self._calls:
            return max(self._calls.values(), key=lambda call: call.opened).id
        return ""

    def _by_id(self, raw: bytes, now: float) -> str:
        found = _OPEN.match(b"open %s 0" % raw)
        if found is None:
            return ""
        call_id = found[1].decode()
        if call_id not in self._calls and len(self._calls) < OPEN_CALLS:
            # Its call is over and was forgotten before the daemon showed: it starts to count now.
            call = self._call(call_id, (int(found[2]), int(found[3])), now)
            call.status, call.closed = 0, True
        return call_id

    def leftovers(self) -> list[Proc]:
        """Return every living process below the owner, the agent and all below it left out."""
        without = [pid for pid in (self.agent,) if pid is not None]
        return [proc for proc in forest((self._owner,), without=without) if proc.pid != self._owner]

    def end_leftovers(self, *, now: Callable[[], float], pause: Callable[[float], None], grace_s: float = 2.0) -> int:
        """End what ``leftovers`` finds, for the end of a session; return how many. ``pause`` waits and reaps."""
        return end_all(self.leftovers, now=now, pause=pause, grace_s=grace_s)

    def _forget(self, call: Call) -> None:
        del self._calls[call.id]
        if call.cell:
            cgroup.remove(call.cell)
        self._files.finish(call, self.limits.output_bytes)


def _ended(pid: int, ticks: int) -> bool:
    proc = read(pid)
    return proc is None or (not proc.alive and proc.start_ticks == ticks)


def env_resets_signals() -> bool:
    """Say whether ``env`` can undo a shell's ignoring of INT and QUIT for its background commands."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
        pid = os.posix_spawnp(_RESET[0], [*_RESET, "true"], os.environ, file_actions=actions)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    except OSError:
        return False
    finally:
        os.close(null)


def _leave_text(path: str, text: str) -> None:
    if slurp(path) == text.encode():
        return  # every session asks for it, and a file that is written again costs 1 to 5 ms
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
