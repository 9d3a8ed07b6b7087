"""What is wrong with a loop that runs: told from its sessions and verdicts, never from anybody's words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ralphd.core.history import Session
from ralphd.core.model import Verdict
from ralphd.core.outcomes import Contamination, Evidence, Kind, Outcome
from ralphd.core.state import LoopState, NightState, TaskState
from ralphd.core.verdicts import to_beat, valid


class Cause(StrEnum):
    """What most likely is wrong. The journal holds these words beside the kind."""

    CRASHING = "crashing"  # sessions end before they began to work
    TAMPERING = "tampering"  # protected files are changed, session after session
    BROKEN = "broken"  # all that was gained is lost, or more
    MISLED = "misled"  # claims of done, each refuted, and nothing more
    FALLING = "falling"  # sessions build on something worse than the loop's best
    UNDOING = "undoing"  # sessions undo one another
    REPEATING = "repeating"  # the same call, the same result, over and over
    SAME_ERROR = "same error"  # every session ends with it
    IDLE = "idle"  # sessions that change nothing
    LAGGING = "lagging"  # no gain from behind, while most others on the same task gain
    FRUITLESS = "fruitless"  # work, and no verified gain


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. ``after`` so many sessions in a row it is a trouble."""

    kind: Kind
    contamination: Contamination
    after: int
    words: str  # after "the last N sessions"


# A session may fail by chance, two in a row rarely do: from where work is being lost at once, two are enough. Where
# nothing is lost but time, there is time: long experiments look fruitless until they are not.
TABLE: dict[Cause, Row] = {
    Cause.CRASHING: Row(
        kind=Kind.CRASH_LOOP,
        contamination=Contamination.CONTEXT,
        after=2,  # on top of the five quick failures that make the runner call it so
        words="crashed at once",
    ),
    Cause.TAMPERING: Row(
        kind=Kind.TAMPERED, contamination=Contamination.WORKTREE, after=3, words="changed protected files"
    ),
    Cause.BROKEN: Row(
        kind=Kind.PROGRESS_NONE,
        contamination=Contamination.WORKTREE,
        after=2,
        words="left nothing of what the loop had gained, or what can't be scored at all",
    ),
    Cause.MISLED: Row(
        kind=Kind.FALSE_DONE,
        contamination=Contamination.WORKTREE,
        after=3,
        words="claimed to be done, which is not so, and changed nothing for the better",
    ),
    Cause.FALLING: Row(
        kind=Kind.PROGRESS_NONE,
        contamination=Contamination.WORKTREE,
        after=4,  # it may have to get worse before it gets better
        words="left something worse than the best commit so far",
    ),
    Cause.UNDOING: Row(
        kind=Kind.PROGRESS_NONE,
        contamination=Contamination.CONTEXT,
        after=4,
        words="undid one another's work",
    ),
    Cause.REPEATING: Row(
        kind=Kind.REPEATING,
        contamination=Contamination.CONTEXT,
        after=3,
        words="made the same call with the same result over and over",
    ),
    Cause.SAME_ERROR: Row(
        kind=Kind.SAME_ERROR, contamination=Contamination.CONTEXT, after=3, words="ended with the same error"
    ),
    Cause.IDLE: Row(
        kind=Kind.PROGRESS_NONE, contamination=Contamination.CONTEXT, after=3, words="changed nothing at all"
    ),
    Cause.LAGGING: Row(
        kind=Kind.PROGRESS_NONE,
        contamination=Contamination.WORKTREE,
        after=5,
        words="brought no gain from behind, while most other loops of the task gained",
    ),
    Cause.FRUITLESS: Row(
        kind=Kind.PROGRESS_NONE,
        contamination=Contamination.CONTEXT,
        after=5,
        words="brought no verified gain",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A trouble of one loop. ``rows`` are the journal's entries that show it, oldest first."""

    cause: Cause
    rows: tuple[int, ...]

    @property
    def kind(self) -> Kind:
        return TABLE[self.cause].kind

    @property
    def contamination(self) -> Contamination:
        return TABLE[self.cause].contamination

    @property
    def why(self) -> str:
        if self.cause is Cause.REPEATING and len(self.rows) < TABLE[self.cause].after:
            return f"the session that runs {TABLE[self.cause].words}"
        return f"the last {len(self.rows)} sessions {TABLE[self.cause].words}"

    def outcome(self) -> Outcome:
        """Return it as the journal tells it. An agent's words are in none of it."""
        detail: dict[str, object] = {"cause": self.cause.value, "rows": list(self.rows), "sessions": len(self.rows)}
        seen = Evidence(what=f"{self.why} (entries {', '.join(map(str, self.rows))})")
        return Outcome(kind=self.kind, detail=detail, evidence=(seen,))


@dataclass(frozen=True, kw_only=True)
class View:
    """What a detector looks at: the sessions that count, each with the verdict on what it left, if there is one."""

    state: NightState
    task: TaskState
    loop: LoopState
    sessions: tuple[Session, ...]
    verdicts: tuple[Verdict | None, ...]


def troubles(state: NightState, loop: LoopState) -> tuple[Trouble, ...]:
    """Return what is wrong with a loop, the surest first. A loop that gains has no trouble."""
    sessions = loop.past.open()
    if not sessions and loop.past.circling <= loop.past.since:
        return ()
    task = state.tasks[loop.loop.task]
    verdicts = tuple(verdict_on(task, session.after) for session in sessions)
    view = View(state=state, task=task, loop=loop, sessions=sessions, verdicts=verdicts)
    return tuple(trouble for detect in DETECTORS if (trouble := detect(view)) is not None)


def verdict_on(task: TaskState, commit: str) -> Verdict | None:
    if commit == task.task.base:
        return task.base
    return task.judged.get(task.commits.get(commit, ""))


def _crashing(view: View) -> Trouble | None:
    return _in_a_row(view, Cause.CRASHING, lambda session, _: session.kind is Kind.CRASH_LOOP)


def _tampering(view: View) -> Trouble | None:
    return _in_a_row(view, Cause.TAMPERING, lambda _, verdict: verdict is not None and verdict.kind is Kind.TAMPERED)


def _broken(view: View) -> Trouble | None:
    """Tell that all is lost at once. Where that is many gains, once is enough: nobody means to do that."""
    task, start, gains = view.task, _start(view.task), len(view.loop.past.gains)

    def lost(_: Session, verdict: Verdict | None) -> bool:
        nothing = unscored(task, verdict) or nothing_left(task, verdict, start)
        return nothing or (gains > 0 and no_better(task, verdict, start))

    after = SESSIONS_FOR_FEW if gains <= FEW_GAINS else 1
    found = _in_a_row(view, Cause.BROKEN, lost, judged=True, after=after)
    if found is None:
        return None
    first = _where_it_began(view, found.rows[0], lost)
    before = verdict_on(task, first.before)  # between start and best: then it went bit by bit, as it may in a long try
    sank = worse(task, before, to_beat(task, view.loop)) and not lost(first, before)
    reset = any(remedy.reset_to == first.before for remedy in view.loop.past.remedies)
    return None if sank and not reset else found


def _where_it_began(view: View, entry: int, lost: Holds) -> Session:
    """Return the session that left the first of a row of losses, though a note has begun a new count since."""
    past = [session for session in view.loop.past.sessions if session.entry <= entry]
    first = past.pop()
    while past and lost(first, verdict_on(view.task, first.before)):
        first = past.pop()
    return first


def _misled(view: View) -> Trouble | None:
    """Tell claims that bring nothing: the first is answered by a note, and an agent reads it."""

    def claims(session: Session, verdict: Verdict | None) -> bool:
        return session.claimed and verdict is not None and not verdict.passed

    return _in_a_row(view, Cause.MISLED, claims)


def _falling(view: View) -> Trouble | None:
    best = to_beat(view.task, view.loop)
    found = _in_a_row(view, Cause.FALLING, lambda _, verdict: worse(view.task, verdict, best), judged=True)
    return None if _too_soon(view, found) else found


def _undoing(view: View) -> Trouble | None:
    """Tell trees that come back: after A, B, A, B, A nobody goes anywhere, however many commits there were."""
    moved = [s for s in view.sessions if s.moved]
    trees = [view.task.commits.get(s.after, s.after) for s in moved]
    last = moved[-TABLE[Cause.UNDOING].after :]
    again = [trees[n] in trees[: n - 1] for n in range(len(trees) - len(last), len(trees))]
    if len(last) < TABLE[Cause.UNDOING].after or sum(again) < len(last) // 2 or not again[-1]:
        return None
    return Trouble(cause=Cause.UNDOING, rows=tuple(s.entry for s in last))


def _repeating(view: View) -> Trouble | None:
    past = view.loop.past
    if past.circling > past.since:
        return Trouble(cause=Cause.REPEATING, rows=(past.circling,))
    last = view.sessions[-1].repeated
    return _in_a_row(view, Cause.REPEATING, lambda session, _: bool(last) and session.repeated == last)


def _same_error(view: View) -> Trouble | None:
    last = view.sessions[-1].error if view.sessions else ""
    return _in_a_row(view, Cause.SAME_ERROR, lambda session, _: bool(last) and session.error == last)


def _idle(view: View) -> Trouble | None:
    return _in_a_row(view, Cause.IDLE, lambda session, _: session.kind is Kind.NOOP)


def _lagging(view: View) -> Trouble | None:
    """Tell a loop that is behind and gains nothing, which is no chance: so often do the others gain meanwhile."""
    others = [loop for loop in view.state.loops.values() if loop.loop.task == view.loop.loop.task]
    others = [loop for loop in others if loop is not view.loop]
    mine = [session for session, verdict in zip(view.sessions, view.verdicts, strict=True) if verdict is not None]
    if len(others) < LEAST_OTHERS or len(mine) < TABLE[Cause.LAGGING].after:
        return None  # what has no verdict may be a gain
    if sum(_is_ahead(view, loop) for loop in others) < MOST_OTHERS * len(others):
        return None
    began = mine[0].entry
    sessions = sum(s.entry > began and s.charged for loop in others for s in loop.past.sessions)
    gained = sum(gain.entry > began for loop in others for gain in loop.past.gains)
    often = max(0, gained - 1) / (sessions + 1)  # rather too low: it is an estimate
    chance = max(0.0, 1.0 - often) ** len(mine)
    if chance > (CHANCE_OF_ONE_THAT_GAINED if view.loop.past.gains else CHANCE):
        return None
    return Trouble(cause=Cause.LAGGING, rows=tuple(session.entry for session in mine))


def _is_ahead(view: View, other: LoopState) -> bool:
    if other.best_score is None or view.loop.best_score is None:
        return other.best_score is not None
    return view.task.task.verifier.better(other.best_score, view.loop.best_score)


def _fruitless(view: View) -> Trouble | None:
    """Tell work that was judged and gained nothing. What nobody could judge says nothing."""
    if not view.task.task.verifier.command or view.task.base is None:
        return None
    found = _in_a_row(view, Cause.FRUITLESS, lambda _, verdict: verdict is not None and valid(verdict), judged=True)
    return None if _too_soon(view, found) else found


def _too_soon(view: View, found: Trouble | None) -> bool:
    """Tell whether the very next verdict may be of a gain: nobody is to hear that he gained nothing, and has.

    Behind a verifier that is always late, twice as many that didn't gain are enough.
    """
    if found is None or len(found.rows) >= 2 * TABLE[found.cause].after:
        return False
    pairs = zip(view.sessions, view.verdicts, strict=True)
    return any(session.moved and verdict is None and session.entry > found.rows[0] for session, verdict in pairs)


DETECTORS: tuple[Callable[[View], Trouble | None], ...] = (
    _crashing,
    _tampering,
    _broken,
    _misled,
    _falling,
    _undoing,
    _repeating,
    _same_error,
    _idle,
    _lagging,
    _fruitless,
)
FEW_GAINS, SESSIONS_FOR_FEW = 2, 2  # of so few it may be meant: two sessions must show it; of more one is enough
LEAST_OTHERS, MOST_OTHERS = 3, 0.75  # fewer may be lucky
CHANCE, CHANCE_OF_ONE_THAT_GAINED = 1e-4, 1e-6  # a night has thousands of sessions, and each may begin such a row

Holds = Callable[[Session, Verdict | None], bool]


def _in_a_row(view: View, cause: Cause, holds: Holds, *, judged: bool = False, after: int = 0) -> Trouble | None:
    """Return a trouble when so many (``after``, else the table's) of the newest sessions show it.

    ``judged``: those whose work has no verdict are passed over, for a slow verifier is nobody's fault.
    """
    found: list[int] = []
    for session, verdict in zip(reversed(view.sessions), reversed(view.verdicts), strict=True):
        if judged and verdict is None:
            continue
        if not holds(session, verdict):
            break
        found.append(session.entry)
    enough = after or TABLE[cause].after
    return Trouble(cause=cause, rows=tuple(reversed(found))) if len(found) >= enough else None


def worse(task: TaskState, verdict: Verdict | None, than: float | None) -> bool:
    """Tell whether a verdict is worse than a score, by itself and for no fault of the verifier."""
    if unscored(task, verdict):
        return True
    if verdict is None or verdict.score is None or than is None or verdict.unverified or verdict.kind is not None:
        return False  # tampering has a cure of its own, and a flaky verdict says nothing
    return task.task.verifier.better(than, verdict.score)


def unscored(task: TaskState, verdict: Verdict | None) -> bool:
    """Tell whether a candidate can't be scored, as the start can; of several loops at once the verifier is at fault."""
    if verdict is None or _start(task) is None or verdict.score is not None or verdict.unverified or verdict.cut_off:
        return False
    ran = verdict.kind is None or (verdict.kind in UNSCORED and bool(verdict.output))
    return ran and len(task.unscored) < UNSCORED_LOOPS


def nothing_left(task: TaskState, verdict: Verdict | None, start: float | None) -> bool:
    """Tell whether a score that counts what works counts nothing any more, though something worked at the start."""
    if verdict is None or verdict.kind is not None or verdict.score is None or start is None:
        return False
    return task.task.verifier.direction == "max" and verdict.score <= 0.0 < start


def no_better(task: TaskState, verdict: Verdict | None, than: float | None) -> bool:
    if verdict is None or verdict.kind is not None or verdict.score is None or than is None:
        return False
    return not task.task.verifier.better(verdict.score, than)


UNSCORED_LOOPS = 2
UNSCORED = frozenset({Kind.VERIFY_FAILED, Kind.VERIFY_TIMEOUT, Kind.VERIFY_MEMORY})


def _start(task: TaskState) -> float | None:
    return task.base.score if task.base is not None else None
