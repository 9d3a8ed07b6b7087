"""How long an agent's silence is borne, and what it means when it is over."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.facts import EndedBy
from ralphd.core.signals import Called, Requesting, Resulted, Retrying, Returned, Said, Streamed, Unread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.exchange import Limits
    from ralphd.core.reading import Reading
    from ralphd.core.signals import Signal


@dataclass
class Patience:
    """The clocks of one agent process. All times are seconds of one monotonic clock.

    ``excuse`` moves every clock on by a time in which nobody could have worked: a suspended or frozen machine.
    """

    limits: Limits
    last_byte: float
    last_work: float  # the tree used processor time, did I/O, or a file of its worktree changed
    last_event: float = 0.0  # something the adapter understood: noise on a pipe doesn't prolong a finished run
    compactions: int = 0  # of earlier attempts of the same trajectory
    asked_at: float | None = None  # a request to the model is under way, and this is its newest sign of life
    excused_until: float = 0.0  # the CLI said that it waits by itself
    turns: bool = False  # the CLI tells its calls and answers, but not its requests: then the rest is the model's turn

    def heard(self, now: float) -> None:
        self.last_byte = self.last_work = now

    def worked(self, at: float) -> None:
        """Note a sign of life; one that is older than the last changes nothing."""
        self.last_work = max(self.last_work, at)

    def note(self, signal: Signal, now: float) -> None:
        """Take one signal of the stream."""
        if not isinstance(signal, Unread):
            self.last_event = now
        match signal:
            case Requesting() | Streamed():
                self.asked_at = now
            case Retrying(delay_s=delay_s, silent_s=silent_s):
                if self.asked_at is not None:  # else nothing would show that the next answer streams
                    self.asked_at = now
                self.excused_until = now + max(0.0, delay_s, silent_s)
            case Resulted():
                self.asked_at, self.excused_until = None, 0.0
            case Said() | Called() | Returned():
                self.asked_at = None
            case _:
                pass

    def excuse(self, seconds: float) -> None:
        self.last_byte += seconds
        self.last_work += seconds
        self.last_event += seconds
        self.excused_until += seconds
        if self.asked_at is not None:
            self.asked_at += seconds

    def over(self, now: float, reading: Reading, *, open_calls: int) -> EndedBy:
        """Tell why the process must be ended now; ``EndedBy.ITSELF`` while there is no reason."""
        if self.compactions + reading.compactions >= self.limits.compactions:
            return EndedBy.COMPACTIONS
        if reading.failed is not None and reading.failed.endless:
            return EndedBy.ENDLESS
        if open_calls:
            return EndedBy.ITSELF  # a tool call has limits of its own
        if reading.settled:
            quiet_s = now - max(self.last_event, self.excused_until)
            return EndedBy.RESULT_GRACE if quiet_s >= self.limits.result_grace_s else EndedBy.ITSELF
        if self.asked_at is not None and now - max(self.asked_at, self.excused_until) >= self.limits.stream_s:
            return EndedBy.SILENT_STREAM
        quiet_for_s = now - self._quiet_since()
        if quiet_for_s >= self.limits.stream_s and self._models_turn(reading):
            return EndedBy.SILENT_STREAM
        return EndedBy.QUIET if quiet_for_s >= self.limits.quiet_s else EndedBy.ITSELF

    def _quiet_since(self) -> float:
        return max(self.last_byte, self.last_work, self.excused_until)

    def _models_turn(self, reading: Reading) -> bool:
        """Tell whether a CLI that tells no requests can only be waiting for an answer."""
        return self.turns and reading.begun > 0 and not reading.running and not reading.settled

    def next_look_s(self, now: float, reading: Reading) -> float:
        """Return the seconds until ``over`` may have another answer, at least a millisecond."""
        until = [self._quiet_since() + self.limits.quiet_s]
        if self._models_turn(reading):
            until.append(self._quiet_since() + self.limits.stream_s)
        if reading.settled:
            until.append(max(self.last_event, self.excused_until) + self.limits.result_grace_s)
        if self.asked_at is not None:
            until.append(max(self.asked_at, self.excused_until) + self.limits.stream_s)
        return max(0.001, min(until) - now)
