"""What a person took over from a night: apart from what was finished, which only a verdict says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One take. ``how``: branch, merge or patch; ``where``: the branch's name, or the patch's path.

    ``commit`` is what was taken, put on top of ``onto``; ``loops`` those whose work is in it. ``score`` is what the
    verifier said of ``commit`` just before; None: it has no verifier, or gave none. Times are epoch seconds.
    """

    id: str
    at: float
    task: str
    loops: tuple[str, ...]
    commit: str
    onto: str
    how: str
    where: str
    repository: str
    score: float | None = None
    verified: bool = False
    undone_at: float | None = None
