"""The daemon's view of all night repositories and of the people's repositories behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ralphd.core.errors import GitError
from ralphd.core.model import Loop, Task, branch_name
from ralphd.core.policy import Head
from ralphd.edges import foreign_refs
from ralphd.edges.checkout import deliver, describe_repo
from ralphd.edges.git import Git
from ralphd.edges.night_repository import NightRepository


class NightRepositories:
    """The working default of ports.Repositories."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, tuple[int, ...]]] = {}  # loops' own configurations that are harmless

    def add_worktrees(self, task: Task, loops: Sequence[Loop], tips: Mapping[str, str]) -> None:
        wanted = [(loop.worktree, loop.branch) for loop in loops]
        by_branch = {loop.branch: tips[loop.id] for loop in loops if loop.id in tips}
        NightRepository(task.night_repository).add_worktrees(wanted, task.base, by_branch)

    def heads(self, task: Task, night: str) -> Mapping[str, Head]:
        tips = NightRepository(task.night_repository).heads(f"ralphd/{night}/")
        return {name.rsplit("/", 1)[1]: Head(commit=tip.commit, tree=tip.tree) for name, tip in tips.items()}

    def moved_by_others(self, task: Task, loop: Loop, known: str, found: str) -> bool:
        repository = NightRepository(task.night_repository)
        git = Git(git_dir=repository.control)
        return foreign_refs.moved_by_others(git, repository.git_dir, loop.branch, known, found)

    def put_back(self, task: Task, loop: Loop, *, found: str, to: str, stamp: str) -> str:
        git = Git(git_dir=NightRepository(task.night_repository).control)
        return foreign_refs.put_back(git, loop.branch, found=found, to=to, stamp=stamp)

    def deliver(
        self, task: Task, night: str, best: Mapping[str, str], tips: Mapping[str, str] | None = None
    ) -> Sequence[str]:
        repository = NightRepository(task.night_repository)
        repository.put_view_back()
        repository.deepen()
        missing: list[str] = []
        for loop, tip in (dict(best) | dict(tips or {})).items():
            repository.renew_branch(branch_name(night, loop), (tip, best.get(loop, "")))
        for loop, commit in best.items():
            try:
                if not repository.holds(branch_name(night, loop), commit):
                    repository.keep(night, f"best-{loop}", commit)
            except GitError as error:  # of one loop: it must not keep the others' results from arriving
                missing.append(f"{commit[:12]}, the best of {loop}: {error}")
        return (*missing, *deliver(describe_repo(task.repository), repository.control, night))

    def put_back_guarded(self, task: Task) -> Sequence[str]:
        seen = self._seen.setdefault(task.name, {})
        return NightRepository(task.night_repository).put_back_guarded(task.guarded, task.repository, seen)

    def fingerprint(self, task: Task) -> Mapping[str, str]:
        return NightRepository(task.night_repository).fingerprint()
