"""Which process is still the one that was meant, and how such processes are ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ralphd.core.errors import EdgeError
from ralphd.core.pids import all_in_turn

POLL_S = 0.05  # between two looks at processes that were told to end
KILL_S = 10.0  # after SIGKILL only a process stuck in the kernel stays; it can't be waited out
_GONE = ("Z", "X", "x")
PR_SET_DUMPABLE = 4  # prctl(2)
_START_TIME = 19  # field 22 of /proc/<pid>/stat, counted after the name


@dataclass(frozen=True, kw_only=True, order=True)
class Identity:
    """One process and no later one with its pid. ``start_ticks`` are clock ticks since boot ``boot_id``."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What ``end`` did: who was asked to end, who was killed, and who is there still (stuck in the kernel)."""

    asked: frozenset[Identity]
    killed: frozenset[Identity]
    left: frozenset[Identity]


@cache
def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identity(pid: int) -> Identity | None:
    """Tell who has this pid now; None when nobody does, or only a corpse that waits for its parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(b")")[2].split()  # the name before it can hold anything, a ")" too
    if fields[0].decode() in _GONE:
        return None
    return Identity(pid=pid, start_ticks=int(fields[_START_TIME]), boot_id=boot_id())


def forbid_reading() -> bool:
    """Let nobody but root read this process's memory, environment and descriptors, nor take a core of it.

    Agents are processes of the same user, and what a daemon was started with is not meant for them. Programs that it
    starts are not concerned. Returns whether the kernel agreed.
    """
    import ctypes  # noqa: PLC0415  # 320 KiB, which the commands that import this module for other things are spared

    return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def alive(who: Identity) -> bool:
    return identity(who.pid) == who


def signal_if_same(who: Identity, number: int) -> bool:
    """Send a signal to exactly this process; False when it is gone, replaced, or not ours to signal."""
    try:
        descriptor = os.pidfd_open(who.pid)
    except OSError:
        return False
    try:
        if not alive(who):  # asked after the pidfd is held: from here on the pid can't come to mean another
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True


def with_environ(*entries: bytes) -> list[Identity]:
    """Find every process of our user, but for this one, that was started with one of ``entries`` (``NAME=value``)."""
    wanted = frozenset(entries)
    holders = (identity(pid) for pid in _seen_pids() if pid != os.getpid() and _holds(pid, wanted))
    return [who for who in holders if who is not None]


def _seen_pids() -> Iterator[int]:
    before = _newest_pid()
    listed = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
    return all_in_turn(listed, _newest_pid, before=before)


def _newest_pid() -> int:
    """Return the process id that the kernel gave last; 0 when it doesn't say."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def end(
    find: Callable[[], Iterable[Identity]],
    *,
    grace_s: float,
    clock: Callable[[], float],
    wait: Callable[[float], None],
    kill_s: float = KILL_S,
) -> Ended:
    """Ask all that ``find`` finds to end, give them ``grace_s``, then kill until ``find`` finds nobody.

    ``find`` is asked again and again, so that children born meanwhile go too. ``clock`` in seconds, monotonic.
    """
    asked: set[Identity] = set()
    killed: set[Identity] = set()
    start = clock()
    while left := frozenset(find()):
        spent_s = clock() - start
        if spent_s >= grace_s + kill_s:
            return Ended(asked=frozenset(asked), killed=frozenset(killed), left=left)
        if spent_s < grace_s:
            asked |= {who for who in left - asked if signal_if_same(who, signal.SIGTERM)}
        else:
            killed |= {who for who in left if signal_if_same(who, signal.SIGKILL)}
        wait(POLL_S)
    return Ended(asked=frozenset(asked), killed=frozenset(killed), left=frozenset())


class LoopProcesses:
    """The working default of ports.Host: what loops started is known by the nonce in its environment, never by name."""

    def __init__(self, *, clock: Callable[[], float], wait: Callable[[float], None], grace_s: float = 2.0) -> None:
        self._clock = clock
        self._wait = wait
        self._grace_s = grace_s

    def end_leftovers(self, nonces: Iterable[str]) -> int:
        entries = [f"RALPHD_NONCE={nonce}".encode() for nonce in nonces]
        if not entries:
            return 0
        gone = end(
            lambda: with_environ(*entries),
            grace_s=self._grace_s,
            clock=self._clock,
            wait=self._wait,
        )
        if gone.left:
            raise EdgeError(f"processes {sorted(who.pid for who in gone.left)} of a loop don't end, not even killed")
        return len(gone.asked | gone.killed)


def _holds(pid: int, entries: frozenset[bytes]) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            return not entries.isdisjoint(file.read().split(b"\0"))
    except OSError:
        return False
