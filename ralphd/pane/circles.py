"""Whether a session goes round in circles: it is told first, and when it goes on so, the session is to be ended."""

from __future__ import annotations

from ralphd.core.records import Repeating

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.repetition import Repetition
    from ralphd.core.signals import Signal
    from ralphd.pane.ground import Still
    from ralphd.pane.pane import Pane

FIRST_AGAIN = 2  # a result that is had for the second time: from here on something must come of it
ENDS = 2  # the level (core/repetition.py) at which a session ends


class Circles:
    """Watches what one process of an agent calls. ``log``: the file that a record of it points into."""

    def __init__(self, repetition: Repetition, still: Still, pane: Pane, log: str) -> None:
        self._repetition, self._still, self._pane, self._log = repetition, still, pane, log
        self._level = 0

    @property
    def too_many(self) -> bool:
        return self._level >= ENDS

    def note(self, told: Signal, now: float) -> None:
        """Take one signal of the stream; a changed file or a commit begins a new count."""
        repetition = self._repetition
        if not repetition.note(told, now):
            return
        if repetition.in_a_row == FIRST_AGAIN:
            self._still.mark()
        level = repetition.level(now)
        if level <= self._level:
            self._level = level
        elif self._still.moved():
            repetition.restart(now)
        else:
            self._level = level
            self._tell(now)

    def _tell(self, now: float) -> None:
        repetition = self._repetition
        repetition.tell(now)
        start, end = repetition.where
        self._pane.record(
            Repeating(times=repetition.in_a_row, errors=repetition.errors, file=self._log, start=start, end=end)
        )
        self._pane.say(f"the same calls with the same results, {repetition.in_a_row} times in a row")
