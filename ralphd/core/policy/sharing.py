"""Whether most loops fail of the same: then none of them is at fault, and restarting them would only be a storm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ralphd.core import actions, events
from ralphd.core.actions import Decision
from ralphd.core.exchange import Want
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.policy.present import Present
from ralphd.core.state import WORKS_S, LoopState, NightState

SHARED = "shared cause"  # why a loop is parked
LEAST_LOOPS = 3  # two that fail alike may be chance
WITHIN_S = 300.0  # "within minutes": an error older than this is the past
WAITS_S = 60.0  # a wait for inference that is over sooner is nothing to tell a person
NOT_SHARED_S = 900.0
PROBE_S = 600.0  # a loop that probes in vain for so long may have a trouble of its own: another takes its place


def note_shared(state: NightState, present: Present) -> Iterator[tuple[str, events.Body]]:
    """Say once that most loops fail alike, with who does."""
    if state.shared is not None or state.ending:
        return
    now_s = state.second(present.now)
    involved = [loop for loop in state.loops.values() if loop.want is Want.RUNNING or loop.aside == SHARED]
    failing = {loop.loop.id: failing_of(state, loop, present.now) for loop in involved}
    counted = Counter(error for error in failing.values() if error)
    if not counted:
        return
    error, count = counted.most_common(1)[0]
    if now_s - state.released_s.get(error, float("-inf")) < NOT_SHARED_S:
        return  # one got over it alone: what the others have then is their own
    if count >= LEAST_LOOPS and 2 * count > len(involved):
        names = [name for name, has in failing.items() if has == error]
        yield "", events.OutcomeNoted(outcome=_told(error, names, len(involved)))


def _told(error: str, names: list[str], of: int) -> Outcome:
    kind = error.split(" ", 1)[0]  # the rest are words of an agent
    # One that was refused keeps all others of its account waiting: they stand still, and have not failed themselves.
    do = "wait for the same" if kind.startswith("inference.") else "fail alike"
    rows = f"{len(names)} of {of} loops {do}: {kind}"
    return Outcome(
        kind=Kind.SHARED_CAUSE,
        detail={"error": error, "of": kind, "loops": list(names)},
        evidence=(Evidence(what=rows),),
    )


def failing_of(state: NightState, loop: LoopState, now: float) -> str:
    """Return what a loop fails of just now, twice at least or for long; empty when it works or nobody can say."""
    now_s = state.second(now)
    if loop.waiting_until is not None and loop.waiting_kind.startswith("inference."):
        until_s = max(now_s, state.second(loop.waiting_until))
        return loop.waiting_kind if until_s - loop.refused_s >= WAITS_S else ""
    if loop.session_open and now_s - loop.past.began_s > WORKS_S:
        return ""
    last = loop.past.sessions[-2:]
    if len(last) < 2 or last[-1].error != last[0].error or now_s - last[-1].at_s > WITHIN_S:
        return ""
    return last[-1].error


def share(state: NightState, present: Present) -> Iterator[Decision]:
    """While there is a shared cause, let one loop at a time try; when it works, let all go on."""
    if state.ending:
        return
    if state.shared is None or state.shared.error.startswith("inference."):
        yield from _release(state)  # inference is waited for by each runner itself, and is asked gently
        return
    probe = prober(state, present.now)
    for name, loop in state.loops.items():
        if name == probe and loop.aside == SHARED:
            yield Decision(action=actions.Unpark(loop=name), why="it tries whether the shared cause has passed")
        elif name != probe and loop.want is Want.RUNNING and suffers(state, loop, present.now):
            kind = state.shared.error.split(" ", 1)[0]
            why = f"most loops fail alike ({kind}); {probe} tries until it works"
            yield Decision(action=actions.Park(loop=name, because=SHARED), why=why)


def suffers(state: NightState, loop: LoopState, now: float) -> bool:
    """Tell whether a loop has what most have, though it may have come to it later."""
    if state.shared is None:
        return False
    return loop.loop.id in state.shared.loops or failing_of(state, loop, now) == state.shared.error


def prober(state: NightState, now: float) -> str:
    """Return the loop whose turn it is to try, or an empty string."""
    if state.shared is None:
        return ""
    can = [name for name in state.shared.loops if _can(state.loops[name])]
    turn = int(max(0.0, state.second(now) - state.shared.since_s) // PROBE_S)
    return can[turn % len(can)] if can else ""


def _can(loop: LoopState) -> bool:
    return loop.want is Want.RUNNING or loop.aside == SHARED


def _release(state: NightState) -> Iterator[Decision]:
    for loop in state.loops.values():
        if loop.aside == SHARED:
            yield Decision(action=actions.Unpark(loop=loop.loop.id), why="the shared cause has passed")
