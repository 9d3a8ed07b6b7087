"""One loop's part in the gate that all loops of its credential share: a file, and a lock for the one that tries.

The gate needs no daemon. Whoever holds the lock may write the file; a runner that dies gives the lock back by dying.
Where either can't be used, the gate is open and every loop waits for itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import dataclass, replace

from ralphd.core import gate as gates
from ralphd.core.codec import dump, load
from ralphd.core.gate import Gate, Moment
from ralphd.core.outcomes import HEALTHY, Kind, Outcome
from ralphd.core.ownretries import retry_kind
from ralphd.core.signals import Called, Resulted, Retrying, Said, Streamed
from ralphd.pane.files import open_regular, read_regular, replace_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.core.exchange import Limits
    from ralphd.core.signals import Signal

FOLDER = "gates"  # beside the loops of a night
LIMIT_BYTES = 4096
# How late a loop hears that the gate has opened, of an order or of a mended file: the bell is quicker, but agents can
# break it.
LOOK_S = 2.0
OWN_RETRIES_FROM = 2  # of a client: the first is a hiccup of half a second
HICCUP_S = 10.0  # no client begins with a longer wait: the server named it
ALIVE_EVERY_S = 60.0  # a long try (a client that waits by itself) shows that it lives
# What has not failed by then was answered: a program that tells nothing of inference, and a CLI that tells of answers
# but late. If that was wrong, the gate closes again.
ASSUMED_AFTER_S = 60.0
ASSUMED_AT_LAST_S = 600.0
# A server that takes a request and stays silent may be well again long before that request is given up: another tries
# beside it. With the wait before that, it stays below two minutes until all loops work.
SILENT_TRY_S = 60.0


def chance() -> float:
    """Return a number from [0, 1); the random module costs half a mebibyte."""
    return int.from_bytes(os.urandom(6), "big") / (1 << 48)


def moment() -> Moment:
    return Moment(now=time.clock_gettime(time.CLOCK_BOOTTIME), epoch=time.time(), chance=chance())


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What the file holds. ``boot``: times of another boot mean nothing."""

    boot: str
    gate: Gate


class Gatekeeper:
    """``trying``: this loop holds the lock, and none of the others asks meanwhile.

    A try that hears nothing for long gives the lock away and goes on; its answer opens the gate all the same.
    """

    def __init__(self, boot: str, moment: Callable[[], Moment] = moment) -> None:
        self._boot, self._moment = boot, moment
        self._path = ""
        self._limits: Limits | None = None
        self._seen = b""
        self._gate = Gate()
        self._lock: int | None = None
        self._listens = False  # beside another's try
        self._doubted_at = 0.0
        self._began = self._alive_at = 0.0

    @property
    def trying(self) -> bool:
        return self._lock is not None

    def assign(self, folder: str, account: str, limits: Limits) -> None:
        """Share the gate of ``account`` with the loops beside ``folder``; without an account it is always open."""
        self._limits = limits
        night = os.path.dirname(os.path.dirname(folder))
        path = os.path.join(night, FOLDER, os.path.basename(account)) if account else ""
        if path != self._path:
            self.leave()
            self._path, self._seen, self._gate = path, b"", Gate()

    def look(self) -> Gate:
        """Return the gate as it stands. Takes microseconds while nobody writes.

        It is read each time: two writes in one tick of the file system's clock leave the same stamp.
        """
        try:
            data = read_regular(self._path, LIMIT_BYTES) if self._path else b""
        except OSError:
            data = b""
        if data != self._seen:
            self._seen, self._gate = data, self._understood(data)
        return self._gate

    def wait_s(self) -> float:
        """Return the seconds until the next try is due, 0 when the gate is open or one is due."""
        gate = self.look()
        return max(0.0, gate.next_at - self._moment().now) if gate.closed else 0.0

    def look_s(self) -> float:
        """Return when to look at a closed gate again: while somebody tries, as soon as inference might be asked."""
        again_s = LOOK_S if self._limits is None else min(LOOK_S, self._limits.backoff_min_s)
        return min(LOOK_S, self.wait_s() or again_s)

    def spread_s(self) -> float:
        """Return how long to let others go first, after the gate has opened."""
        gate = self.look()
        return 0.0 if gate.closed or self._limits is None else gates.spread_s(gate, self._moment().chance, self._limits)

    def may_go(self, *, asked: bool) -> bool:
        """Tell whether this loop may ask inference: the gate is open, or it is the one that tries from here on.

        ``asked``: a person wants a try at once.
        """
        gate, now = self.look(), self._moment().now
        if self.trying or not gate.closed or now > gate.next_at + gates.OVERDUE_S:
            return True
        if not (asked or now >= gate.next_at):
            return False
        self._take()
        gate = self.look()  # while the lock was another's, that one may have written
        if not gate.closed or (now < gate.next_at and not asked):
            self.leave()
        return self.trying or not gate.closed

    def leave(self) -> None:
        """Let another one try."""
        self._listens = False
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a child between fork and exec has a copy, which would keep it
            os.close(self._lock)
            self._lock = None

    def heard(self, signal: Signal) -> None:
        """Open the gate if what the agent tells shows that inference answers.

        A client that asks again by itself is the one that tries, if nobody else is.
        """
        if _answers(signal):
            self.answered()
        elif self._lock is None and isinstance(signal, Retrying) and retry_kind(signal) in gates.CLOSING:
            if signal.attempt >= OWN_RETRIES_FROM:
                self._try_as_client(Outcome(kind=retry_kind(signal)))
            elif signal.attempt and not self.look().closed:
                self._doubt()

    def leaves_it(self, retrying: Retrying) -> bool:
        """Tell whether a client that is about to ask again by itself should leave that to the gate.

        One that may wait for longer than it tells was told so by the server: it knows best when to ask.
        """
        if not self._path or retrying.silent_s or retry_kind(retrying) not in gates.CLOSING:
            return False
        doubtful = gates.doubtful(self.look(), self._moment().now, but_for=self._doubted_at)
        return retrying.attempt >= (1 if doubtful or retrying.delay_s > HICCUP_S else OWN_RETRIES_FROM)

    def answered(self) -> None:
        if (self._lock is not None or self._listens) and self.look().closed:
            self._write(gates.open_(self.look(), self._moment().now))
        self.leave()

    def still_tries(self, *, tells: bool, waits: bool = False) -> None:
        """Show that a long try lives. ``tells``: its CLI would say that it was answered; ``waits``: it says not."""
        if self._lock is None and not self._listens:
            return
        now = self._moment().now
        if not waits and now - self._began >= (ASSUMED_AT_LAST_S if tells else ASSUMED_AFTER_S):
            self.answered()
        elif self._lock is None:
            return
        elif not waits and now - self._began >= SILENT_TRY_S:
            self._let_another_try()
        elif now - self._alive_at >= ALIVE_EVERY_S:
            self._alive_at = now
            self._write(gates.alive(self.look(), now))

    def judge(self, outcome: Outcome) -> None:
        """Take in how a process of the agent ended."""
        if outcome.kind in gates.CLOSING:
            self._close_for(outcome)
        elif outcome.kind in HEALTHY | {Kind.NOOP}:
            self.answered()
        elif self._lock is not None and self._limits is not None:
            self._write(gates.put_off(self.look(), self._moment(), self._limits))
        self.leave()

    def _let_another_try(self) -> None:
        if self._limits is not None:
            self._write(gates.put_off(self.look(), replace(self._moment(), now=self._began), self._limits))
        self.leave()
        self._listens = True

    def _try_as_client(self, outcome: Outcome) -> None:
        self._take()
        if not self.look().closed:
            self._refuse(outcome)

    def _doubt(self) -> None:
        """Let the others know of a hiccup: what a second one meets at the same time is none."""
        self._take()
        if self._lock is not None and not self.look().closed:
            self._doubted_at = self._moment().now
            self._write(replace(self.look(), doubted_at=self._doubted_at))
        self.leave()

    def _close_for(self, outcome: Outcome) -> None:
        if self._lock is None:
            self._take()
            if self.look().closed:
                return  # whoever closed it knows as much
        self._refuse(outcome)

    def _refuse(self, outcome: Outcome) -> None:
        if self._lock is not None and self._limits is not None:
            self._write(gates.refuse(self.look(), outcome, self._moment(), self._limits))

    def _take(self) -> None:
        self._lock = self._locked() if self._path else None
        self._began = self._alive_at = self._moment().now

    def _understood(self, data: bytes) -> Gate:
        try:
            kept = load(Kept, json.loads(data))
        except (ValueError, RecursionError):
            return Gate()
        if kept.boot != self._boot or not gates.believable(kept.gate, self._moment().now):
            return Gate()
        return kept.gate

    def _write(self, gate: Gate) -> None:
        data = json.dumps(dump(Kept(boot=self._boot, gate=gate))).encode()
        try:
            replace_whole(self._path, data)
        except OSError:
            return  # a full disk: what stands there stays true
        self._seen, self._gate = data, gate

    def _locked(self) -> int | None:
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            fd = open_regular(f"{self._path}.try", os.O_RDWR | os.O_CREAT)
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return fd


def _answers(signal: Signal) -> bool:
    return isinstance(signal, (Said, Streamed, Called)) or (isinstance(signal, Resulted) and signal.ok)
