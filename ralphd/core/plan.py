"""From a configuration to the tasks' and loops' places in a night: who gets which width, id, branch and folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ralphd.core.config import Config, TaskConfig
from ralphd.core.model import Loop, branch_name


def shares(width: int, tasks: Sequence[TaskConfig]) -> list[int]:
    """Split the night's width: a task's own wish first, the rest evenly, the first ones getting what is left over."""
    free = width - sum(task.width or 0 for task in tasks)
    open_ = [n for n, task in enumerate(tasks) if task.width is None]
    evenly = {n: free // len(open_) + (place < free % len(open_)) for place, n in enumerate(open_)}
    return [evenly.get(n, task.width or 0) for n, task in enumerate(tasks)]


def task_name(wish: str, repository: str) -> str:
    """Return the task's name: as wished, or after its repository's folder, or ``main``."""
    named = wish or re.sub(r"[^a-z0-9]+", "-", repository.rstrip("/").rsplit("/", 1)[-1].lower()).strip("-")[:30]
    return named.rstrip("-") or "main"


def loops_of(config: Config, names: Sequence[str], night: str, state: str, nonce: Callable[[], str]) -> list[Loop]:
    """Return the night's loops, task by task: ``loop-1`` …, or named after the task when there are several."""
    loops: list[Loop] = []
    for name, count in zip(names, shares(config.night.width, config.tasks), strict=True):
        for n in range(1, count + 1):
            loop = f"{name}-{n}" if len(names) > 1 else f"loop-{n}"
            pod = f"pod-{len(loops) // config.pods.size + 1}"
            loops.append(
                Loop(
                    id=loop,
                    task=name,
                    pod=pod,
                    branch=branch_name(night, loop),
                    worktree=f"{state}/worktrees/{night}/{loop}",
                    folder=f"{state}/nights/{night}/loops/{loop}",
                    nonce=nonce(),
                )
            )
    return loops
