"""One fresh context of a loop: its number and files, and what its attempts added up to."""

from __future__ import annotations

import os
import re
import time

from ralphd.core.records import AgentStarted
from ralphd.pane.attempt import Tally
from ralphd.pane.procs import read
from ralphd.pane.rawlog import RawLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents import Tells
    from ralphd.core.reading import Reading

_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # it goes on a command line: no option, no path
STDERR_PIECE_BYTES = 4 << 20  # CLIs print little there: warnings, and why they ended


class Trajectory:
    """Grows attempt by attempt. ``head_now`` is the branch's tip after the newest one."""

    def __init__(self, folder: str, generation: int, number: int, *, head: str, prompt: bytes, model: str = "") -> None:
        name = f"{generation:03d}-{number:05d}"
        self.number, self.prompt = number, prompt
        self.head = self.head_now = head
        self.log = RawLog(os.path.join(folder, "logs"), f"{name}.log")
        self.errors = RawLog(os.path.join(folder, "logs"), f"{name}.err", piece_bytes=STDERR_PIECE_BYTES)
        self.tally = Tally(model=model)
        self.attempts = 0
        self.session = new_session()
        self.resumes = False
        self.called = False  # a tool, in any attempt
        self.claims_done = False
        self.worked = False  # in an attempt that has ended
        self.began = time.monotonic()

    def take_up(self, reading: Reading, tells: Tells) -> None:
        """Let the next attempt take up the session of the one that ended, by the name that its CLI told, else by ours.

        One that never began has no session to take up, and its name may be taken: the next begins afresh.
        """
        self.called = self.called or reading.calls > 0
        kept = self.called or not tells.kept_from_call
        self.resumes = tells.resume and reading.begun > 0 and kept
        if not self.resumes:
            self.session = new_session()
        elif _SESSION.fullmatch(reading.session):
            self.session = reading.session

    def close(self) -> None:
        self.log.close()
        self.errors.close()

    def started(self, pid: int, account: str) -> AgentStarted:
        """Return the record of a process that runs now."""
        proc = read(pid)
        ticks = proc.start_ticks if proc is not None else 0
        return AgentStarted(pid=pid, start_ticks=ticks, attempt=self.attempts, session=self.session, account=account)


def new_session() -> str:
    """Return a random UUID (version 4)."""
    data = bytearray(os.urandom(16))
    data[6], data[8] = data[6] & 0x0F | 0x40, data[8] & 0x3F | 0x80
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
