"""Whether there was time in which the daemon saw nothing: it was stopped or starved, or the machine slept."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.outcomes import Kind
from ralphd.daemon.tick import Night

# A pass is due each second. A machine that swaps makes one wait for a few; nobody need hear of that.
GAP_S = 10.0


@dataclass(kw_only=True)
class Gap:
    """Measures from the end of a pass to the next one. Time spent in a pass is no gap: that is work."""

    night: Night
    looked_at: tuple[float, float] | None = None  # by the wall, by the steady clock

    def look(self) -> None:
        """Note a gap once, when it is over. Nothing follows from it: what runs is seen anew by this very pass."""
        clock = self.night.world.clock
        now = (clock.now(), clock.monotonic())
        before, self.looked_at = self.looked_at, now
        if before is None:
            return
        wall_s, steady_s = now[0] - before[0], now[1] - before[1]
        if steady_s > GAP_S:
            self.night.note(Kind.SUSPENDED, f"the daemon was not run for {steady_s:.0f} s; the loops don't need it")
        elif abs(wall_s - steady_s) > GAP_S:
            self.night.note(
                Kind.CLOCK_JUMP,
                f"the clock went {wall_s - steady_s:+.0f} s beside {steady_s:.1f} s that passed (set, or a suspend)",
            )

    def rest(self) -> None:
        """Say that a pass has ended."""
        clock = self.night.world.clock
        self.looked_at = (clock.now(), clock.monotonic())
