"""Whether an endpoint can be asked: after a failure it is tried again for ever, and nothing else meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

PROBE_MIN_S = 2.0
PROBE_MAX_S = 300.0  # as long as a loop waits at most for inference


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What is known of the endpoint. Times are seconds of one clock that goes on in a suspend.

    ``up`` None: it has not been asked yet. ``why``: the newest failure.
    """

    up: bool | None = None
    failures: int = 0
    probe_at: float = 0.0
    why: str = ""

    def due(self, now: float) -> bool:
        """Tell whether it is time to see if it answers."""
        return not self.up and now >= self.probe_at

    def answered(self) -> Reach:
        return Reach(up=True)

    def failed(self, now: float, why: str, *, chance: float, floor_s: float = 0.0) -> Reach:
        """Full jitter below a bound that doubles; what the server named is a floor. ``chance`` is from [0, 1)."""
        bound_s = min(PROBE_MAX_S, PROBE_MIN_S * 2.0 ** min(self.failures + 1, 20))
        wait_s = max(PROBE_MIN_S + chance * (bound_s - PROBE_MIN_S), floor_s)
        return Reach(up=False, failures=self.failures + 1, probe_at=now + wait_s, why=why)
