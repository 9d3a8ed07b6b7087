"""The daemon's view of all night repositories and of the people's repositories behind them."""

from __future__ import annotations

from collections.abc import Mapping

from ralphd.core.model import Loop, Task
from ralphd.core.policy import Head
from ralphd.edges.checkout import deliver, describe_repo
from ralphd.edges.night_repository import NightRepository


class NightRepositories:
    """The working default of ports.Repositories."""

    def add_worktree(self, task: Task, loop: Loop) -> None:
        NightRepository(task.night_repository).add_worktree(loop.worktree, loop.branch, task.base)

    def heads(self, task: Task, night: str) -> Mapping[str, Head]:
        tips = NightRepository(task.night_repository).heads(f"ralphd/{night}/")
        return {name.rsplit("/", 1)[1]: Head(commit=tip.commit, tree=tip.tree) for name, tip in tips.items()}

    def deliver(self, task: Task, night: str) -> None:
        deliver(describe_repo(task.repository), NightRepository(task.night_repository).control, night)

    def fingerprint(self, task: Task) -> Mapping[str, str]:
        return NightRepository(task.night_repository).fingerprint()
