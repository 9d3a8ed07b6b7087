"""Which processes belong to us, and how they are ended without ever touching a stranger.

Raw ``/proc`` reading: lean enough for a runner in every pane, and right about process ids that are used again.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from ralphd.core.pids import all_in_turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Identity = tuple[int, int, str]  # pid, start in clock ticks after boot, boot id

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
GONE = frozenset("ZXx")  # states of what has ended and only waits to be reaped
READ_BYTES = 65536  # /proc hands out whole files; a longer environ is read in turns
ENVIRON_BYTES = 4 * 1024 * 1024  # an environ beyond it is somebody's attack on our memory
ROUNDS = 400  # passes over a tree that forks while it is being killed; 20 ms apart that is 8 s
PAUSE_S = 0.02
LOOKS = 4  # a chain of processes that each start the next and end hides from one look in ten
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Proc:
    """One process as its kernel saw it. ``start_ticks`` is in clock ticks after boot."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    start_ticks: int
    state: str

    @property
    def alive(self) -> bool:
        return self.state not in GONE

    @property
    def identity(self) -> Identity:
        return self.pid, self.start_ticks, boot_id()


def slurp(path: str, limit: int = READ_BYTES) -> bytes:
    """Return up to ``limit`` bytes of a file, b"" when it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        parts = [os.read(fd, min(limit, READ_BYTES))]
        size = len(parts[0])
        while parts[-1] and size < limit:
            parts.append(os.read(fd, min(limit - size, READ_BYTES)))
            size += len(parts[-1])
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(fd)


_BOOT: list[str] = []


def boot_id() -> str:
    if not _BOOT:
        _BOOT.append(slurp("/proc/sys/kernel/random/boot_id").decode("ascii", "replace").strip())
    return _BOOT[0]


def _stat(pid: int) -> list[bytes]:
    # The name may hold spaces and brackets: the fields begin after the last bracket.
    return slurp(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()


def read(pid: int) -> Proc | None:
    """Return the process, zombies included, or None when there is none."""
    field = _stat(pid)
    if len(field) < 20:
        return None
    return Proc(pid, int(field[1]), int(field[2]), int(field[3]), int(field[19]), field[0].decode("ascii", "replace"))


def cpu_ticks(pid: int) -> int | None:
    """Return the user and system time used so far, in clock ticks (TICKS_PER_S), or None."""
    field = _stat(pid)
    return int(field[11]) + int(field[12]) if len(field) >= 20 else None


def rss_bytes(pid: int) -> int:
    """Return resident memory; 0 for what has ended."""
    field = slurp(f"/proc/{pid}/statm", 256).split()
    return int(field[1]) * PAGE_BYTES if len(field) > 1 else 0


def private_bytes(pid: int) -> int:
    """Return resident memory with shared pages divided among their users (PSS), plus what is swapped out.

    Milliseconds for a large process, where ``rss_bytes`` takes microseconds: only to confirm.
    """
    total = 0
    text = slurp(f"/proc/{pid}/smaps_rollup", 8192)
    for line in text.splitlines():
        if line.startswith((b"Pss:", b"SwapPss:")):
            total += int(line.split()[1]) * 1024
    return total if text else rss_bytes(pid)


def swapped_bytes(pid: int) -> int:
    for line in slurp(f"/proc/{pid}/status", 8192).splitlines():
        if line.startswith(b"VmSwap:"):
            return int(line.split()[1]) * 1024
    return 0


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _by_scan() -> Callable[[int], list[int]]:
    """Return ``children`` for kernels without /proc/<pid>/task/<tid>/children: one look at every process."""
    below: dict[int, list[int]] = {}
    for pid in all_pids():
        proc = read(pid)
        if proc is not None:
            below.setdefault(proc.ppid, []).append(pid)
    return lambda pid: below.get(pid, [])


def _by_threads(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        found += map(int, slurp(f"/proc/{pid}/task/{thread}/children", ENVIRON_BYTES).split())
    return found


_LISTED: list[bool] = []


def kernel_lists_children() -> bool:
    if not _LISTED:
        _LISTED.append(os.path.exists(f"/proc/self/task/{os.getpid()}/children"))
    return _LISTED[0]


def children(pid: int) -> list[int]:
    """Return the pids of the direct children, zombies included; those of every thread."""
    return _by_threads(pid) if kernel_lists_children() else _by_scan()(pid)


def forest(roots: Iterable[int], *, without: Iterable[int] = ()) -> list[Proc]:
    """Return the living processes at and below ``roots``; ``without`` are left out with all below them."""
    below = _by_threads if kernel_lists_children() else _by_scan()
    seen = set(without)
    found: list[Proc] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in seen:
            continue
        seen.add(pid)
        proc = read(pid)
        if proc is not None and proc.alive:
            found.append(proc)
        # A dead leader may have living threads, and so children.
        waiting += below(pid)
    return found


def tree(pid: int, *, without: Iterable[int] = ()) -> list[Proc]:
    """Return every living descendant of ``pid``, itself not; ``without`` are left out with all below them."""
    return [proc for proc in forest((pid,), without=without) if proc.pid != pid]


def descends_from(pid: int, root: int) -> bool:
    """Say whether ``root`` is ``pid`` or an ancestor of it."""
    for _ in range(READ_BYTES):  # a chain can't be longer than the pids of a host; a torn read can't loop for ever
        if pid == root:
            return True
        proc = read(pid)
        if proc is None or proc.ppid == 0:
            return False
        pid = proc.ppid
    return False


def environ(pid: int) -> list[bytes]:
    """Return the environment the process was started with; empty when it isn't ours to read."""
    return slurp(f"/proc/{pid}/environ", ENVIRON_BYTES).split(b"\0")


def environ_has(pid: int, setting: bytes) -> bool:
    """Say whether the process was started with ``setting`` (``b"NAME=value"``) in its environment."""
    return setting in environ(pid)


def seen_pids() -> Iterator[int]:
    before = newest_pid()
    return all_in_turn(set(all_pids()), newest_pid, before=before)


def newest_pid() -> int:
    """Return the process id that the kernel gave last; 0 when it doesn't say."""
    last = slurp("/proc/loadavg").split()[-1:]
    return int(last[0]) if last else 0


def at_work_in(folder: str, program: str) -> list[int]:
    """Return the pids of all processes of that name whose own folder is ``folder`` or below it."""
    inside, found = os.path.realpath(folder), []
    for pid in all_pids():
        try:
            cwd = os.readlink(f"/proc/{pid}/cwd")
        except OSError:  # somebody else's, or gone
            continue
        if f"{cwd}/".startswith(f"{inside}/") and slurp(f"/proc/{pid}/comm").strip() == program.encode():
            found.append(pid)
    return found


def with_environ(setting: bytes) -> list[Proc]:
    """Return every living process started with ``setting``. Reads the whole of /proc: for the end of a session."""
    found = []
    for pid in seen_pids():
        if pid != os.getpid() and environ_has(pid, setting):
            proc = read(pid)
            if proc is not None and proc.alive:
                found.append(proc)
    return found


def same(identity: Identity) -> Proc | None:
    """Return the living process of that identity, or None when it ended or its pid is somebody else's now."""
    pid, start_ticks, boot = identity
    proc = read(pid)
    if proc is None or not proc.alive or proc.start_ticks != start_ticks or boot != boot_id():
        return None
    return proc


def signal_if_same(identity: Identity, signum: int) -> bool:
    """Send a signal to the process of that identity and to no other; say whether it was sent."""
    pid = identity[0]
    if pid <= 1 or pid == os.getpid():
        return False
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        import errno  # noqa: PLC0415  # only on kernels before 5.3

        return error.errno == errno.ENOSYS and _signal_by_pid(identity, signum)
    try:
        # The handle is fixed to one process before that process is compared: no gap for a reused pid.
        if same(identity) is None:
            return False
        signal.pidfd_send_signal(handle, signum)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _signal_by_pid(identity: Identity, signum: int) -> bool:
    if same(identity) is None:
        return False
    try:
        os.kill(identity[0], signum)
    except OSError:
        return False
    return True


def strike(find: Callable[[], Iterable[Proc]], *, rounds: int = 50) -> set[Identity]:
    """Stop, then kill all that ``find`` returns; what they fork meanwhile is found again. Return who was hit.

    Stopped processes can't fork, so a storm is frozen pass by pass before the first one dies.
    """
    frozen: set[Identity] = set()
    for _ in range(rounds):
        fresh = {proc.identity for proc in find()} - frozen
        if not fresh:
            break
        for identity in fresh:
            signal_if_same(identity, signal.SIGSTOP)
        frozen |= fresh
    for identity in frozen:
        signal_if_same(identity, signal.SIGKILL)
    return frozen


def end_all(
    find: Callable[[], Iterable[Proc]],
    *,
    now: Callable[[], float],
    pause: Callable[[float], None],
    grace_s: float = 2.0,
) -> int:
    """End all that ``find`` returns: TERM, the grace, then KILL until nothing is left. Return how many were ended.

    ``pause(seconds)`` waits and reaps what became the caller's children. Bounded: gives up after about ten seconds.
    """

    def look() -> list[Proc]:
        return next((found for _ in range(LOOKS) if (found := list(find()))), [])

    ended: set[Identity] = set()
    until = now() + grace_s
    while now() < until:
        living = {proc.identity for proc in look()}
        if not living:
            return len(ended)
        for identity in living - ended:
            signal_if_same(identity, signal.SIGTERM)
            signal_if_same(identity, signal.SIGCONT)  # a stopped process takes its TERM only when it goes on
        ended |= living
        pause(PAUSE_S)
    for _ in range(ROUNDS):
        hit = strike(look)
        if not hit:
            break
        ended |= hit
        pause(PAUSE_S)
    return len(ended)


def become_subreaper() -> bool:
    """Make descendants that lose their parent our children, so that no daemon escapes; say whether it worked.

    ``_ctypes`` alone costs 70 KiB, the ``ctypes`` package 320 KiB; neither name is in the standard library's promises
    of that use, so the second stands in for the first.
    """
    try:
        import _ctypes  # noqa: PLC0415  # after the runner has decided that it needs it

        itself = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # typeshed forgets that None is this program
        prctl = _ctypes.dlsym(itself, "prctl")
        return bool(_ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0)
    except (ImportError, AttributeError, OSError, TypeError):
        pass
    try:
        import ctypes  # noqa: PLC0415  # 320 KiB, and only where the short way is shut

        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):
        return False
