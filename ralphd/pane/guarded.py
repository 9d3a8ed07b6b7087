"""One command under a tool call's limits, with a watcher of its own: ``ralphd guard`` and the verifier run this.

    python -I -S -E guarded.py --seconds S --memory BYTES [--output BYTES] [--save FILE] [--result FILE] -- PROGRAM ...

Without ``--save`` the output goes where ours goes. With it both streams go to FILE, in order, and ``--output`` bounds
it (limits.FLOOD times, as for a tool call). ``--result`` gets one JSON object: ``status`` (null when signalled),
``signal``, ``limit`` (null or "time", "memory", "output", "processes"), ``figure``, ``allowed``, ``seconds``,
``peak_bytes`` (null when too short to see), ``output_file``, ``leftovers`` (processes that outlived the command),
``stopped`` (the signal we were told to stop by, or null) and ``text`` (what a person reads, "" without a limit passed).
With ``--parent PID`` all ends as if by SIGHUP when that process, which started us, is no more.

Exit status: the command's own; 124 or 137 past a limit; 128 + signal; 2 for a wrong command line; 127 when the
program can't be started. Whoever started us must not believe a result file when we died by a signal: the command
may have written it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from dataclasses import dataclass

from ralphd.pane import limits as lim
from ralphd.pane.procs import PAUSE_S, Proc, become_subreaper, end_all, forest, strike

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.pane.limits import Excess, Limits

USAGE = (
    "usage: guarded.py --seconds S --memory BYTES [--output BYTES] [--processes N] [--save FILE] [--result FILE] "
    "[--parent PID] -- PROGRAM ARGUMENT..."
)
CHUNK_BYTES = 65536  # what a pipe holds
LEFTOVER_GRACE_S = 0.5  # between TERM and KILL for what outlived the command
EXIT_USAGE, EXIT_NOT_STARTED = 2, 127
STOPPERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be run and how. ``save`` and ``result`` are paths, "" for none."""

    argv: tuple[str, ...]
    limits: Limits
    save: str
    result: str
    parent: int = 0  # 0: whoever it is, its end doesn't matter


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How it ended. ``raw`` is a wait status, None while it runs; ``stopped`` the signal that we got."""

    raw: int | None
    over: Excess | None
    stopped: int | None


class BadUsage(Exception):
    """A command line that can't be understood; the message names the option."""


def understand(args: list[str]) -> Order:
    told = {
        "--output": str(1024 * 1024),
        "--processes": "4096",
        "--save": "",
        "--result": "",
        "--seconds": "",
        "--memory": "",
        "--parent": "",
    }
    args = list(args)
    while args and args[0] != "--":
        name = args.pop(0)
        if name not in told or not args:
            raise BadUsage(f"{name}: unknown option, or its value is missing")
        told[name] = args.pop(0)
    if len(args) < 2:
        raise BadUsage("no command after --")
    limits = lim.Limits(
        seconds=_number(told, "--seconds"),
        memory_bytes=int(_number(told, "--memory")),
        output_bytes=int(_number(told, "--output")),
        processes=int(_number(told, "--processes")),
    )
    parent = int(_number(told, "--parent")) if told["--parent"] else 0
    return Order(argv=tuple(args[1:]), limits=limits, save=told["--save"], result=told["--result"], parent=parent)


def _number(told: dict[str, str], name: str) -> float:
    try:
        value = float(told[name])
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise BadUsage(f"{name}: {told[name]!r} is not a number above 0")
    return value


class Signals:
    """Signals only leave a note here; ``fd`` becomes readable when there is one, or when a child ended."""

    def __init__(self) -> None:
        self.stop: int | None = None
        self.fd, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for signum in STOPPERS:
            signal.signal(signum, self._note)

    def _note(self, signum: int, _frame: object) -> None:
        self.stop = signum

    def drain(self) -> None:
        try:
            while os.read(self.fd, CHUNK_BYTES):
                pass
        except BlockingIOError:
            return


class Saved:
    """Both streams of the command, through a pipe into a file that can't grow past ``most_bytes``."""

    def __init__(self, path: str, most_bytes: int) -> None:
        self.path, self.bytes, self._most = path, 0, most_bytes
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self.fd, self.theirs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.fd, False)
        self.open = True

    def take(self) -> None:
        """Take what is there. What is past the bound is read, so that nobody waits, and dropped."""
        try:
            data = os.read(self.fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        self.open = bool(data)
        room = max(0, self._most - self.bytes)
        self.bytes += len(data)
        if room and data:
            _write(self._file, data[:room])

    def take_all(self) -> None:
        """Take what a pipe can hold at the most: enough when its writers are dead."""
        for _ in range(1024 * 1024 // CHUNK_BYTES + 1):
            self.take()


def _write(fd: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        return  # a full disk must not end the watch; the command's own writes say so


class Watch:
    """The command, its tree and what it uses. Everything below this process is the command's."""

    def __init__(self, order: Order, signals: Signals, saved: Saved | None) -> None:
        self._order, self._signals, self._saved = order, signals, saved
        self.started = time.monotonic()
        self.peak_bytes: int | None = None
        self.raw: int | None = None
        self._pid = 0
        self._written = 0

    def start(self) -> None:
        """Start the command. Raises OSError when the program can't be run."""
        actions = []
        if self._saved is not None:
            actions = [(os.POSIX_SPAWN_DUP2, self._saved.theirs, fd) for fd in (1, 2)]
        # Its own session keeps its `kill 0` from us; a person's terminal stays theirs to type at.
        alone = not os.isatty(0)
        self._pid = os.posix_spawnp(
            self._order.argv[0],
            self._order.argv,
            os.environ,
            file_actions=actions,
            setsid=alone,
            setsigdef=(*STOPPERS, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD),
            setsigmask=(),
        )
        if self._saved is not None:
            os.close(self._saved.theirs)

    def members(self) -> list[Proc]:
        return [proc for proc in forest((os.getpid(),)) if proc.pid != os.getpid()]

    def run(self) -> Ending:
        """Watch until the command ends, passes a limit, or we are told to stop."""
        due = self.started
        while self.raw is None and self._signals.stop is None:
            now = time.monotonic()
            if now >= due or self._flooded():
                usage = self._usage(now)
                over = lim.excess(usage, self._order.limits)
                if over is not None and self._alive():
                    strike(self.members)
                    return Ending(raw=None, over=over, stopped=None)
                due = now + self._again(usage)
            self.pause(max(0.0, due - now))
            if self._order.parent and os.getppid() != self._order.parent:
                self._signals.stop = signal.SIGHUP
        return Ending(raw=self.raw, over=None, stopped=self._signals.stop)

    def _alive(self) -> bool:
        self._reap()
        return self.raw is None

    def _flooded(self) -> bool:
        return self._saved is not None and self._saved.bytes > self._order.limits.output_bytes * lim.FLOOD

    def _again(self, usage: lim.Usage) -> float:
        grew, self._written = usage.output_bytes - self._written, usage.output_bytes
        return lim.look_again_in(usage, self._order.limits, grew_bytes=grew)

    def _usage(self, now: float) -> lim.Usage:
        procs = self.members()
        memory = lim.memory_of(procs, self._order.limits.memory_bytes)
        self.peak_bytes = max(self.peak_bytes or 0, memory) or None
        return lim.Usage(
            seconds=now - self.started,
            memory_bytes=memory,
            output_bytes=self._saved.bytes if self._saved else 0,
            processes=len(procs),
            disk_free_bytes=lim.disk_free(os.path.dirname(os.path.abspath(self._saved.path)) if self._saved else "/"),
        )

    def pause(self, seconds: float) -> None:
        """Wait, no longer than ``seconds``, for output, a signal or the end of a child; take all three."""
        reading = [self._signals.fd]
        if self._saved is not None and self._saved.open:
            reading.append(self._saved.fd)
        ready = select.select(reading, [], [], seconds)[0]
        if self._saved is not None and self._saved.fd in ready:
            self._saved.take()
        self._signals.drain()
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, raw = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._pid:
                self.raw = raw

    def end_rest(self) -> int:
        """End what still lives; return how many processes that was."""
        ended = end_all(self.members, now=time.monotonic, pause=self.pause, grace_s=LEFTOVER_GRACE_S)
        until = time.monotonic() + LEFTOVER_GRACE_S
        while self.raw is None and time.monotonic() < until:
            self.pause(PAUSE_S)
        if self._saved is not None:
            self._saved.take_all()
        return ended


def result_of(order: Order, ending: Ending, watch: Watch, *, seconds: float, leftovers: int) -> dict[str, object]:
    """Return what ``--result`` holds; see the module."""
    code = os.waitstatus_to_exitcode(ending.raw) if ending.raw is not None else None
    over = ending.over
    files = (order.save,) if order.save else ()
    text = ""
    if over is not None:
        text = lim.explain(over, seconds=seconds, command=" ".join(order.argv), files=files)
    return {
        "status": code if code is not None and code >= 0 else None,
        "signal": -code if code is not None and code < 0 else None,
        "limit": over.limit if over else None,
        "figure": over.figure if over else None,
        "allowed": over.allowed if over else None,
        "seconds": round(seconds, 3),
        "peak_bytes": watch.peak_bytes,
        "output_file": order.save or None,
        "leftovers": leftovers,
        "stopped": ending.stopped,
        "text": text,
    }


def exit_status(ending: Ending) -> int:
    if ending.over is not None:
        return ending.over.exit_status
    if ending.stopped is not None:
        return 128 + ending.stopped
    code = os.waitstatus_to_exitcode(ending.raw or 0)
    return code if code >= 0 else 128 - code


def leave(path: str, result: dict[str, object]) -> None:
    """Write the result whole or not at all, over whatever the command may have put there."""
    draft = f"{path}.{os.getpid()}.draft"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _write(fd, json.dumps(result).encode())
    finally:
        os.close(fd)
    os.rename(draft, path)


def guard(order: Order) -> int:
    become_subreaper()
    signals = Signals()
    saved = Saved(order.save, order.limits.output_bytes * lim.FLOOD) if order.save else None
    watch = Watch(order, signals, saved)
    try:
        watch.start()
    except OSError as error:
        print(f"ralphd guard: can't run {order.argv[0]!r}: {error.strerror}", file=sys.stderr)
        return EXIT_NOT_STARTED
    ending = watch.run()
    seconds = time.monotonic() - watch.started
    ended = watch.end_rest()
    leftovers = ended if ending.raw is not None else 0  # else it was the command itself, not what outlived it
    result = result_of(order, ending, watch, seconds=seconds, leftovers=leftovers)
    if order.result:
        leave(order.result, result)
    if result["text"]:
        print(result["text"], end="", file=sys.stderr)
    return exit_status(ending)


def main(args: list[str]) -> int:
    try:
        order = understand(args)
    except BadUsage as error:
        print(f"ralphd guard: {error}\n{USAGE}", file=sys.stderr)
        return EXIT_USAGE
    return guard(order)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
