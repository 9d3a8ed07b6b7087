"""How often, for how long and why a CLI waited by itself before it asked inference again."""

from __future__ import annotations

from dataclasses import dataclass, field

from ralphd.core.outcomes import Kind
from ralphd.core.signals import Failed, Retrying, Unread, Used

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.signals import Signal


def retry_kind(signal: Retrying) -> Kind:
    """Return what a client waits for, as a failure of its own would be named; connection trouble where nobody knows."""
    from ralphd.core.failures import kind_of  # noqa: PLC0415  # 0.2 MiB a loop, and most sessions wait for nothing

    told = Failed(status=signal.status, error=signal.error, message=signal.error)
    return kind_of(told) or Kind.CONNECTION


@dataclass
class OwnRetries:
    """Grows signal by signal over all attempts of a trajectory; times are seconds of one monotonic clock.

    A wait may be announced again and again while it lasts: it is one retry, and counts for as long as it took.
    """

    counts: dict[str, int] = field(default_factory=dict)  # by the second half of a kind's name
    waited_s: float = 0.0
    waiting: Retrying | None = None
    _since: float = 0.0

    def note(self, signal: Signal, now: float) -> None:
        if isinstance(signal, (Unread, Used)):
            return
        last = self.waiting
        if not isinstance(signal, Retrying) or signal.attempt < 1:
            self.end(now)
            return
        if last is None or signal.attempt != last.attempt:
            self.end(now)
            self._since = now
            name = retry_kind(signal).value.split(".", 1)[1]
            self.counts[name] = self.counts.get(name, 0) + 1
        self.waiting = signal

    def end(self, now: float) -> None:
        """Take note that the client waits no more."""
        if self.waiting is not None:
            self.waited_s += max(0.0, now - self._since)
            self.waiting = None

    @property
    def waits_for(self) -> str:
        """Return what the client waits for right now, empty while it doesn't."""
        return retry_kind(self.waiting).value.split(".", 1)[1] if self.waiting is not None else ""

    def told(self) -> dict[str, object]:
        """Return the figures for an outcome's detail; empty when there was no retry."""
        return {**self.counts, "waited_s": round(self.waited_s, 3)} if self.counts else {}
