"""Where a loop stands still: a rest after a failure, a hold or a pause, and the wait for inference at the gate."""

from __future__ import annotations

import time

from ralphd.core.exchange import Want
from ralphd.core.records import Held, Resumed, Waiting
from ralphd.pane.gatekeeper import LOOK_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.pane.pane import Pane


def boot_s() -> float:
    """Seconds of a clock that goes on while the machine sleeps: a server's wait is over when it is over."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Waits:
    """Each wait is recorded, told in the pane, and cut short by whatever else is wanted of the loop.

    ``follow_edits`` is called while inference is waited for: another key or address may be what mends the trouble.
    """

    def __init__(self, pane: Pane, follow_edits: Callable[[], None]) -> None:
        self._pane, self._follow_edits = pane, follow_edits

    @property
    def interrupted(self) -> bool:
        """Whether the session that waits is wanted no more."""
        return self._pane.wishes.cut or self._pane.wishes.want is Want.STOPPED

    @property
    def goes_on(self) -> bool:
        """Whether nobody wants anything else of the loop."""
        return self._pane.wishes.want is Want.RUNNING and not self._pane.wishes.cut

    def rest(self, wait_s: float, kind: str) -> None:
        """Wait, unless somebody wants something else of the loop meanwhile."""
        wishes = self._pane.wishes
        if wait_s <= 0 or self.interrupted:
            return
        self._pane.gate.leave()
        wishes.retry = False
        self._pane.record(Waiting(kind=kind, until=time.time() + wait_s))
        self._pane.say(f"waits {wait_s:.0f} s ({kind})")
        until = boot_s() + wait_s
        while (left_s := until - boot_s()) > 0 and self.goes_on and not wishes.retry:
            self.idle(min(left_s, LOOK_S))
        wishes.retry = False
        self._pane.record(Resumed())

    def hold(self, kind: str, why: str, mended: Callable[[], bool] | None = None) -> None:
        """Stand still: a plain pause until the order changes, trouble until a newer order or until it is mended."""
        wishes = self._pane.wishes
        wishes.cut = wishes.retry = False
        self._pane.gate.leave()
        serial = wishes.serial
        self._pane.record(Held(kind=kind, why=why))
        self._pane.say(f"{'on hold' if kind else 'paused'}: {why or 'as ordered'}")
        while wishes.want is not Want.STOPPED:
            asked = not kind or wishes.retry or wishes.serial > serial or (mended is not None and mended())
            if asked and wishes.want is Want.RUNNING:
                break
            self.idle(LOOK_S)
        wishes.retry = False
        self._pane.record(Resumed())

    def await_inference(self, kind: str, wait_s: float) -> None:
        """Wait until inference may be asked again: for all loops of the account at its gate, else for itself."""
        if not self._pane.gate.look().closed:
            self.rest(wait_s, kind)
        while not self.pass_gate() and not self.interrupted:
            self.hold("", self._pane.wishes.why)

    def pass_gate(self) -> bool:
        """Wait until the gate is open or it is this loop's turn to try; False when something else is wanted of it."""
        gate, wishes = self._pane.gate, self._pane.wishes
        self._follow_edits()
        waits = gate.look().closed and not gate.trying
        while gate.look().closed and not gate.trying and self.goes_on:
            self._wait_at_gate()
            if gate.look().closed:
                break  # it is this loop's turn, or nobody takes his
            self.let_others_go(gate.spread_s())  # and it may close again meanwhile
        if waits:
            wishes.retry = False
            self._pane.record(Resumed())
        wishes.ask = False
        return self.goes_on

    def _wait_at_gate(self) -> None:
        gate, wishes = self._pane.gate, self._pane.wishes
        kind, wait_s = gate.look().kind, gate.wait_s()
        self._pane.record(Waiting(kind=kind, until=time.time() + wait_s))
        self._pane.say(f"waits {wait_s:.0f} s with all loops of its account ({kind})")
        while self.goes_on:
            asked, wishes.retry, wishes.ask = wishes.retry or wishes.ask, False, False
            self._follow_edits()
            if gate.may_go(asked=asked):
                return
            self.idle(gate.look_s())

    def let_others_go(self, seconds: float) -> None:
        """Start a little later than others that come back too: a small machine, and a server just back."""
        until, wishes = boot_s() + seconds, self._pane.wishes
        while (left_s := until - boot_s()) > 0 and self.goes_on and not wishes.retry:
            self.idle(min(left_s, LOOK_S))

    def serve(self) -> None:
        """Take in what came: signals, orders, news of calls, room on the disk. Never waits."""
        pane = self._pane
        pane.wishes.heed(pane.ears.signals)
        pane.wishes.read()
        pane.watch.tick(time.monotonic())
        pane.recorder.flush()

    def idle(self, seconds: float) -> None:
        """Wait so long, or until something happens that concerns the loop."""
        self._pane.recorder.sync()
        self._pane.ears.wait(seconds)
        self.serve()
