"""Whether an agent goes round in circles: the same calls with the same results, over and over, counted as it works."""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

from ralphd.core.signals import Called, Returned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.signals import Signal

CIRCLE = 3  # calls: an agent that tries A, B, C, A, B, C goes round too
ERRORS = 20  # in a row. Nobody learns anything from the twentieth time
RESULTS = 100  # in a row, where the call worked: it may be waiting for something,
PACE_S = 10.0  # but who waits doesn't ask this often
LEAST_S = 3.0  # a burst may be read long after what it did
WORTH_TELLING = 5  # in a row, of a session that ended: less is checking twice
OPEN_CALLS = 64


@dataclass
class Repetition:
    """Grows signal by signal. All times are seconds of one monotonic clock.

    ``longest`` calls in a row had results that were had before; ``pair`` is a digest of the call and result of then.
    """

    in_a_row: int = 0
    since: float = 0.0
    errors: bool = False  # all results of the row were errors
    longest: int = 0
    pair: str = ""
    where: tuple[int, int] = (0, 0)  # the bytes of the newest result in the log
    told_at: int = 0  # in the row
    told_s: float = 0.0
    _recent: tuple[str, ...] = ()
    _open: dict[str, int] = field(default_factory=dict)

    def note(self, signal: Signal, now: float) -> bool:
        """Take one signal of the stream; tells whether it was the result of a call."""
        if isinstance(signal, Called):
            self._open[signal.id] = crc32(f"{signal.tool}\0{signal.command}".encode("utf-8", "replace"))
            if len(self._open) > OPEN_CALLS:
                del self._open[next(iter(self._open))]
        elif isinstance(signal, Returned) and signal.id in self._open:
            result = crc32(signal.text.encode("utf-8", "replace"))
            self._count(f"{self._open.pop(signal.id):08x}{result:08x}", signal, now)
            return True
        return False

    def _count(self, pair: str, signal: Returned, now: float) -> None:
        if pair not in self._recent:
            self.restart(now)
            self.errors = True
        self._recent = (pair, *(known for known in self._recent if known != pair))[:CIRCLE]
        self.in_a_row += 1
        self.errors = self.errors and signal.is_error
        self.where = (signal.start, signal.end)
        if self.in_a_row > self.longest:
            self.longest, self.pair = self.in_a_row, pair

    def restart(self, now: float) -> None:
        """Count from here: something is new, or something came of it after all."""
        self.in_a_row, self.since, self.told_at = 0, now, 0

    def level(self, now: float) -> int:
        """Return 0 while all is well, 1 when it must be told, 2 when the session must end."""
        row, since = self.in_a_row - self.told_at, self.told_s if self.told_at else self.since
        if now - since < LEAST_S or (not self.errors and (now - since) / max(1, row) > PACE_S):
            return min(1, self.told_at)
        return min(1, self.told_at) + (row >= (ERRORS if self.errors else RESULTS))

    def tell(self, now: float) -> None:
        """Note that it was told: from here on it is counted once more."""
        self.told_at, self.told_s = self.in_a_row, now

    def told(self) -> str:
        """Return the digest of what a session that ended got over and over, or an empty string."""
        return self.pair if self.longest >= WORTH_TELLING else ""
