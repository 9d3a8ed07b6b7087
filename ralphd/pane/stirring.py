"""Whether the process tree of a silent agent still does something."""

from __future__ import annotations

from ralphd.pane.procs import TICKS_PER_S, slurp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ralphd.pane.procs import Proc

BUSY_SHARE = 0.01  # of one core: an idle event loop with timers stays below, a compiler is far above
BUSY_BYTES = 4096  # read and written between two looks: an idle event loop moves a few bytes at each wake-up


class Stirring:
    """Compares what a tree had used at the last look with what it has used now.

    ``own`` is the pid of the CLI itself, of which ``idle_share`` of a core and ``idle_bytes`` a look are no life.
    """

    def __init__(
        self, find: Callable[[], Iterable[Proc]], *, own: int = 0, idle_share: float = 0.0, idle_bytes: int = 0
    ) -> None:
        self._find = find
        self._own, self._idle_share, self._idle_bytes = own, idle_share, idle_bytes
        self._before: dict[tuple[int, int], tuple[int, int]] = {}
        self._at = 0.0

    def look(self, now: float) -> bool:
        """Tell whether anything was used or started since the last look."""
        uses = {(proc.pid, proc.start_ticks): _used(proc.pid) for proc in self._find()}
        before, self._before = self._before, uses
        elapsed_s, self._at = now - self._at, now
        if uses.keys() - before.keys():
            return True
        ticks, moved = 0.0, 0
        for key, (used_ticks, used_bytes) in uses.items():
            idle = key[0] == self._own
            idle_ticks = self._idle_share * elapsed_s * TICKS_PER_S if idle else 0.0
            ticks += max(0.0, used_ticks - before[key][0] - idle_ticks)
            moved += max(0, used_bytes - before[key][1] - (self._idle_bytes if idle else 0))
        return ticks >= max(1.0, BUSY_SHARE * elapsed_s * TICKS_PER_S) or moved >= BUSY_BYTES


def _used(pid: int) -> tuple[int, int]:
    """Return processor time in clock ticks, and bytes read and written, of one process and its reaped children."""
    fields = slurp(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()
    ticks = sum(map(int, fields[11:15])) if len(fields) > 15 else 0
    moved = 0
    for line in slurp(f"/proc/{pid}/io", 4096).splitlines():
        if line.startswith((b"rchar:", b"wchar:")):
            moved += int(line.split()[1])
    return ticks, moved
