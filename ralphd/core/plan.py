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
            loops.append(_loop((loop, name, pod), night, state, nonce()))
    return loops


def more_loops(known: Sequence[Loop], tasks: Sequence[str], count: int, nonce: Callable[[], str]) -> list[Loop]:
    """Return ``count`` new loops for a night that has ``known`` ones: each for the task (of ``tasks``) with the fewest.

    They lie beside the loops that are there, are named on from them and join the last pod while it has room.
    """
    new: list[Loop] = []
    for _ in range(count):
        there = [*known, *new]
        task = min(tasks, key=lambda name: sum(loop.task == name for loop in there))
        like = next((loop for loop in there if loop.task == task), there[0])
        stem = (like.task == task and like.id.rpartition("-")[0]) or task
        numbers = (int(tail) for head, _, tail in (loop.id.rpartition("-") for loop in there) if head == stem)
        loop = f"{stem}-{max(numbers, default=0) + 1}"
        night = like.branch.split("/")[1]
        state = like.worktree.removesuffix(f"/worktrees/{night}/{like.id}")
        new.append(_loop((loop, task, _pod(there)), night, state, nonce()))
    return new


def _pod(there: Sequence[Loop]) -> str:
    """Return the last pod while it is smaller than the first, else a new one."""
    sizes = [sum(loop.pod == one.pod for loop in there) for one in (there[0], there[-1])]
    if there[0].pod != there[-1].pod and sizes[1] < sizes[0]:
        return there[-1].pod
    return f"pod-{len({loop.pod for loop in there}) + 1}"


def _loop(names: tuple[str, str, str], night: str, state: str, nonce: str) -> Loop:
    loop, task, pod = names
    return Loop(
        id=loop,
        task=task,
        pod=pod,
        branch=branch_name(night, loop),
        worktree=f"{state}/worktrees/{night}/{loop}",
        folder=f"{state}/nights/{night}/loops/{loop}",
        nonce=nonce,
    )
