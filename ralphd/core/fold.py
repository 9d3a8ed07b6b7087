"""How each entry of the journal changes what is known: the same for a running daemon and for a new one."""

from __future__ import annotations

from collections.abc import Iterable

from ralphd.core import actions, clocks, effects, events, records, verdicts
from ralphd.core.events import Entry
from ralphd.core.history import Session, error_of
from ralphd.core.outcomes import HEALTHY, Kind, Outcome
from ralphd.core.quoting import quoted
from ralphd.core.state import Ending, LoopState, NightState, Shared, TaskState, add_usage

# Words of ours, never an agent's: they go into a prompt.
PARKED_BECAUSE = {
    Kind.WORKTREE_GONE: "the worktree was gone",
    Kind.WORKTREE_DETACHED: "the worktree had left its branch",
    Kind.BRANCH_MOVED: "its branch had been moved or deleted",
    Kind.HISTORY_REWRITTEN: "its history had been rewritten",
    Kind.MID_OPERATION: "a merge or rebase had been left half done",
    Kind.STOPPED: "it was restarted from a clean state",
}


def fold(entries: Iterable[Entry]) -> NightState:
    state = NightState()
    for entry in entries:
        apply(state, entry)
    return state


def apply(state: NightState, entry: Entry) -> None:
    """Fold one stored entry. Entries of an old generation say nothing about the present."""
    state.last_id = max(state.last_id, entry.id)
    state.gaps = clocks.with_gap(state.gaps, entry.at, events.outcome_of(entry.body))
    loop = state.loops.get(entry.loop)
    if loop is not None:
        loop.seq = max(loop.seq, entry.seq)
    if loop is not None and isinstance(entry.body, records.TrajectoryStarted):
        loop.nonce = entry.nonce  # of any generation: the session's end must be known when it comes
    if isinstance(entry.body, events.DaemonBody):
        _apply_daemon(state, loop, entry)
    elif loop is not None and entry.generation >= loop.generation:
        loop.generation = entry.generation
        if isinstance(entry.body, records.RunnerStarted):
            state.boot_id = entry.body.boot_id
        _release(state, loop, entry)
        _apply_runner(loop, entry, state.second(entry.at))


# What the daemon writes.


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
                effects.done(state, intent, intended_then, generation)
            elif intended_then is not None and result == "overtaken":
                effects.overtake(state, intended_then, detail)
        case events.VerdictGiven(verdict=verdict, submission=submission):
            verdicts.take(state, loop, entry, verdict, submission=submission)
        case events.ClaimSettled(outcome=outcome) if loop is not None:
            _apply_refutation(loop, outcome)
            loop.claim = None
            loop.last_outcome = outcome.kind
        case events.OutcomeNoted(outcome=outcome) if outcome.kind is Kind.CLOCK_JUMP:
            _apply_jump(state, clocks.seconds_of(outcome))
        case events.OutcomeNoted(outcome=outcome) if outcome.kind is Kind.SHARED_CAUSE:
            state.shared = Shared.of(outcome, entry.id, state.seen_s)
        case events.OutcomeNoted(outcome=outcome) if loop is None:
            _apply_noted_of_night(state, outcome)
        case events.OutcomeNoted(outcome=outcome) if loop is not None:
            _apply_noted(loop, outcome)
            if cause := str(outcome.detail.get("cause") or ""):
                loop.past.noted[cause] = entry.id
        case events.NightEnded(why=why):
            state.ended_at, state.why_ended = entry.at, why
        case _:
            pass


def _apply_jump(state: NightState, seconds: float) -> None:
    """Move the end of a night by duration as far as the wall's clock was moved."""
    state.jumped_s += seconds
    if state.ends_at is not None and state.for_s is not None:
        state.ends_at += seconds


def _apply_noted_of_night(state: NightState, outcome: Outcome) -> None:
    if outcome.kind is Kind.REBOOTED:
        state.boot_id = str(outcome.detail.get("boot_id", ""))
    task = state.tasks.get(str(outcome.detail.get("task")))
    if task is not None and outcome.detail.get("cut_off"):
        task.not_judged = outcome.evidence[0].what if outcome.evidence else "it was cut off"


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


# What a runner records.


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
            loop.agent_pid, loop.account, loop.asked_s, loop.said_at = pid, account, second, entry.at
            loop.waiting_until, loop.waiting_kind = None, ""
        case records.Progressed(usage=usage, compactions=compactions, quiet_for_s=quiet_s):
            loop.usage_now, loop.compactions, loop.said_at = usage, compactions, entry.at - quiet_s
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
    loop.session_open, loop.reset_to, loop.said_at = True, "", entry.at
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
    loop.tip = ended.head_after
    left = Ending(entry=entry.id, generation=entry.generation, trajectory=entry.trajectory, head=ended.head_after)
    loop.claim = left if ended.claims_done else loop.claim
    loop.ended = left if ended.head_after != ended.head_before else loop.ended
