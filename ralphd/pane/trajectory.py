"""One fresh context of a loop: its number and files, and what its attempts added up to."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field

from ralphd.core.ownretries import OwnRetries
from ralphd.core.records import AgentStarted, Usage
from ralphd.core.repetition import Repetition
from ralphd.pane.procs import read
from ralphd.pane.rawlog import RawLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from ralphd.agents import Tells
    from ralphd.core.reading import Reading
    from ralphd.pane.attempt import Attempt

    N = TypeVar("N", int, float)

_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # it goes on a command line: no option, no path
STDERR_PIECE_BYTES = 4 << 20  # CLIs print little there: warnings, and why they ended


@dataclass(kw_only=True)
class Tally:
    """What a trajectory adds up over its attempts."""

    model: str = ""  # that the CLI was told to use; it may name another
    usage: Usage = field(default_factory=Usage)
    unpriced: bool = False  # some of that has a cost that was not told
    compactions: int = 0
    calls: int = 0
    leftovers: int = 0
    tool_kills: int = 0
    own_retries: OwnRetries = field(default_factory=OwnRetries)
    repetition: Repetition = field(default_factory=Repetition)

    def with_usage_of(self, reading: Reading) -> Usage:
        told = reading.tokens_in is not None or reading.tokens_out is not None
        return Usage(
            model=(reading.model[:200] or self.model) if told else self.usage.model,
            tokens_in=_sum(self.usage.tokens_in, reading.tokens_in),
            tokens_out=_sum(self.usage.tokens_out, reading.tokens_out),
            cache_read=_sum(self.usage.cache_read, reading.cache_read),
            cost_usd=None if self._unpriced(reading) else _sum(self.usage.cost_usd, reading.cost_usd),
        )

    def _unpriced(self, reading: Reading) -> bool:
        """Tell whether tokens were used whose cost nobody told, so that what was told is not all of it."""
        return self.unpriced or (reading.cost_usd is None and bool(reading.tokens_in or reading.tokens_out))

    def add(self, attempt: Attempt) -> None:
        self.usage = self.with_usage_of(attempt.reading)
        self.unpriced = self._unpriced(attempt.reading)
        self.compactions += attempt.reading.compactions
        self.calls += attempt.calls
        self.tool_kills += attempt.tool_kills
        self.leftovers += attempt.leftovers


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
        self.read = False  # what it was told, by a model or a program, as far as anybody knows
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


def _sum(before: N | None, more: N | None) -> N | None:
    if more is None:
        return before
    return more if before is None else before + more
