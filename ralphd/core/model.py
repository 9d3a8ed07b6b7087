"""The nouns of a night: tasks, loops, candidates, verdicts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ralphd.core.outcomes import Kind

LOOP_ID = re.compile(r"[a-z0-9-]{1,40}")


def is_loop_id(text: str) -> bool:
    return LOOP_ID.fullmatch(text) is not None


def branch_name(night: str, loop: str) -> str:
    return f"ralphd/{night}/{loop}"


@dataclass(frozen=True, kw_only=True)
class Verifier:
    """How a candidate is judged. ``command`` empty: every verdict is ``unverified``."""

    command: str = ""
    score: str = "exit"  # exit | junit:PATH | regex:PATTERN | json:PATH#/pointer
    direction: str = "max"  # or "min"
    goal: float | None = None
    protect: tuple[str, ...] = ()
    seconds: float = 600.0
    memory_bytes: int = 4 << 30
    slots: int = 2
    setup: str = ""

    def better(self, score: float, than: float | None) -> bool:
        """Tell whether ``score`` beats ``than``; anything beats nothing."""
        if than is None:
            return True
        return score > than if self.direction == "max" else score < than

    def reached(self, score: float | None) -> bool:
        if self.goal is None or score is None:
            return False
        return score >= self.goal if self.direction == "max" else score <= self.goal


@dataclass(frozen=True, kw_only=True)
class Task:
    """A question. ``repository`` is the user's checkout, ``night_repository`` the bare clone; both absolute.

    ``guarded``: a digest of the night repository's configuration as it was made.
    """

    name: str
    repository: str
    night_repository: str
    prompt: str
    base: str  # commit
    verifier: Verifier
    with_uncommitted: bool = False
    guarded: str = ""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One Ralph loop."""

    id: str
    task: str
    pod: str
    branch: str
    worktree: str
    folder: str
    nonce: str


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A commit of a loop that is worth verifying. ``loop`` is empty for the base."""

    task: str
    loop: str
    generation: int
    trajectory: int
    commit: str
    tree: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the verifier said of a candidate.

    ``score`` is None when there is none to be had. ``passed``: by the command's own standard (exit 0, all tests) or
    the goal. ``kind`` names the trouble, if any (verify.*). ``unverified``: the task has no verifier. ``runs``: how
    many runs agree. ``cut_off``: the run was not brought to its end, for no reason that the candidate gave.
    """

    task: str
    loop: str
    commit: str
    tree: str
    score: float | None
    passed: bool
    kind: Kind | None = None
    unverified: bool = False
    runs: int = 1
    seconds: float = 0.0
    why: str = ""  # one line
    output: str = ""  # file with the verifier's own output
    tampered: tuple[str, ...] = ()  # protected paths that differ from the base
    counts: dict[str, int] | None = None  # junit: tests, passed, failed, errors, skipped
    cut_off: bool = False


def is_submission(verdict: Verdict, verifier: Verifier, best_of_loop: float | None) -> bool:
    """Tell whether the verdict makes its candidate a submission: it passed, or beat the loop's best so far."""
    if verdict.kind in {Kind.TAMPERED, Kind.FLAKY} or verdict.unverified:
        return False
    if verdict.passed:
        return True
    return verdict.score is not None and verifier.better(verdict.score, best_of_loop)
