"""How a runner begins: the loop is its own by a lock, it tells who it is, and has all that it works with."""

from __future__ import annotations

import ralphd.pane.lean  # before the first record is defined

# isort: split
import fcntl
import json
import os
import sys
import time

import ralphd
from ralphd.core.codec import dump
from ralphd.core.exchange import RunnerIdentity
from ralphd.core.records import RunnerStarted
from ralphd.pane import cgroup
from ralphd.pane.calls import CallWatch
from ralphd.pane.digest import Digest, Screen
from ralphd.pane.ears import Ears
from ralphd.pane.files import SAFE, replace_whole
from ralphd.pane.gatekeeper import Gatekeeper
from ralphd.pane.inbox import Inbox
from ralphd.pane.limits import Limits
from ralphd.pane.loop import Loop
from ralphd.pane.pane import Pane
from ralphd.pane.procs import become_subreaper, boot_id, read
from ralphd.pane.recorder import Recorder
from ralphd.pane.session import read_some
from ralphd.pane.wishes import Wishes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.exchange import Assignment

DONE, FAILED, WRONG_USAGE, OWNED = 0, 1, 2, 75


def main(argv: list[str]) -> int:
    """Run the loop of the folder ``argv[1]`` until it is told to stop. Exit 75: another runner owns it.

    ``argv[2]``: how many seconds late its first session begins; for one of many that come back at once.
    """
    after_s = _seconds(argv[2]) if len(argv) == 3 else 0.0
    if len(argv) not in (2, 3) or after_s is None:
        print("usage: runner.py LOOPDIR [SECONDS_LATE]", file=sys.stderr)
        return WRONG_USAGE
    folder = os.path.abspath(argv[1])
    os.umask(0o077)
    _close_inherited()
    lock = _lock(folder)
    if lock is None:
        print(f"{folder}: another runner owns this loop; this one leaves", file=sys.stderr)
        return OWNED
    os.chdir("/")
    inbox = Inbox(folder)
    assignment = inbox.assignment()
    if assignment is None:
        print(f"{folder}/loop.json: {inbox.trouble or 'missing'}; start the loop again", file=sys.stderr)
        return WRONG_USAGE
    become_subreaper()
    try:
        pane = _pane(folder, assignment, inbox)
    except OSError as error:
        print(f"{folder}: {error}; mend that and start the loop again", file=sys.stderr)
        return FAILED
    _quiet_keyboard(pane.ears)
    code = Loop(folder, assignment, inbox, pane).run(after_s)
    pane.watch.close()
    return code


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0.0 <= seconds < float("inf") else None


def _pane(folder: str, assignment: Assignment, inbox: Inbox) -> Pane:
    ears = Ears()
    me = _identity(assignment)
    replace_whole(os.path.join(folder, "runner.json"), json.dumps(dump(me)).encode())
    recorder = Recorder(folder)
    recorder.go_on_after(assignment.after_seq, assignment.after_trajectory)
    recorder.generation = assignment.generation
    recorder.append(
        RunnerStarted(
            pid=me.pid,
            start_ticks=me.start_ticks,
            boot_id=me.boot_id,
            pane=me.pane,
            version=ralphd.__version__,
            account=assignment.account,
        ),
        at=time.time(),
    )
    screen = Screen(1)
    digest = Digest(screen.write, clock=time.time, width=screen.width)
    watch = CallWatch(
        os.path.join(folder, "calls"),
        Limits(seconds=assignment.limits.tool_seconds, memory_bytes=assignment.limits.tool_memory_bytes),
        nonce=f"RALPHD_NONCE={assignment.nonce}",
        group=cgroup.make(f"ralphd-{assignment.nonce}") or "",
    )
    return Pane(
        ears=ears,
        wishes=Wishes(folder, inbox),
        watch=watch,
        recorder=recorder,
        digest=digest,
        gate=Gatekeeper(me.boot_id),
    )


def _identity(assignment: Assignment) -> RunnerIdentity:
    me = read(os.getpid())
    return RunnerIdentity(
        pid=os.getpid(),
        start_ticks=me.start_ticks if me is not None else 0,
        boot_id=boot_id(),
        generation=assignment.generation,
        pane=os.environ.get("TMUX_PANE", ""),
        nonce=assignment.nonce,
    )


def _lock(folder: str) -> int | None:
    """Return the descriptor that holds the loop's lock for as long as this process lives, None when it is taken."""
    fd = os.open(os.path.join(folder, "runner.lock"), os.O_RDWR | os.O_CREAT | SAFE, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def _close_inherited() -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself


def _quiet_keyboard(ears: Ears) -> None:
    """Let no key but Ctrl-C do anything: Ctrl-S would stop the pane for good, and a full queue swallow the Ctrl-C."""
    import termios  # noqa: PLC0415  # only needed once

    try:
        mode = termios.tcgetattr(0)
        mode[0] &= ~termios.IXON
        mode[3] &= ~(termios.ECHO | termios.ICANON)
        mode[3] |= termios.NOFLSH  # a key that means a signal would throw away what is on its way, a Ctrl-C among it
        termios.tcsetattr(0, termios.TCSANOW, mode)
    except (termios.error, OSError):
        return  # no terminal

    def drop() -> None:
        if not read_some(0):
            ears.forget(0)  # the terminal is gone; SIGHUP says so too

    ears.hear(0, drop)
