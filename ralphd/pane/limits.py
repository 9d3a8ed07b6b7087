"""How much one command may use, when that is passed, and what the agent is told then."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ralphd.pane.procs import private_bytes, rss_bytes, slurp, swapped_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ralphd.pane.procs import Proc

TIME, MEMORY, OUTPUT, PROCESSES = "time", "memory", "output", "processes"
EXIT_TIME = 124  # as timeout(1)
EXIT_KILLED = 137  # as a shell says of SIGKILL: memory, output and processes
FLOOD = 64  # so many times its shown limit may a command write before it is a flood
DISK_FLOOR_BYTES = 512 * 1024 * 1024  # below it a command that writes past its limit is a flood already
SHORTEST_S, LONGEST_S = 0.025, 0.4
ALLOCATED_BYTES_PER_S = 2.5 * 1024**3  # one core touching fresh pages on the machine where this was measured
WRITTEN_BYTES_PER_S = 1.0 * 1024**3  # `yes` into a file there
COMMAND_CHARS = 200


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one command may use. ``output_bytes`` are shown; FLOOD times as many may be written."""

    seconds: float
    memory_bytes: int
    output_bytes: int = 1024 * 1024
    processes: int = 4096


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a command uses now, its whole tree."""

    seconds: float
    memory_bytes: int
    output_bytes: int
    processes: int
    disk_free_bytes: int


@dataclass(frozen=True, kw_only=True)
class Excess:
    """A limit that was passed: which, the figure reached and the figure allowed (seconds, bytes or processes)."""

    limit: str
    figure: float
    allowed: float

    @property
    def exit_status(self) -> int:
        return EXIT_TIME if self.limit == TIME else EXIT_KILLED


def excess(usage: Usage, limits: Limits) -> Excess | None:
    """Return the limit that is passed, the most harmful first."""
    if usage.memory_bytes > limits.memory_bytes:
        return Excess(limit=MEMORY, figure=usage.memory_bytes, allowed=limits.memory_bytes)
    if usage.processes > limits.processes:
        return Excess(limit=PROCESSES, figure=usage.processes, allowed=limits.processes)
    short = usage.disk_free_bytes < DISK_FLOOR_BYTES
    allowed = limits.output_bytes * (1 if short else FLOOD)
    if usage.output_bytes > allowed:
        return Excess(limit=OUTPUT, figure=usage.output_bytes, allowed=allowed)
    if usage.seconds >= limits.seconds:
        return Excess(limit=TIME, figure=usage.seconds, allowed=limits.seconds)
    return None


def look_again_in(usage: Usage, limits: Limits, *, grew_bytes: int) -> float:
    """Return the seconds after which a limit could be passed, between SHORTEST_S and LONGEST_S, or sharp on time."""
    # A young command is looked at often: most that run away do so at once.
    wait = min(LONGEST_S, max(SHORTEST_S, usage.seconds / 2))
    wait = min(wait, (limits.memory_bytes - usage.memory_bytes) / ALLOCATED_BYTES_PER_S)
    if grew_bytes:
        wait = min(wait, (limits.output_bytes * FLOOD - usage.output_bytes) / WRITTEN_BYTES_PER_S)
    wait = max(SHORTEST_S, wait)
    left = limits.seconds - usage.seconds
    return min(wait, left) if left > 0 else wait


_SWAP: list[bool] = []


def _host_swaps() -> bool:
    if not _SWAP:
        _SWAP.append(slurp("/proc/swaps").count(b"\n") > 1)
    return _SWAP[0]


def memory_of(procs: Iterable[Proc], limit: int) -> int:
    """Return the bytes a tree holds. Shared pages count once, at a cost that is paid only near the limit."""
    procs = list(procs)
    total = sum(rss_bytes(proc.pid) for proc in procs)
    if _host_swaps():
        total += sum(swapped_bytes(proc.pid) for proc in procs)
    return total if total <= limit else min(total, sum(private_bytes(proc.pid) for proc in procs))


def size_of(paths: Iterable[str]) -> int:
    """Return the size of the largest of ``paths`` in bytes; what doesn't exist has none."""
    largest = 0
    for path in paths:
        try:
            largest = max(largest, os.lstat(path).st_size)
        except OSError:
            continue
    return largest


def disk_free(folder: str) -> int:
    """Return the bytes an unprivileged writer may still use there; plenty when it can't be asked."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return DISK_FLOOR_BYTES
    return disk.f_bavail * disk.f_frsize


def human(size: float) -> str:
    """Return a size as people write it: ``1.0 GiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


_REACHED = {
    TIME: "it ran for {figure:.4g} s; a tool call may take {allowed:g} s",
    MEMORY: "it held {figure} of memory, all its processes together; a tool call may hold {allowed}",
    OUTPUT: "it wrote {figure} of output; a tool call may write {allowed}",
    PROCESSES: "it had {figure:.0f} processes at once; a tool call may have {allowed:.0f}",
}
_INSTEAD = {
    TIME: (
        "Running the same command again will end the same way. Split the work: run a subset (one test file, fewer "
        "cases, a smaller input), or write a script that saves its progress to a file and works through it in steps "
        "that each fit the limit. Nothing that a call starts, in the background or not, outlives the limit."
    ),
    MEMORY: (
        "Running the same command again will end the same way. Stream or chunk the data instead of loading all of "
        "it, use fewer parallel workers (-j 1, -n 1), a smaller batch, or a memory limit of the tool itself."
    ),
    OUTPUT: (
        "Send the output to a file and look at the parts you need (head, tail, grep), or make the command quieter. "
        "A command that prints for ever (yes, a progress bar, a follow mode) never ends by itself."
    ),
    PROCESSES: (
        "Start fewer processes: limit the workers (-j, -n, a pool of fixed size), and look for a script that starts "
        "itself."
    ),
}


def explain(over: Excess, *, seconds: float, command: str, files: Sequence[str]) -> str:
    """Return what the agent reads as the end of its command's output. ``files`` hold all that the command wrote."""
    sized = over.limit in (MEMORY, OUTPUT)
    figure, allowed = (human(over.figure), human(over.allowed)) if sized else (over.figure, over.allowed)
    reached = _REACHED[over.limit].format(figure=figure, allowed=allowed)
    written = [path for path in files if size_of((path,))]
    lines = [
        "",
        f"[ralphd] KILLED by the {over.limit} limit: {reached}.",
        f"[ralphd] It was ended after {seconds:.3g} s, with everything it had started.",
        f"[ralphd] Command: {shorten(command)}",
        *([f"[ralphd] Its output up to then: {' and '.join(written) or 'none'}"] if files else []),
        f"[ralphd] Instead: {_INSTEAD[over.limit]}",
    ]
    return "\n".join(lines) + "\n"


def explain_kernel(limits: Limits) -> str:
    """Return what the agent reads when the kernel was faster than the watch, for any command."""
    return (
        f"\n[ralphd] KILLED by the memory limit: all its processes together went past {human(limits.memory_bytes)} "
        "faster than they could be counted, and the kernel ended them.\n"
        f"[ralphd] Instead: {_INSTEAD[MEMORY]}\n"
    )


def shorten(command: str, limit: int = COMMAND_CHARS) -> str:
    """Return the first ``limit`` characters on one line, without control characters."""
    line = "".join(char if char.isprintable() else " " for char in command[: limit * 2])
    line = " ".join(line.split())
    return line if len(line) <= limit and len(command) <= limit * 2 else line[:limit] + "…"
