"""The night as the journal tells it: a fold over entries, the same for a running daemon and for a new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ralphd.core import actions, clocks, events, records, verdicts
from ralphd.core.events import Entry
from ralphd.core.exchange import Order, Want, newest, note_name
from ralphd.core.history import Past, Remedy, Session, error_of
from ralphd.core.model import Loop, Task, Verdict
from ralphd.core.orders import Ordering, order_of
from ralphd.core.outcomes import HEALTHY, Kind, Outcome
from ralphd.core.standing import Standing

WORKS_S = 60.0  # a session that has run so long has got over what the one before failed of
WIDTHS_KEPT = 32


@dataclass(kw_only=True)
class Ending:
    """What a session left behind, perhaps with the word that the whole task is done. ``entry``: its TrajectoryEnded."""

    entry: int
    generation: int
    trajectory: int
    head: str


@dataclass(kw_only=True)
class LoopState:
    """One loop as told so far. ``head`` is the branch tip that a record or a verdict named last."""

    loop: Loop
    want: Want = Want.RUNNING
    wanted_by: str = "policy"
    generation: int = 1
    reset_to: str = ""  # where this generation begins, until its first session has
    trajectory: int = 0
    nonce: str = ""
    session_open: bool = False
    started: bool = False  # a runner took the loop up at least once
    runner_up: bool = False
    left: str = ""  # why the runner left, when it left on purpose
    pane: str = ""
    agent_pid: int | None = None
    account: str = ""  # whom inference knew its newest agent as
    standing: Standing = field(default_factory=Standing)
    waiting_until: float | None = None
    waiting_kind: str = ""
    asked_s: float = float("-inf")  # the second of the night at which its newest agent asked inference
    refused_s: float = float("-inf")  # and the one since which it waits for inference, its quick tries included
    held_kind: str = ""
    held_why: str = ""
    last_outcome: Kind | None = None
    usage: records.Usage = field(default_factory=records.Usage)  # ended trajectories
    usage_now: records.Usage = field(default_factory=records.Usage)  # the running one
    compactions: int = 0
    quiet_for_s: float = 0.0
    best_score: float | None = None
    best_commit: str = ""
    bar: float | None = None  # the best score that was known before it was reset, or came of it since
    reset_in: int = 1  # the newest generation that began with a reset
    submissions: int = 0
    last_verdict: Verdict | None = None
    judged: set[str] = field(default_factory=set)  # commits it has a verdict on
    overtaken: dict[str, str] = field(default_factory=dict)  # commit -> the newer one that is judged in its place
    claim: Ending | None = None
    ended: Ending | None = None  # where the last session left the branch, if it moved
    claims_refuted: int = 0
    refuted: dict[str, str] | None = None  # the newest refuted claim, as slots of a note
    parked: dict[str, str] | None = None  # the newest rescued work, as slots of a note
    told: set[str] = field(default_factory=set)  # keys of notes left
    unread: dict[str, int] = field(default_factory=dict)  # notes on a trouble that nobody has read -> their intent
    ordered: Order | None = None  # the newest order that was given, with what earlier ones wanted once
    tip: str = ""  # where the branch was when its runner last said so
    returned: set[str] = field(default_factory=set)  # commits that others moved its branch to, and it was put back from
    note: str = ""
    aside: str = ""  # why the policy holds it back, to let it go on by itself; empty: it doesn't
    restore: tuple[str, ...] = ()  # protected files that its next session must find as they were
    restored: set[str] = field(default_factory=set)  # commits whose changes to protected files were to be undone
    past: Past = field(default_factory=Past)

    @property
    def held(self) -> bool:
        return bool(self.held_kind or self.held_why)

    def wait(self, kind: str, until: float, second: float) -> None:
        if self.refused_s < self.past.began_s or second - self.asked_s > WORKS_S:
            self.refused_s = second
        self.waiting_kind, self.waiting_until = kind, until

    def tokens(self) -> records.Usage:
        """Sum ended trajectories and the running one; unknown stays unknown."""
        return add_usage(self.usage, self.usage_now)


@dataclass(kw_only=True)
class TaskState:
    """One task: its base's verdict and the best so far. ``judged`` maps a tree to its verdict."""

    task: Task
    base: Verdict | None = None
    best: Verdict | None = None
    judged: dict[str, Verdict] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)  # judged commit -> tree
    done: bool = False
    verdicts: int = 0
    submissions: int = 0
    unscored: set[str] = field(default_factory=set)  # loops that got a verdict since the last one with a score
    doubted: int = 0  # verdicts that a second run did not bear out
    rises: list[tuple[float, float]] = field(default_factory=list)  # (second of the night, by how much) of its best


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What most loops failed of at once: ``error`` names it, ``since_s`` is the second of the night it was told."""

    entry: int
    since_s: float
    error: str
    loops: tuple[str, ...]

    @staticmethod
    def of(outcome: Outcome, entry: int, second: float) -> Shared:
        loops = outcome.detail.get("loops")
        names = tuple(str(name) for name in loops) if isinstance(loops, list) else ()
        return Shared(entry=entry, since_s=second, error=str(outcome.detail.get("error", "")), loops=names)


@dataclass(kw_only=True)
class NightState:
    """A whole night. ``intents`` are open: intended and not settled yet."""

    id: str = ""
    started_at: float = 0.0
    ends_at: float | None = None
    for_s: float | None = None
    boot_id: str = ""  # of the boot in which a runner was last heard of, or the machine found started anew
    jumped_s: float = 0.0  # by how much the wall's clock was set since the start
    ended_at: float | None = None
    why_ended: str = ""
    width: int = 0  # loops at once, as things are
    wished: int = 0  # and as a person wants it
    widths: list[tuple[float, int]] = field(default_factory=list)  # (second of the night, width) of each change
    freed_s: float = float("-inf")  # the second of the night at which disk was last freed
    seen_s: float = 0.0  # the second of the night of the newest entry of the daemon
    released_s: dict[str, float] = field(default_factory=dict)  # shared error -> the second of the night it passed
    shared: Shared | None = None  # what most loops fail of
    config: dict[str, object] = field(default_factory=dict)
    tasks: dict[str, TaskState] = field(default_factory=dict)
    loops: dict[str, LoopState] = field(default_factory=dict)
    intents: dict[int, events.ActionIntended] = field(default_factory=dict)
    gaps: tuple[clocks.Gap, ...] = ()  # in which nobody could work, newest last
    noticed: dict[str, float] = field(default_factory=dict)  # what a person was told, and when (epoch seconds)
    restarts: dict[int, int] = field(default_factory=dict)  # open intents to restart: the generation each begins
    ending: bool = False
    skip_verification: bool = False
    last_id: int = 0

    def apply(self, entry: Entry) -> None:
        """Fold one stored entry. Entries of an old generation say nothing about the present."""
        self.last_id = max(self.last_id, entry.id)
        self.gaps = clocks.with_gap(self.gaps, entry.at, events.outcome_of(entry.body))
        loop = self.loops.get(entry.loop)
        if loop is not None and isinstance(entry.body, records.TrajectoryStarted):
            loop.nonce = entry.nonce  # of any generation: the session's end must be known when it comes
        if isinstance(entry.body, events.DaemonBody):
            _apply_daemon(self, loop, entry)
        elif loop is not None and entry.generation >= loop.generation:
            loop.generation = entry.generation
            if isinstance(entry.body, records.RunnerStarted):
                self.boot_id = entry.body.boot_id
            _release(self, loop, entry)
            _apply_runner(loop, entry, self.second(entry.at))

    def second(self, at: float) -> float:
        """Return the second of the night that a time of day is, whatever the clock was set to meanwhile."""
        return max(0.0, at - self.started_at - self.jumped_s)


# Words of ours, never an agent's: they go into a prompt.
PARKED_BECAUSE = {
    Kind.WORKTREE_GONE: "the worktree was gone",
    Kind.WORKTREE_DETACHED: "the worktree had left its branch",
    Kind.BRANCH_MOVED: "its branch had been moved or deleted",
    Kind.HISTORY_REWRITTEN: "its history had been rewritten",
    Kind.MID_OPERATION: "a merge or rebase had been left half done",
    Kind.STOPPED: "it was restarted from a clean state",
}


QUOTED_CHARS = 2000  # of foreign words in a note: a page


def quoted(text: str) -> str:
    """Mark foreign words as words: each line behind ``> ``, no more than a page, and nothing that moves or hides."""
    lines = "".join(char if char.isprintable() else " " if char != "\n" else char for char in text[-QUOTED_CHARS:])
    return "\n".join(f"> {line}" for line in lines.splitlines()) or "> (nothing)"


def fold(entries: Iterable[Entry]) -> NightState:
    state = NightState()
    for entry in entries:
        state.apply(entry)
    return state


def _apply_daemon(state: NightState, loop: LoopState | None, entry: Entry) -> None:
    state.seen_s = state.second(entry.at)
    match entry.body:
        case events.NightStarted(width=width, ends_at=ends_at, config=config, for_s=for_s):
            state.for_s, state.wished, state.widths = for_s, width, [(0.0, width)]
            state.id, state.started_at = entry.night, entry.at
            state.width, state.ends_at, state.config = width, ends_at, config
        case events.TaskAdded(task=task):
            state.tasks[task.name] = TaskState(task=task)
        case events.LoopAdded(loop=added):
            state.loops[added.id] = LoopState(loop=added)
            if len(state.widths) == 1 and len(state.loops) > state.width:  # tasks may ask for more than the night
                state.width = state.wished = len(state.loops)
        case events.ActionIntended() as intended:
            state.intents[entry.id] = intended
            if intended.type == actions.Notify.__name__:
                state.noticed[str(intended.args.get("key", ""))] = entry.at
            if loop is not None and intended.type == actions.ReturnBranch.__name__:
                loop.returned.add(str(intended.args.get("found", "")))
            if intended.type == actions.RestartLoop.__name__:
                state.restarts[entry.id] = entry.generation + 1
        case events.ActionSettled(intent=intent, result=result, detail=detail):
            intended_then = state.intents.pop(intent, None)
            generation = state.restarts.pop(intent, 0)
            if intended_then is not None and result == "done":
                _apply_action(state, intended_then, generation)
                _remember(state, intent, intended_then)
                _note_order(state, intent, intended_then)
            elif intended_then is not None and result == "overtaken":
                _overtake(state, intended_then, detail)
        case events.VerdictGiven(verdict=verdict, submission=submission):
            verdicts.take(state, loop, entry, verdict, submission=submission)
        case events.ClaimSettled(outcome=outcome) if loop is not None:
            _apply_refutation(loop, outcome)
            loop.claim = None
            loop.last_outcome = outcome.kind
        case events.OutcomeNoted(outcome=outcome) if outcome.kind is Kind.CLOCK_JUMP:
            _apply_jump(state, clocks.seconds_of(outcome))
        case events.OutcomeNoted(outcome=outcome) if outcome.kind is Kind.REBOOTED and loop is None:
            state.boot_id = str(outcome.detail.get("boot_id", ""))
        case events.OutcomeNoted(outcome=outcome) if outcome.kind is Kind.SHARED_CAUSE:
            state.shared = Shared.of(outcome, entry.id, state.seen_s)
        case events.OutcomeNoted(outcome=outcome) if loop is not None:
            _apply_noted(loop, outcome)
            if cause := str(outcome.detail.get("cause") or ""):
                loop.past.noted[cause] = entry.id
        case events.NightEnded(why=why):
            state.ended_at, state.why_ended = entry.at, why
        case _:
            pass


def _note_order(state: NightState, intent: int, intended: events.ActionIntended) -> None:
    """Know what a runner was told last, for it may not have read that when the next daemon gives its first order."""
    action = events.action_from_json(intended.type, intended.args)
    if isinstance(action, Ordering):
        loop = state.loops[action.loop]
        loop.ordered = newest(loop.ordered, order_of(intent, action))


def _overtake(state: NightState, intended: events.ActionIntended, by: str) -> None:
    action = events.action_from_json(intended.type, intended.args)
    loop = state.loops.get(action.candidate.loop) if isinstance(action, actions.Verify) else None
    if loop is not None and isinstance(action, actions.Verify):
        loop.overtaken[action.candidate.commit] = by


def _apply_jump(state: NightState, seconds: float) -> None:
    """Move the end of a night by duration as far as the wall's clock was moved."""
    state.jumped_s += seconds
    if state.ends_at is not None and state.for_s is not None:
        state.ends_at += seconds


def _apply_noted(loop: LoopState, outcome: Outcome) -> None:
    if outcome.kind in {Kind.PANE_LOST, Kind.SERVER_LOST, Kind.SPAWN_FAILED, Kind.REBOOTED}:
        _runner_gone(loop)
        loop.left = ""
        loop.last_outcome = outcome.kind


def _apply_refutation(loop: LoopState, outcome: Outcome) -> None:
    if outcome.kind is Kind.FALSE_DONE:
        if loop.claim is not None:
            loop.past.refute((loop.claim.generation, loop.claim.trajectory))
        loop.claims_refuted += 1
        said = outcome.evidence[0].what if outcome.evidence else "(nothing)"
        loop.refuted = {"commit": str(outcome.detail.get("commit", ""))[:12], "verdict": quoted(said)}


def _runner_gone(loop: LoopState) -> None:
    loop.runner_up = loop.session_open = False
    loop.agent_pid = None
    loop.usage = loop.tokens()
    loop.usage_now = records.Usage()


def _apply_action(state: NightState, intended: events.ActionIntended, generation: int) -> None:
    action = events.action_from_json(intended.type, intended.args)
    match action:
        case actions.Pause(loop=name) | actions.Resume(loop=name) | actions.StopLoop(loop=name):
            loop = state.loops[name]
            loop.want = {actions.Pause: Want.PAUSED, actions.Resume: Want.RUNNING}.get(type(action), Want.STOPPED)
            loop.left = ""
            if loop.want is Want.RUNNING:  # what held it counts again only if the runner says so again
                loop.held_kind = loop.held_why = ""
            loop.wanted_by, loop.aside = intended.by, ""
            loop.note = "" if loop.want is Want.RUNNING else intended.why
        case actions.Park(loop=name, because=because):
            _set_aside(state.loops[name], because, intended.why)
        case actions.Unpark(loop=name):
            _set_aside(state.loops[name], "", "")
        case actions.Withdraw(loop=name, note=note):
            state.loops[name].unread.pop(note, None)
        case actions.Scale(width=width):
            _scale(state, width, intended.by)
        case actions.Restore(loop=name, paths=paths, commit=commit):
            state.loops[name].restore = paths
            state.loops[name].restored.add(commit)
        case actions.RestartLoop(loop=name, reset_to=reset_to):
            loop = state.loops[name]
            loop.want, loop.wanted_by, loop.note = Want.RUNNING, intended.by, ""
            loop.left = loop.aside = ""
            loop.reset_in = generation if reset_to else loop.reset_in
            if loop.generation < generation:  # else its runner was quicker, and has begun it already
                loop.generation, loop.reset_to = generation, reset_to
                loop.claim = None
                loop.held_kind = loop.held_why = ""
        case actions.EndNight(now=now):
            state.ending, state.skip_verification = True, now
        case actions.Tell(loop=name):
            state.loops[name].told.add(actions.key(action))
        case actions.FreeDisk():
            state.freed_s = state.seen_s
        case actions.SpawnRunner() | actions.Verify() | actions.ReturnBranch() | actions.Notify():
            pass


def _remember(state: NightState, intent: int, intended: events.ActionIntended) -> None:
    """Count what was done about a trouble, and what a person did: both begin a new count."""
    loop = state.loops.get(str(intended.args.get("loop", "")))
    if loop is not None and (intended.cause or intended.type == actions.RestartLoop.__name__):
        remedy = Remedy(
            entry=intent,
            at_s=state.seen_s,
            cause=intended.cause,
            action=intended.type,
            by=intended.by,
            reset_to=str(intended.args.get("reset_to", "")),
        )
        loop.past.treat(remedy)
    if loop is not None and intended.cause and intended.type == actions.Tell.__name__:
        name = note_name(intent, str(intended.args["template"]), now=bool(intended.args.get("now")))
        loop.unread[name] = intent


def _set_aside(loop: LoopState, because: str, why: str) -> None:
    loop.want, loop.wanted_by = Want.PAUSED if because else Want.RUNNING, "policy"
    loop.aside, loop.note = because, why
    loop.left = ""


def _scale(state: NightState, width: int, by: str) -> None:
    state.widths = [*state.widths[-WIDTHS_KEPT:], (state.seen_s, width)]
    state.width = width
    if by == "operator":
        state.wished = width


def _release(state: NightState, loop: LoopState, entry: Entry) -> None:
    """Take a shared cause for over when one of those who suffered from it works again."""
    if state.shared is None or loop.loop.id not in state.shared.loops:
        return
    match entry.body:
        case records.TrajectoryEnded(outcome=outcome, head_before=before, head_after=after):
            works = outcome.kind in HEALTHY or before != after
        case records.Progressed(usage=usage):
            works = (usage.tokens_out or 0) > (loop.usage_now.tokens_out or 0)
        case _:
            works = False
    if works:
        state.released_s[state.shared.error] = state.seen_s
        state.shared = None


def _apply_runner(loop: LoopState, entry: Entry, second: float) -> None:
    loop.standing.note(entry.body, entry.at)
    match entry.body:
        case records.RunnerStarted(pane=pane, account=account):
            loop.account = account or loop.account
            loop.started = loop.runner_up = True
            loop.pane, loop.left = pane, ""
        case records.RunnerStopped(why=why):
            _runner_gone(loop)
            loop.left = why
        case records.Prepared(head=head):
            loop.tip = loop.past.left = head
        case records.NotesGiven(names=names):
            loop.unread = {name: intent for name, intent in loop.unread.items() if name not in names}
        case records.Repeating():
            loop.past.circling = entry.id
        case records.TrajectoryStarted(head=head):
            _apply_begin(loop, entry, head, second)
        case records.AgentStarted(pid=pid, account=account):
            loop.agent_pid, loop.account, loop.asked_s = pid, account, second
            loop.waiting_until, loop.waiting_kind = None, ""
        case records.Progressed(usage=usage, compactions=compactions, quiet_for_s=quiet):
            loop.usage_now, loop.compactions, loop.quiet_for_s = usage, compactions, quiet
        case records.AttemptEnded(outcome=outcome):
            loop.agent_pid, loop.last_outcome = None, outcome.kind
        case records.TrajectoryEnded() as ended:
            _apply_end(loop, entry, ended)
            loop.past.end(_session(entry, ended, second))
        case records.Waiting(kind=kind, until=until):
            loop.wait(kind, until, second)
        case records.Held(kind=kind, why=why):
            loop.held_kind, loop.held_why = kind, why
        case records.Resumed():
            loop.held_kind = loop.held_why = loop.waiting_kind = ""
            loop.waiting_until = None
        case records.Repaired(outcome=outcome) if outcome.kind is Kind.TAMPERED:
            loop.restore, loop.past.left = (), ""
        case records.Repaired(ref="", outcome=outcome) if outcome.kind.family == "git":
            loop.past.left = ""  # it may have moved the branch
        case records.Repaired(ref=ref, outcome=outcome, head=head) if ref:
            loop.past.left = ""
            loop.parked = _parked(ref, outcome.kind, head or loop.reset_to or loop.best_commit)
        case _:
            pass


def _parked(ref: str, kind: Kind, head: str) -> dict[str, str]:
    """Return the slots of the note; ``commit`` is where the worktree was set back to then, wherever it is by now."""
    slots = {"ref": ref, "reason": PARKED_BECAUSE.get(kind, "its worktree was damaged")}
    return {**slots, "commit": head[:12]} if head else slots


def _apply_begin(loop: LoopState, entry: Entry, head: str, second: float) -> None:
    loop.tip = head
    loop.past.begin((entry.generation, entry.trajectory), head, second)
    loop.trajectory = entry.trajectory
    loop.session_open, loop.reset_to = True, ""
    loop.held_kind = loop.held_why = ""
    loop.waiting_until, loop.waiting_kind = None, ""
    loop.compactions = 0


def _session(entry: Entry, ended: records.TrajectoryEnded, second: float) -> Session:
    return Session(
        entry=entry.id,
        at_s=second,
        generation=entry.generation,
        trajectory=entry.trajectory,
        kind=ended.outcome.kind,
        before=ended.head_before,
        after=ended.head_after,
        seconds=ended.seconds,
        claimed=ended.claims_done,
        error=error_of(ended.outcome),
        repeated=ended.repeated,
    )


def _apply_end(loop: LoopState, entry: Entry, ended: records.TrajectoryEnded) -> None:
    loop.session_open, loop.agent_pid = False, None
    loop.last_outcome = ended.outcome.kind
    loop.usage = add_usage(loop.usage, ended.usage)
    loop.usage_now = records.Usage()
    loop.quiet_for_s = 0.0
    loop.tip = ended.head_after
    left = Ending(entry=entry.id, generation=entry.generation, trajectory=entry.trajectory, head=ended.head_after)
    loop.claim = left if ended.claims_done else loop.claim
    loop.ended = left if ended.head_after != ended.head_before else loop.ended


def add_usage(a: records.Usage, b: records.Usage) -> records.Usage:
    return records.Usage(
        tokens_in=_add(a.tokens_in, b.tokens_in),
        tokens_out=_add(a.tokens_out, b.tokens_out),
        cache_read=_add(a.cache_read, b.cache_read),
        cost_usd=_add(a.cost_usd, b.cost_usd),
        model=b.model or a.model,
    )


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a if b is None else b
    return a + b
