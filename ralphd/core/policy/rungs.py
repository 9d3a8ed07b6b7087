"""What is done about a loop's trouble: the least that may cure it first, a rung higher when three times didn't."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ralphd.core import actions, events
from ralphd.core.actions import Action, Decision
from ralphd.core.exchange import Want
from ralphd.core.history import Past
from ralphd.core.policy.judging import newest_unjudged, passed_over
from ralphd.core.policy.present import Present
from ralphd.core.policy.running import wanted
from ralphd.core.policy.sharing import prober, suffers
from ralphd.core.policy.troubles import TABLE, Cause, Trouble, troubles
from ralphd.core.state import LoopState, NightState
from ralphd.core.verdicts import sound_commits


class Rung(StrEnum):
    """From the least to the most."""

    CARRY_ON = "carry on"
    REPAIR = "repair"  # in place: a note for the next session
    RESTART = "restart"  # clean: rescue ref, reset, new generation
    PAUSE = "pause"  # for a while; then one session shows whether it has passed
    ASK = "ask"  # a person


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """From where to where the rungs go for a cause; ``notes``: how many before a restart."""

    first: Rung
    last: Rung
    notes: int = 3


# A note costs nothing and a restart throws a path away: only where every session is lost until then it comes first.
LADDERS: dict[Cause, Ladder] = {
    Cause.CRASHING: Ladder(first=Rung.RESTART, last=Rung.PAUSE),
    Cause.TAMPERING: Ladder(first=Rung.RESTART, last=Rung.PAUSE),
    Cause.BROKEN: Ladder(first=Rung.RESTART, last=Rung.PAUSE),
    Cause.MISLED: Ladder(first=Rung.RESTART, last=Rung.PAUSE),
    Cause.FALLING: Ladder(first=Rung.REPAIR, last=Rung.RESTART),
    Cause.UNDOING: Ladder(first=Rung.REPAIR, last=Rung.RESTART),
    Cause.REPEATING: Ladder(first=Rung.REPAIR, last=Rung.PAUSE),
    Cause.SAME_ERROR: Ladder(first=Rung.REPAIR, last=Rung.PAUSE),
    Cause.IDLE: Ladder(first=Rung.REPAIR, last=Rung.RESTART, notes=1),
    Cause.LAGGING: Ladder(first=Rung.RESTART, last=Rung.RESTART),
    Cause.FRUITLESS: Ladder(first=Rung.REPAIR, last=Rung.REPAIR),
}
# Of these nobody can say from figures alone what would help: a model is asked, where there is one.
CONSULTED = frozenset(
    {Cause.FALLING, Cause.UNDOING, Cause.REPEATING, Cause.SAME_ERROR, Cause.IDLE, Cause.FRUITLESS},
)
TEMPLATES = {Cause.FALLING: "repair-falling", Cause.IDLE: "repair-idle"}
GENERAL_TEMPLATE = "repair-stuck"

TROUBLE = "trouble"  # why a loop is parked
SAME_AGAIN = 3  # so often the same is done about the same trouble, before a rung higher
RESTARTS_AN_HOUR = 3  # of one loop: each costs it what it had in mind
RESTARTS_AN_HOUR_AT_MOST = 12  # those that led to a gain included
HOUR_S = 3600.0
PROBE_AFTER_S = 900.0  # a paused loop tries again; twice as long each time
PROBE_AFTER_MOST_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What may be done about a loop now. ``action`` None: nothing. ``rows``: the entries that speak for it."""

    name: str
    rung: Rung
    action: Action | None
    why: str
    rows: tuple[int, ...]
    cause: str = ""


def note_troubles(state: NightState, present: Present) -> Iterator[tuple[str, events.Body]]:
    """Tell each trouble once, with its rows, before anything is done about it.

    What most loops fail of is no trouble of any of them; the one that tries for all may still have its own.
    """
    for loop in _watched(state, present):
        found = troubles(state, loop)[:1]
        for trouble in found:
            if trouble.cause.value not in loop.past.noted:
                yield loop.loop.id, events.OutcomeNoted(outcome=trouble.outcome())


def cure(state: NightState, present: Present) -> Iterator[Decision]:
    for loop in _watched(state, present):
        trouble = told_trouble(state, loop)
        if trouble is None or (loop.loop.id in present.consulted and trouble.cause in CONSULTED):
            continue
        offer = remedy(state, loop, trouble, present.now)
        if offer is not None and isinstance(offer.action, actions.RestartLoop) and _may_gain(state, loop, trouble):
            continue  # where it begins again, and whether, depends on that verdict
        if offer is not None and offer.action is not None:
            yield Decision(action=offer.action, why=offer.why, cause=offer.cause)


def withdraw(state: NightState, _present: Present) -> Iterator[Decision]:
    """Take back what a loop was to be told of a trouble that it has got over before anybody read it."""
    for loop in wanted(state):
        gained = loop.past.gains[-1].entry if loop.past.gains else 0
        for note, intent in loop.unread.items():
            if intent < gained:
                action = actions.Withdraw(loop=loop.loop.id, note=note)
                yield Decision(action=action, why="it has gained since, and no session has read that it didn't")


def _may_gain(state: NightState, loop: LoopState, trouble: Trouble) -> bool:
    """Tell whether a verdict is to come on work that a clean restart would take away.

    Where all is lost, what was built on that is no reason to wait.
    """
    unjudged = trouble.cause is not Cause.BROKEN and newest_unjudged(state, loop)
    return unjudged or passed_over(state, loop) is not None


def restore_protected(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in wanted(state):
        verdict = loop.last_verdict
        if verdict is None or not verdict.tampered or verdict.commit in loop.restored:
            continue
        action = actions.Restore(loop=loop.loop.id, paths=verdict.tampered, commit=verdict.commit)
        yield Decision(action=action, why="its branch changes protected paths: whatever is built on that can't count")


def probe_paused(state: NightState, present: Present) -> Iterator[Decision]:
    """Let a loop that was paused for its trouble try again: what was wrong may have passed."""
    for loop in state.loops.values():
        paused = None if state.ending else _pause(loop.past)
        if loop.aside != TROUBLE or paused is None:
            continue
        again = sum(r.action == actions.Park.__name__ for r in loop.past.remedies)
        wait_s = min(PROBE_AFTER_MOST_S, PROBE_AFTER_S * 2.0 ** min(again - 1, 10))
        if state.second(present.now) >= paused + wait_s:
            yield Decision(action=actions.Unpark(loop=loop.loop.id), why="paused long enough to try again")


def _pause(past: Past) -> float | None:
    """Return when a loop was paused for its trouble, if that was the last thing done about it."""
    last = past.remedies[-1] if past.remedies else None
    return last.at_s if last is not None and last.action == actions.Park.__name__ else None


def stuck(state: NightState, now: float) -> tuple[str, ...]:
    """Return the loops with a trouble that the policy has no single right answer for. ``now``: epoch seconds."""
    del now
    if state.ending or state.ended_at is not None or state.shared is not None:
        return ()
    found = ((loop.loop.id, told_trouble(state, loop)) for loop in wanted(state))
    return tuple(name for name, trouble in found if trouble is not None and trouble.cause in CONSULTED)


def offers(state: NightState, loop_id: str, now: float | None = None) -> tuple[Offer, ...]:
    """Return what may be done about a loop now, from the least to the most. Never empty for a loop that runs.

    ``now``: epoch seconds; None: the time of the newest entry.

    Whoever picks one gets what is offered and nothing else: the loop and everything in the action are filled in here.
    """
    loop = state.loops.get(loop_id)
    if loop is None or loop.want is not Want.RUNNING or state.ending:
        return ()
    now = state.started_at + state.jumped_s + state.seen_s if now is None else now
    trouble = told_trouble(state, loop) or Trouble(cause=Cause.FRUITLESS, rows=_rows(loop))
    found = [_offer(Rung.CARRY_ON, None, trouble, name="carry_on"), _hint(state, loop, trouble)]
    if state.shared is None and not _restarted_enough(state, loop, now):
        if loop.session_open:
            fresh = actions.RestartLoop(loop=loop_id)
            found.append(_offer(Rung.REPAIR, fresh, trouble, name="fresh_session"))
        clean = _clean(state, loop, trouble)
        found += [clean] if clean.rung is Rung.RESTART else []
    found.append(_offer(Rung.PAUSE, actions.Park(loop=loop_id, because=TROUBLE), trouble, name="pause"))
    return tuple(found)


def cheap_offers(state: NightState, loop_id: str) -> tuple[Offer, ...]:
    """Return the offers of a cheap question: one where the policy by itself would leave a note, and no more.

    Cheap ones may be asked together, so nothing is among them that ends a session, moves a branch or stops a loop:
    should the text of one loop ever talk a model into an answer about another, that one reads a note of ours, or none.
    """
    loop = state.loops.get(loop_id)
    trouble = told_trouble(state, loop) if loop is not None else None
    if loop is None or trouble is None or due(loop, trouble.cause) is not Rung.REPAIR:
        return ()
    found = offers(state, loop_id)
    return tuple(o for o in found if o.action is None or (isinstance(o.action, actions.Tell) and not o.action.now))


def remedy(state: NightState, loop: LoopState, trouble: Trouble, now: float) -> Offer | None:
    """Return the one thing to do about a trouble now (epoch seconds); None: wait."""
    if state.shared is not None and trouble.cause in {Cause.CRASHING, Cause.SAME_ERROR}:
        return None  # that is what most have
    rung = due(loop, trouble.cause)
    if rung is Rung.REPAIR:
        return _hint(state, loop, trouble)
    if rung is Rung.RESTART and _restarted_enough(state, loop, now):
        return None
    if rung is Rung.RESTART:
        return _clean(state, loop, trouble)
    minutes = round(PROBE_AFTER_S / 60)
    return _offer(
        Rung.PAUSE,
        actions.Park(loop=loop.loop.id, because=TROUBLE),
        trouble,
        name="pause",
        more=f", clean restarts didn't help; it tries again in {minutes} minutes or more",
    )


def due(loop: LoopState, cause: Cause) -> Rung:
    """Return the rung that a loop's trouble is on."""
    ladder = LADDERS[cause]
    notes = loop.past.treated(cause, actions.Tell.__name__)
    restarts = loop.past.treated(cause, actions.RestartLoop.__name__)
    if ladder.first is Rung.REPAIR and (notes < ladder.notes or ladder.last is Rung.REPAIR):
        return Rung.REPAIR
    pauses = loop.past.treated(cause, actions.Park.__name__)
    if restarts < SAME_AGAIN * (pauses + 1) or ladder.last is Rung.RESTART:
        return Rung.RESTART
    return Rung.PAUSE


def told_trouble(state: NightState, loop: LoopState) -> Trouble | None:
    """Return the surest trouble that is in the journal already."""
    return next((trouble for trouble in troubles(state, loop) if trouble.cause.value in loop.past.noted), None)


def reset_target(state: NightState, loop: LoopState, cause: Cause) -> str:
    """Return the commit to begin again from: the last verified one; when twice that didn't help, the one before it, ….

    What misled a loop may have been committed together with a real gain.
    """
    sound = sound_commits(state.tasks[loop.loop.task], loop)
    tried = loop.past.treated(cause, actions.RestartLoop.__name__)
    return sound[min(max(0, tried - 1), len(sound) - 1)]


def resets_over_a_person(loop: LoopState, target: str) -> bool:
    """Tell whether a reset would take a person's commit out of the branch: then it isn't ours to make."""
    if not loop.past.visited or target == loop.past.visited:
        return False
    return not any(gain.commit == target and gain.key >= loop.past.visited_in for gain in loop.past.gains)


def _watched(state: NightState, present: Present) -> Iterator[LoopState]:
    if state.ending:
        return iter(())
    orders = ("Pause", "StopLoop", "RestartLoop", "Park")
    probe = prober(state, present.now)
    return (
        loop
        for loop in wanted(state)
        if (loop.loop.id == probe or not suffers(state, loop, present.now))
        and not any(f"{order} {loop.loop.id}" in present.in_flight for order in orders)
    )


def _clean(state: NightState, loop: LoopState, trouble: Trouble) -> Offer:
    name, target = loop.loop.id, reset_target(state, loop, trouble.cause)
    if resets_over_a_person(loop, target):
        visited = loop.past.visited[:12]
        more = (
            f", and a clean restart would go back over {visited}, which was committed while no session ran; "
            f"`ralphd restart --clean {name}` does it all the same (it is parked first), `ralphd resume {name}` goes on"
        )
        return _offer(Rung.ASK, actions.Pause(loop=name), trouble, name="ask", more=more)
    action = actions.RestartLoop(loop=name, reset_to=target)
    more = f": begins again from {target[:12]}, what was there is parked"
    return _offer(Rung.RESTART, action, trouble, name="restart_clean", more=more)


def _hint(state: NightState, loop: LoopState, trouble: Trouble) -> Offer:
    task = state.tasks[loop.loop.task].task
    slots = {
        "reason": trouble.why,
        "commit": sound_commits(state.tasks[loop.loop.task], loop)[0][:12],
        "base": task.base[:12],
        "verify_command": task.verifier.command or "none: nothing judges these commits",
    }
    template = TEMPLATES.get(trouble.cause, GENERAL_TEMPLATE)
    circling = trouble.cause is Cause.REPEATING and trouble.rows == (loop.past.circling,)
    action = actions.Tell(loop=loop.loop.id, template=template, slots=slots, now=circling)
    return _offer(Rung.REPAIR, action, trouble, name="note")


def _offer(rung: Rung, action: Action | None, trouble: Trouble, *, name: str, more: str = "") -> Offer:
    return Offer(
        name=name, rung=rung, action=action, why=trouble.why + more, rows=trouble.rows, cause=trouble.cause.value
    )


def _restarted_enough(state: NightState, loop: LoopState, now: float) -> bool:
    """Tell whether a restart has to wait: too many of late that led to no gain, or too many at all."""
    recent = list(loop.past.recent(actions.RestartLoop.__name__, state.second(now) - HOUR_S))
    gained = loop.past.gains[-1].entry if loop.past.gains else 0
    in_vain = sum(restart.entry > gained for restart in recent)
    return in_vain >= RESTARTS_AN_HOUR or len(recent) >= RESTARTS_AN_HOUR_AT_MOST


def _rows(loop: LoopState) -> tuple[int, ...]:
    return tuple(session.entry for session in loop.past.sessions[-TABLE[Cause.FRUITLESS].after :])
