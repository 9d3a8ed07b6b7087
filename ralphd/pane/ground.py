"""Is the loop's worktree fit for a session, and what did a session change there?"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.exchange import Assignment


def head(assignment: Assignment) -> str:
    path = os.path.join(assignment.night_repository, "refs", "heads", assignment.branch)
    try:
        with open(path) as f:
            return f.read(64).strip()
    except OSError:
        return assignment.base


def changed(assignment: Assignment, since: float) -> bool | None:
    return None
