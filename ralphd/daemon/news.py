"""Which good news of a night a person is told as it comes: its start, a goal that is reached, its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ralphd.core.state import NightState

Tell = Callable[[str, str], object]  # title, body; takes as long as it takes


@dataclass(kw_only=True)
class News:
    """``known``: tasks whose goal was reached before. ``adopted``: its start was told by a daemon before this one."""

    tell: Tell
    known: set[str] = field(default_factory=set)
    adopted: bool = False

    def began(self, state: NightState, loops: str) -> None:
        if self.adopted:
            return
        self.tell(f"night {state.id} has begun", f"{loops}; tasks: {', '.join(state.tasks)}.")

    def look(self, state: NightState) -> None:
        """Tell each task's goal once."""
        for name, task in state.tasks.items():
            if task.done and name not in self.known:
                self.known.add(name)
                self.tell(f"{name} has reached its goal", f"Night {state.id}. `ralphd report` tells by which commit.")

    def closed(self, state: NightState, why: str) -> None:
        gains = sum(task.submissions for task in state.tasks.values())
        verified = "1 verified gain" if gains == 1 else f"{gains} verified gains"
        known = {"goal": "every goal is reached", "time": "its time is over", "budget": "its budget is spent"}
        words = known.get(why, "it was stopped")
        self.tell(f"the report of night {state.id} is ready", f"The night has ended ({words}): {verified}.")
