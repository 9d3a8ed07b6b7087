"""Which of a night's verified commits still gain on top of one another, and in which order they are tried.

Pure: how commits are joined and judged comes in as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ralphd.core.model import Verdict, Verifier


@dataclass(frozen=True, kw_only=True)
class Pick:
    """A commit of a loop with the score that the night verified; None: it passed, or was never verified."""

    loop: str
    commit: str
    score: float | None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What is there so far: a commit, and what the verifier says of it."""

    commit: str
    tree: str
    score: float | None
    passed: bool


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Picks put on top of a commit, or the paths that conflict (then there is no ``commit``)."""

    commit: str = ""
    tree: str = ""
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One try and what came of it. ``standing``: what is there after it."""

    loops: tuple[str, ...]
    kept: bool
    why: str
    standing: Standing
    conflicts: tuple[str, ...] = ()
    verdict: Verdict | None = None


@dataclass(frozen=True, kw_only=True)
class Means:
    """How to do it: join picks onto a commit; judge a joined commit (its tree is given, too)."""

    join: Callable[[str, Sequence[Pick]], Joined]
    judge: Callable[[Joined, Sequence[Pick]], Verdict]
    verifier: Verifier = field(default_factory=Verifier)


def ranked(picks: Sequence[Pick], verifier: Verifier) -> list[Pick]:
    """Put the greatest verified gain first; what has no score comes last, in the order given."""
    sign = -1.0 if verifier.direction == "max" else 1.0
    return sorted(picks, key=lambda pick: (pick.score is None, sign * (pick.score or 0.0)))


def stack(start: Standing, picks: Sequence[Pick], means: Means, *, batch: int = 1) -> Iterator[Tried]:
    """Try picks in their order, ``batch`` at once, each on top of what was kept before; keep what gains.

    A batch that conflicts or doesn't gain is halved until the pick that spoils it stands alone, and is left out.
    """
    standing = start
    for at in range(0, len(picks), batch):
        for tried in _try(standing, list(picks[at : at + batch]), means):
            standing = tried.standing
            yield tried


def _try(standing: Standing, picks: list[Pick], means: Means) -> Iterator[Tried]:
    tried = _once(standing, picks, means)
    if tried.kept or len(picks) == 1:
        yield tried
        return
    middle = (len(picks) + 1) // 2
    for half in (picks[:middle], picks[middle:]):
        for smaller in _try(standing, half, means):
            standing = smaller.standing
            yield smaller


def _once(standing: Standing, picks: list[Pick], means: Means) -> Tried:
    loops = tuple(pick.loop for pick in picks)
    joined = means.join(standing.commit, picks)
    if joined.conflicts:
        why = f"conflicts with what was taken before it in {_some(joined.conflicts)}"
        return Tried(loops=loops, kept=False, why=why, standing=standing, conflicts=joined.conflicts)
    if joined.tree == standing.tree:
        return Tried(loops=loops, kept=False, why="brings nothing that isn't there already", standing=standing)
    verdict = means.judge(joined, picks)
    why = refused(verdict, standing, means.verifier)
    if why:
        return Tried(loops=loops, kept=False, why=why, standing=standing, verdict=verdict)
    after = Standing(commit=joined.commit, tree=joined.tree, score=verdict.score, passed=verdict.passed)
    return Tried(loops=loops, kept=True, why=verdict.why or "verified", standing=after, verdict=verdict)


def refused(verdict: Verdict, standing: Standing, verifier: Verifier) -> str:
    """Say why a verdict is no gain over what is there; empty: it is one."""
    if verdict.kind is not None:
        return f"{verdict.kind}: {verdict.why}"
    if verdict.score is None or standing.score is None:
        return "" if verdict.passed and not standing.passed else f"verified, and it doesn't pass: {verdict.why}"
    if verifier.better(verdict.score, standing.score) or (verdict.passed and not standing.passed):
        return ""
    return f"verified, and it doesn't gain: {verdict.score:g} after {standing.score:g}"


def _some(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more
