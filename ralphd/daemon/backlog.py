"""How far the verifiers are behind: more loops wait for a verdict than the slots can serve while it is still of use."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ralphd.core.outcomes import Kind
from ralphd.core.policy import Strain

# Of so many loops a slot, each is far beyond what is judged of it. A queue is no harm by itself: the verifier is to be
# kept busy, and behind a quick one nobody waits long.
TURNS, WAIT_S = 4.0, 900.0
LASTING_S = 900.0  # sessions that happen to end together are judged in turn
CAUGHT_UP = 0.5  # of those turns: before, it is behind still
NO_WIDER_S = 7200.0  # after that: a wider night shows in the queue only much later, and would swing
VERDICTS_KEPT = 8


@dataclass(kw_only=True)
class Backlog:
    """All times are monotonic seconds.

    ``took``: how long a task's newest verdicts took. ``since``: from when on its queue is too long. ``behind``: when
    its verifier was last seen to be behind.
    """

    took: dict[str, deque[float]] = field(default_factory=dict)
    since: dict[str, float] = field(default_factory=dict)
    behind: dict[str, float] = field(default_factory=dict)

    def note(self, task: str, seconds: float) -> None:
        self.took.setdefault(task, deque(maxlen=VERDICTS_KEPT)).append(seconds)

    def look(self, waiting: Iterable[str], slots: Mapping[str, int], now: float) -> tuple[Strain, ...]:
        """Take in the task of each loop that runs and waits for a verdict, and tell whose verifier is behind."""
        loops = Counter(waiting)
        found = (self._strain(task, loops[task], slots[task], now) for task in slots)
        return tuple(strain for strain in found if strain is not None)

    def _strain(self, task: str, loops: int, slots: int, now: float) -> Strain | None:
        took = self.took.get(task, ())
        verdict_s, turns = sum(took) / len(took) if took else 0.0, loops / slots
        too_long = turns > TURNS and turns * verdict_s >= WAIT_S
        self.since[task] = self.since.get(task, now) if too_long else now
        narrows = too_long and now - self.since[task] >= LASTING_S
        if narrows or (task in self.behind and turns > CAUGHT_UP * TURNS):
            self.behind[task] = now
        elif task in self.behind and now >= self.behind[task] + NO_WIDER_S:
            del self.behind[task]
        if task not in self.behind:
            return None
        words = (
            f"the verifier of {task} is behind: {loops} loops wait to be judged, {turns * verdict_s / 60:.0f} minutes; "
            f"task.verify.slots ({slots}) says how many are at once"
        )
        return Strain(kind=Kind.HOST_LIMITS, words=words, narrows=narrows, shows_s=LASTING_S, task=task)
