"""Which notes a loop is due: each from a fixed template, once."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ralphd.core import actions
from ralphd.core.actions import Decision
from ralphd.core.outcomes import Kind
from ralphd.core.policy.present import Present
from ralphd.core.policy.running import wanted
from ralphd.core.state import LoopState, NightState


def tell(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in wanted(state):
        for tell, why in _notes(state, loop):
            if actions.key(tell) not in loop.told:
                yield Decision(action=tell, why=why)


def _notes(state: NightState, loop: LoopState) -> Iterator[tuple[actions.Tell, str]]:
    name, verdict, task = loop.loop.id, loop.last_verdict, state.tasks[loop.loop.task].task
    base = task.base[:12]
    if verdict is not None and verdict.kind is Kind.TAMPERED:
        slots = {
            "commit": verdict.commit[:12],
            "paths": shlex.join(verdict.tampered[:20]),
            "base": base,
        }
        yield actions.Tell(loop=name, template="repair-tampered", slots=slots), "its branch changes protected paths"
    if loop.refuted is not None:
        slots = {**loop.refuted, "verify_command": task.verifier.command}
        yield actions.Tell(loop=name, template="repair-false-done", slots=slots), "its claim was refuted"
    if loop.parked is not None:
        slots = {"commit": base, **loop.parked, "base": base}
        yield actions.Tell(loop=name, template="repair-worktree", slots=slots), "work of it was parked"
