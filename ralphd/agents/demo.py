"""How the agent that ships with ralphd is started. It speaks the protocol of ``command``."""

from __future__ import annotations

import os
import sys

from ralphd.agents.base import Launch, Tells
from ralphd.agents.command import guarded_lines, reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Turn
    from ralphd.core.exchange import Assignment

TELLS = Tells(tokens=True, compactions=True, partial=False, resume=False)
PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "demo", "agent.py")


def launch(assignment: Assignment, turn: Turn) -> Launch:  # noqa: ARG001 -- the contract; it has no sessions
    """Run the shipped program isolated; ``assignment.program`` doesn't matter."""
    argv = (sys.executable, "-I", "-S", "-E", PROGRAM, *assignment.args)
    return Launch(argv=argv, env=dict(assignment.env))


__all__ = ["PROGRAM", "TELLS", "guarded_lines", "launch", "reader"]
