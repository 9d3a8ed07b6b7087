"""Where a test can make the daemon die, break or freeze, to see that nothing is lost there. Off unless asked for.

``RALPHD_FAILPOINT=name:kill[:nth]`` (or ``:raise``, ``:freeze``) acts at the nth time that ``hit(name)`` is passed, and
says so on stderr first: a daemon's is its log, so a test can tell this end from any other.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

VARIABLE = "RALPHD_FAILPOINT"
SAID = "reached the failpoint"

# Every step between an intent and its outcome, in the order of a night.
NAMES = (
    "night_cloned",
    "night_written",
    "recovering",
    "recovered",
    "records_heard",
    "records_submitted",
    "records_stored",
    "intent_decided",
    "intent_submitted",
    "intent_stored",
    "leftovers_ended",
    "old_windows_closed",
    "worktrees_made",
    "runners_assigned",
    "windows_opened",
    "assignment_written",
    "order_written",
    "note_written",
    "acted",
    "settling",
    "settled_submitted",
    "settled_stored",
    "judging",
    "judged",
    "verdict_submitted",
    "verdict_stored",
    "closing_begun",
    "closing_leftovers_ended",
    "delivered",
    "server_ended",
    "end_submitted",
    "end_stored",
    "reported",
)


class Broken(RuntimeError):
    """What ``name:raise`` raises."""


@dataclass(kw_only=True)
class Armed:
    """One failpoint that waits for its time. ``at`` is called there."""

    name: str
    at: Callable[[], None]
    nth: int = 1

    def pass_by(self, name: str) -> None:
        if name != self.name:
            return
        self.nth -= 1
        if self.nth == 0:
            os.write(2, f"{SAID} {name}\n".encode())
            self.at()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _raise() -> None:
    raise Broken("a failpoint was reached")


ACTS: dict[str, Callable[[], None]] = {"kill": _kill, "raise": _raise, "freeze": _freeze}


def parse(text: str) -> Armed | None:
    """Read ``name:act[:nth]``; None of an empty text. Raises ValueError: a test with a wrong name must not pass."""
    if not text:
        return None
    name, _, rest = text.partition(":")
    act, _, nth = rest.partition(":")
    if name not in NAMES or act not in ACTS or not (nth or "1").isdigit() or nth == "0":
        raise ValueError(f"{VARIABLE}={text!r}: no such failpoint; name:kill|raise|freeze[:nth]")
    return Armed(name=name, at=ACTS[act], nth=int(nth or 1))


armed = parse(os.environ.get(VARIABLE, ""))


def hit(name: str) -> None:
    """Pass a failpoint by. In production this is one comparison."""
    if armed is not None:
        armed.pass_by(name)
