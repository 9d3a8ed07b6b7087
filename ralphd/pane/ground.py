"""Whether the loop's worktree is fit for a session, and what a session changed there."""

from __future__ import annotations

import os
import time
import zlib
from dataclasses import dataclass

from ralphd.core.errors import GitError
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.records import Prepared, Repaired
from ralphd.core.worktree_facts import PASSING_LOCK_STALE_AFTER_S
from ralphd.pane import worktree
from ralphd.pane.files import read_regular
from ralphd.pane.procs import at_work_in
from ralphd.pane.worktree import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.core.exchange import Assignment
    from ralphd.core.worktree_facts import WorktreeFacts

    Tell = Callable[[Prepared | Repaired], None]

TICKS_S = 0.02  # two ticks of the slowest kernel (100 Hz)
COMMITS_LOOKED_AT = 64  # a session's own commits are loose objects; beyond that git itself is asked
PATHS_TOLD = 20
LOCK_LOOK_S = 0.05
OBJECT_LIMIT_BYTES = 1 << 20
OTHERS_PATIENCE_S = 900.0  # a commit message or a rebase of a person's is written by then, or was forgotten


class NotReady(Exception):
    """The worktree can't be used now; ``outcome`` is typed, the message says what git said."""

    def __init__(self, outcome: Outcome, why: str) -> None:
        super().__init__(why)
        self.outcome = outcome


@dataclass(kw_only=True)
class Ground:
    """The worktree of one loop. ``known_tip`` is the branch's commit when it was last seen in order.

    ``prepared`` is the newest generation whose worktree was made ready.
    """

    place: Place
    reset_to: str
    generation: int
    known_tip: str = ""
    prepared: int = 0
    base: str = ""
    restore: tuple[str, ...] = ()  # paths that must be as they are in ``base``
    others_since: float | None = None  # monotonic: since when somebody else's git keeps it from being mended

    def assign(self, assignment: Assignment) -> None:
        self.place = place_of(assignment)
        self.reset_to, self.generation = assignment.reset_to, assignment.generation
        self.base, self.restore = assignment.base, assignment.restore

    def head(self) -> str:
        """Return the tip of the loop's branch, or the empty string."""
        return worktree.look(self.place, time.time()).tip

    def stamp_ns(self) -> int:
        """Return a time to compare with; a rough one where the agent has spoiled the file that tells it exactly."""
        try:
            return worktree.stamp_ns(self.place)
        except OSError:
            return time.time_ns() - int(TICKS_S * 1e9)

    def changed_since(self, stamp_ns: int) -> bool | None:
        """Tell whether a session begun at ``stamp_ns`` changed a file.

        File times move in ticks of a few milliseconds; what changed within the first one counts.
        """
        return worktree.changed_since(self.place.worktree, stamp_ns)

    def changed_before_s(self) -> float | None:
        """Return how many seconds ago a file of the worktree changed last; None: not known."""
        newest_ns = worktree.newest_change_ns(self.place.worktree)
        return None if newest_ns is None else max(0.0, (time.time_ns() - newest_ns) / 1e9)

    def commits_in_words(self, before: str, later: str) -> str:
        """Return what a person wants to know of a session: ``3 commits``."""
        if before == later:
            return "no commit"
        count = distance(self.place.git_dir, later, before)
        return "new commits" if count is None else f"{count} commit{'s' if count > 1 else ''}"

    def ready(self, tell: Tell) -> str:
        """See that a session can begin, repair what hinders it, and return the branch's tip. Raises NotReady."""
        try:
            self._let_locks_pass()
            if self.prepared < self.generation:
                self._prepare(tell)
            facts = worktree.look(self.place, time.time())
            if not self._in_order(facts):
                self._leave_to_others()
                self._mend(tell)
                facts = worktree.look(self.place, time.time())
            if self.restore and self._restored(tell):
                facts = worktree.look(self.place, time.time())
        except GitError as error:
            locked = ".lock" in error.stderr
            kind = Kind.GIT_LOCKED if locked else Kind.GIT_CORRUPT
            raise NotReady(Outcome(kind=kind, detail={"git": str(error)[:500]}), str(error)) from None
        self.known_tip = facts.tip
        return facts.tip

    def _let_locks_pass(self) -> None:
        """Wait while somebody else's git may hold a lock of this worktree: it is over in a moment, or dead."""
        until = time.monotonic() + PASSING_LOCK_STALE_AFTER_S
        while time.monotonic() < until:
            waits = [lock.passes_in_s for lock in worktree.look(self.place, time.time()).locks]
            if not any(waits):
                return
            time.sleep(LOCK_LOOK_S)

    def put_back(self, tell: Tell) -> None:
        """Mend a branch that the last session took commits from, as before a next one. Raises GitError."""
        tip = self.head()
        if self.known_tip and distance(self.place.git_dir, tip, self.known_tip) is None:
            self._mend(tell)

    def _in_order(self, facts: WorktreeFacts) -> bool:
        """Tell from files alone whether nothing has to be mended: the usual case must cost no git."""
        sound = facts.exists and facts.linked and facts.has_index and facts.at_home and bool(facts.tip)
        if not sound or facts.mid_operation or facts.locks:
            return False
        if facts.tip != self.known_tip and facts.moved_by_others(self.known_tip):
            return False
        return not self.known_tip or distance(self.place.git_dir, facts.tip, self.known_tip) is not None

    def _leave_to_others(self) -> None:
        """Wait for a git that runs in the worktree between sessions: a person's, whose lock or rebase this is."""
        gits = at_work_in(self.place.worktree, "git")
        if not gits:
            self.others_since = None
            return
        now = time.monotonic()
        self.others_since = now if self.others_since is None else self.others_since
        if now - self.others_since < OTHERS_PATIENCE_S:
            why = f"somebody's git is at work in {self.place.worktree} (pid {gits[0]})"
            raise NotReady(Outcome(kind=Kind.GIT_LOCKED, detail={"git": why}), why)

    def _prepare(self, tell: Tell) -> None:
        """Make the worktree of a new generation: check it out, or save what is there and reset it."""
        began = time.monotonic()
        facts = worktree.look(self.place, time.time())
        if self.reset_to and facts.exists:
            self._reset(tell)
        elif not facts.linked or facts.has_files:
            self._mend(tell)
        missing = worktree.prepare(self.place)
        self.prepared = self.generation
        tell(Prepared(head=self.head(), seconds=round(time.monotonic() - began, 3), missing=missing))

    def _reset(self, tell: Tell) -> None:
        from ralphd.pane.mend import reset_clean  # noqa: PLC0415  # rare, and a pane pays memory for it

        saved = reset_clean(self.place, self.reset_to, self._stamp(), time.time(), self.known_tip)
        self.known_tip = self.reset_to
        what = f"a new generation begins at {self.reset_to[:12]}"
        if saved.moved_aside:
            what += f"; git could not save every file, so the old worktree is kept as {saved.moved_aside}"
        outcome = Outcome(kind=Kind.STOPPED, detail={"why": "restarted clean", "complete": saved.complete})
        tell(Repaired(outcome=outcome, what=what, ref=saved.ref, head=self.reset_to))

    def _mend(self, tell: Tell) -> None:
        from ralphd.pane.mend import mend  # noqa: PLC0415  # rare, and a pane pays memory for it

        for mended in mend(self.place, known_tip=self.known_tip, stamp=self._stamp(), now_s=time.time()):
            outcome = Outcome(kind=mended.kind)
            tell(Repaired(outcome=outcome, what=mended.text, ref=mended.rescue, head=self.head()))

    def _restored(self, tell: Tell) -> bool:
        """Put protected files back that a session changed; whatever is built on the change could never count."""
        from ralphd.pane.restore import restore  # noqa: PLC0415  # rare, and a pane pays memory for it

        done = restore(self.place, self.base, self.restore, self._stamp())
        if done is None:
            return False
        outcome = Outcome(kind=Kind.TAMPERED, detail={"paths": list(done.paths[:PATHS_TOLD]), "commit": done.commit})
        what = f"{len(done.paths)} protected file{'s' * (len(done.paths) > 1)} put back as at the start"
        tell(Repaired(outcome=outcome, what=what, ref=done.ref))
        return True

    def _stamp(self) -> str:
        return time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + f"-g{self.generation}"


class Still:
    """Tells whether anything came of what a session did since a moment: a changed file or a commit."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._stamp, self._head = 0, ""

    def mark(self) -> None:
        self._stamp, self._head = self._ground.stamp_ns(), self._ground.head()

    def moved(self) -> bool:
        """Tell whether anything changed; where nobody can tell (very many files), nothing did."""
        return self._ground.head() != self._head or self._ground.changed_since(self._stamp) is True


def place_of(assignment: Assignment) -> Place:
    include = tuple(item.target for item in assignment.include)
    source = assignment.include[0].source.removesuffix(assignment.include[0].target) if include else ""
    return Place(
        worktree=assignment.worktree,
        git_dir=assignment.night_repository,
        branch=assignment.branch,
        source=source.rstrip("/"),
        include=include,
        sparse=assignment.sparse,
    )


def distance(git_dir: str, new: str, old: str) -> int | None:
    """Return how many commits lead from ``old`` to ``new``, by reading loose commits: git itself costs 3 ms.

    None when ``old`` is not among the nearest ancestors.
    """
    waiting, seen = [(new, 0)], 0
    while waiting and seen < COMMITS_LOOKED_AT:
        commit, steps = waiting.pop(0)
        if commit == old:
            return steps
        seen += 1
        waiting += [(parent, steps + 1) for parent in _parents(git_dir, commit)]
    return None


def _parents(git_dir: str, commit: str) -> list[str]:
    try:
        packed = read_regular(os.path.join(git_dir, "objects", commit[:2], commit[2:]), OBJECT_LIMIT_BYTES)
        text = zlib.decompressobj().decompress(packed, 1 << 14)  # parents stand at the very beginning
    except (OSError, zlib.error):
        return []
    head = text.partition(b"\n\n")[0]
    if not head.startswith(b"commit "):
        return []
    return [line[7:].decode("ascii", "replace") for line in head.split(b"\n") if line.startswith(b"parent ")]
