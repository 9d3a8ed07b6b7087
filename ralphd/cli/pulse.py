"""What the service manager is told: ready, alive after every real pass, in a few words how it goes, leaving."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ralphd.daemon.tick import Night
from ralphd.edges.systemd import Notifier, notifier, watchdog_interval

PINGS_AN_INTERVAL = 4  # sd_watchdog_enabled(3) asks for two; a slow pass may cost one


@dataclass(kw_only=True)
class Pulse:
    """``beat`` belongs at the end of a pass that went well: a pass that hangs or fails must not look alive.

    ``adopted``: the loops ran before this daemon did, or were stopped on purpose, so the first pass makes it ready.
    """

    notifier: Notifier
    interval_s: float | None
    clock: Callable[[], float]
    adopted: bool = False
    is_ready: bool = False
    said: str = ""
    pinged_at: float = float("-inf")

    def ready(self) -> None:
        """Say that the loops run, once."""
        if not self.is_ready:
            self.is_ready = True
            self.notifier.tell(READY=1)

    def beat(self, night: Night) -> None:
        if self.adopted:
            self.ready()
        self.wait(in_a_few_words(night))

    def wait(self, words: str) -> None:
        """Tell that we live, and what we do in a few words."""
        if words != self.said:
            self.said = words
            self.notifier.tell(STATUS=words)
        now = self.clock()
        if self.interval_s is not None and now >= self.pinged_at + self.interval_s / PINGS_AN_INTERVAL:
            self.pinged_at = now
            self.notifier.tell(WATCHDOG=1)

    def leave(self, why: str) -> None:
        self.notifier.tell(STOPPING=1, STATUS=why)


def pulse(environ: Mapping[str, str]) -> Pulse:
    return Pulse(notifier=notifier(environ), interval_s=watchdog_interval(environ), clock=time.monotonic)


def in_a_few_words(night: Night) -> str:
    """Return one line such as ``night 2026-11-30-a: 3 of 4 loops run, 1 held, ending``."""
    loops = night.state.loops
    alive = sum(night.sight.alive.get(name, False) for name in loops)
    held = sum(loop.held for loop in loops.values())
    parts = [
        f"{alive} of {len(loops)} loops run",
        f"{held} held" if held else "",
        "ending" if night.state.ending else "",
    ]
    return f"night {night.state.id}: {', '.join(part for part in parts if part)}"
