"""Where the kernel itself can hold a tool call to its memory: a writable cgroup, v2 or v1, or none.

Only a backstop: everything holds without one. A cell (one call's group) adds a cap that no allocation outruns, and a
list of members that no ``setsid`` and no scrubbed environment leaves. The wrapper makes the cell and enters it.
"""

from __future__ import annotations

import os

from ralphd.pane.procs import slurp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HEADROOM = 1.1  # of the limit: the watcher comes first with its reason, and the goal for overshoot is 10 %
CAPS = ("memory.max", "memory.limit_in_bytes")  # v2, v1
EVENTS = ("memory.events", "memory.oom_control")
PEAKS = ("memory.peak", "memory.memsw.max_usage_in_bytes", "memory.max_usage_in_bytes")


def _unescaped(path: str) -> str:
    return path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _mounts(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield version, root within the hierarchy and mount point of each hierarchy that can account memory."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = [*after.split(" "), "", "", ""][:3]
        place = [*before.split(" "), "", "", "", "", ""]
        if kind == "cgroup2":
            yield 2, _unescaped(place[3]), _unescaped(place[4])
        elif kind == "cgroup" and "memory" in options.split(","):
            yield 1, _unescaped(place[3]), _unescaped(place[4])


def _own(text: str, version: int) -> str:
    for line in text.splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if (version == 2 and number == "0") or (version == 1 and "memory" in controllers.split(",")):
            return path
    return ""


def parents(mountinfo: str, own: str) -> list[str]:
    """Return the folders in which we might make groups, the best first, from the texts of two files in /proc/self.

    With v2 a group that holds processes can't share out memory, so the one above ours comes into question too.
    """
    found = []
    for version, root, mount in sorted(_mounts(mountinfo), reverse=True):
        path = _own(own, version)
        if not path or not (path + "/").startswith(root.rstrip("/") + "/"):
            continue
        ours = os.path.normpath(mount + "/" + path[len(root.rstrip("/")) :])
        found.append(ours)
        if version == 2 and ours != mount:
            found.append(os.path.dirname(ours))
    return found


def make(name: str) -> str | None:
    """Make a group ``name`` whose children can be capped, where the host lets us. Return its folder or None."""
    texts = [slurp(f"/proc/self/{file}", 1024 * 1024).decode("utf-8", "replace") for file in ("mountinfo", "cgroup")]
    return next((group for parent in parents(*texts) if (group := make_below(parent, name))), None)


def make_below(parent: str, name: str) -> str | None:
    """Make a group below ``parent``. Returns None, leaving nothing, when its children can't be capped."""
    group = os.path.join(parent, name)
    try:
        os.mkdir(group, 0o700)
    except FileExistsError:
        pass  # of an earlier runner of this loop
    except OSError:
        return None
    if os.path.exists(os.path.join(group, "cgroup.subtree_control")):
        write(os.path.join(group, "cgroup.subtree_control"), b"+memory")
    probe = os.path.join(group, "probe")
    try:
        os.mkdir(probe, 0o700)
    except OSError:
        remove(group)
        return None
    usable = any(os.access(os.path.join(probe, cap), os.W_OK) for cap in CAPS)
    remove(probe)
    if not usable:
        remove(group)
        return None
    return group


def write(path: str, data: bytes) -> bool:
    """Write to a file of the kernel; never makes one. Say whether it was taken."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.write(fd, data) == len(data)
    except OSError:
        return False
    finally:
        os.close(fd)


def pids(cell: str) -> list[int]:
    return [int(pid) for pid in slurp(os.path.join(cell, "cgroup.procs"), 4 * 1024 * 1024).split()]


def oom_kills(cell: str) -> int:
    """Return how many processes the kernel killed there for memory; 0 without a cell."""
    for name in EVENTS:
        for line in slurp(os.path.join(cell, name), 4096).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    return 0


def peak_bytes(cell: str) -> int | None:
    for name in PEAKS:
        text = slurp(os.path.join(cell, name), 64).strip()
        if text.isdigit():
            return int(text)
    return None


def kill(cell: str) -> bool:
    """Kill all members at once where the kernel can (v2 since 5.14); say whether it could."""
    return write(os.path.join(cell, "cgroup.kill"), b"1")


def remove(group: str) -> bool:
    """Remove an empty group; say whether it is gone."""
    try:
        os.rmdir(group)
    except OSError:
        return not os.path.exists(group)
    return True


def remove_all(group: str) -> bool:
    """Remove a group and the cells in it that are empty; say whether all are gone."""
    try:
        names = os.listdir(group)
    except OSError:
        return True
    for name in names:
        path = os.path.join(group, name)
        if os.path.isdir(path) and not os.path.islink(path):
            remove(path)
    return remove(group)
