"""How a CLI that runs ``bash`` from PATH is given the guard instead."""

from __future__ import annotations

import os

from ralphd.agents.base import File

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Turn
    from ralphd.core.exchange import Assignment

FOLDER = "bin"  # below the loop's own folder; the guard takes it out of PATH for what it runs


def guarded_bash(turn: Turn) -> tuple[File, ...]:
    return (File(path=f"{FOLDER}/bash", link=turn.guard),) if turn.guard else ()


def path_with(assignment: Assignment, turn: Turn) -> dict[str, str]:
    """Return the PATH on which that ``bash`` comes first."""
    path = assignment.env.get("PATH") or os.defpath
    return {"PATH": f"{turn.home}/{FOLDER}:{path}"} if turn.guard and turn.home else {}
