"""Whether a loop stands still, since when, and what it or its CLI waits for: a fold over what its runner tells."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core import records
from ralphd.core.outcomes import RETRIED_FOR_EVER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.events import Body

TRY_S = 120.0  # an attempt that inference ended sooner was nothing but a try: the loop has stood still all along

_STANDS = (records.Waiting, records.Held)
_MOVES = (records.Resumed, records.TrajectoryStarted, records.AgentStarted, records.RunnerStarted)
_ENDS = (records.AttemptEnded, records.TrajectoryEnded, records.RunnerStopped)


@dataclass
class Standing:
    """Times are epoch seconds. ``since`` is None while the loop works, or tries.

    ``client_waits``: its CLI waits by itself before it asks inference again. ``asks``: a dialog that its agent shows.
    """

    since: float | None = None
    client_waits: str = ""
    asks: str = ""
    _before: float | None = None  # since when it stood still before it tried again
    _tried_at: float = 0.0

    def note(self, body: Body, at: float) -> None:
        if isinstance(body, records.Progressed):
            self.client_waits, self.asks = body.client_waits, body.asks
            self._stand(at) if self.client_waits or self.asks else self._work()
        elif isinstance(body, (*_STANDS, *_MOVES, *_ENDS)):
            self.client_waits = self.asks = ""
        if isinstance(body, _MOVES):
            self._before = self.since if self._before is None else self._before
            self.since, self._tried_at = None, at
        elif isinstance(body, records.Held):
            self.since = at if self.since is None else self.since
        elif isinstance(body, records.Waiting):
            self._stand(at)
        elif isinstance(body, records.AttemptEnded) and body.outcome.kind in RETRIED_FOR_EVER:
            self._before = self._before if at - self._tried_at < TRY_S else None
        elif isinstance(body, records.TrajectoryEnded):
            self._before = None

    def _stand(self, at: float) -> None:
        if self.since is None:
            self.since = at if self._before is None else self._before

    def _work(self) -> None:
        self.since = None
