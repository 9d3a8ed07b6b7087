"""What a loop changed in the night repository that all share: noticed, told, and put back."""

from __future__ import annotations

from dataclasses import dataclass, field

from ralphd.core.errors import EdgeError
from ralphd.core.outcomes import Kind
from ralphd.daemon.tick import Night

# inotify tells at once of what all share; a loop's own configuration, and whatever inotify lost, is found by looking.
LOOK_EVERY_S = 10.0
# Whoever insists isn't fought in a busy loop; a night of eight loops that each do it once a session stays below.
PUT_BACK_AT_ONCE = 20
PUT_BACK_EVERY_S = 60.0
AGAIN_AFTER_S = 10.0  # a full or locked disk


@dataclass(kw_only=True)
class Pace:
    """How often a repository was put back, and before when (monotonic) it isn't again."""

    times: int = 0
    not_before: float = float("-inf")


@dataclass(kw_only=True)
class Guarding:
    """Belongs to the main thread. ``prints``: of each task's repository, as it was seen last."""

    night: Night
    prints: dict[str, dict[str, str]] = field(default_factory=dict)
    paces: dict[str, Pace] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)  # told once each
    look_at: float = float("-inf")

    def begin(self) -> None:
        """Put back what was changed while no daemon looked."""
        for task in self.night.state.tasks:
            if names := self._put_back(task):
                self._tell(f"the night repository was changed while nobody looked; put back: {', '.join(names)}")
            self._changed(task)

    def step(self) -> None:
        """Look every few seconds."""
        if self.night.world.clock.monotonic() >= self.look_at:
            self.look()

    def look(self) -> None:
        self.look_at = self.night.world.clock.monotonic() + LOOK_EVERY_S
        for task in self.night.state.tasks:
            changed = self._changed(task)
            names = self._put_back(task)
            told = [f"the night repository's {', '.join(changed)} changed"] * bool(changed)
            told += [f"put back: {', '.join(names)}"] * bool(names)
            if told:
                self._tell("; ".join(told))
            if names:
                self._changed(task)

    def _changed(self, task: str) -> list[str]:
        """Return which files aren't what they were; what is read for the first time has nothing to compare with."""
        try:
            now = dict(self.night.world.repositories.fingerprint(self.night.state.tasks[task].task))
        except EdgeError:
            return []
        before = self.prints.get(task, now)
        self.prints[task] = now
        return sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))

    def _put_back(self, task: str) -> tuple[str, ...]:
        """Put back what makes git run or mean something else."""
        pace, now = self.paces.setdefault(task, Pace()), self.night.world.clock.monotonic()
        if now < pace.not_before:
            return ()
        try:
            names = tuple(self.night.world.repositories.put_back_guarded(self.night.state.tasks[task].task))
        except (OSError, EdgeError) as error:
            pace.not_before = now + AGAIN_AFTER_S
            self._tell_trouble(task, f"the night repository was changed and can't be put back: {error}")
            return ()
        self.troubles.pop(task, None)
        pace.times += bool(names)
        if names and pace.times > PUT_BACK_AT_ONCE:
            pace.not_before = now + PUT_BACK_EVERY_S
        return names

    def _tell(self, what: str) -> None:
        self.night.note(Kind.FOREIGN_CHANGE, what)

    def _tell_trouble(self, task: str, what: str) -> None:
        if self.troubles.get(task) != what:
            self.troubles[task] = what
            self._tell(what)
