"""How many loops run at once: fewer while the machine is short of something, as many as wished when it isn't."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ralphd.core import actions
from ralphd.core.actions import Decision
from ralphd.core.outcomes import Kind
from ralphd.core.policy.present import Present, Strain
from ralphd.core.policy.running import wanted
from ralphd.core.state import LoopState, NightState

WIDTH = "width"  # why a loop is parked
WIDEN_AFTER_S = 600.0  # without strain; wider at once would swing
RECENT_S = 3600.0
HOLDS = 0.5  # of the verified gains an hour and loop at the former width
HOLDS_FROM_GAINS = 5  # fewer tell nothing
FREE_EVERY_S = 600.0
ON_DISK = frozenset({Kind.DISK_LOW, Kind.DISK_FULL, Kind.INODES})


def rescale(state: NightState, present: Present) -> Iterator[Decision]:
    """Halve the width under strain, no more often than it can show; step by step back to what is wished after it."""
    if state.ending or not state.widths:
        return
    for_s = state.second(present.now) - state.widths[-1][0]
    strained = [strain for strain in present.strains if strain.narrows]
    if strained and (len(state.widths) == 1 or for_s >= min(strain.shows_s for strain in strained)):
        width = max(min(present.bounds.least, state.width), _narrower(state, strained))
        if width < state.width:
            yield Decision(action=actions.Scale(width=width), why=strained[0].words)
    if not present.strains and state.width < state.wished and for_s >= WIDEN_AFTER_S and holds(state, present.now):
        width = min(state.wished, state.width + max(1, state.width // 4))
        yield Decision(action=actions.Scale(width=width), why="the machine has room again")


def _narrower(state: NightState, strained: list[Strain]) -> int:
    """Return half the width, or the width without half the loops of those tasks whose strain it is alone."""
    running = Counter(loop.loop.task for loop in wanted(state))
    width, tasks = min(state.width, running.total()), {strain.task for strain in strained}
    if "" in tasks:
        return width // 2
    return width - sum(running[task] - max(1, running[task] // 2) for task in tasks if running[task])


def fit(state: NightState, present: Present) -> Iterator[Decision]:
    """Hold back the loops with the least to lose while there are too many; let the best go on where there is room."""
    if state.ending or state.shared is not None:
        return
    running = [loop for loop in wanted(state) if not _flying(present, loop, "Park", "Pause", "StopLoop")]
    coming = [loop for loop in state.loops.values() if _flying(present, loop, "Unpark", "Resume")]
    room = state.width - len({loop.loop.id for loop in (*running, *coming)})
    if room < 0:
        danger = any(strain.danger for strain in present.strains)
        why = f"{state.width} loops are to run at once"
        for loop in to_park(state, running, present.now, _of_tasks(present))[:-room]:
            yield Decision(action=actions.Park(loop=loop.loop.id, because=WIDTH, now=danger), why=why)
    elif room > 0:
        # what a person asked for since is theirs to have
        behind = _of_tasks(present) if state.width < state.wished else frozenset()
        aside = (loop for loop in state.loops.values() if loop.aside == WIDTH and loop not in coming)
        waiting = [loop for loop in aside if loop.loop.task not in behind]
        for loop in reversed(_by_loss(state, waiting, present.now)[-room:]):
            yield Decision(action=actions.Unpark(loop=loop.loop.id), why=f"{state.width} loops may run at once")


def free_disk(state: NightState, present: Present) -> Iterator[Decision]:
    if state.ending:
        return
    short = [strain for strain in present.strains if strain.kind in ON_DISK]
    if short and state.second(present.now) - state.freed_s >= FREE_EVERY_S:
        yield Decision(action=actions.FreeDisk(), why=short[0].words)


def _of_tasks(present: Present) -> frozenset[str]:
    """Return the tasks that alone bring about what the night is narrow for; none if the machine itself is short."""
    tasks = frozenset(strain.task for strain in present.strains)
    return frozenset() if "" in tasks else tasks


def to_park(
    state: NightState, running: list[LoopState], now: float, behind: frozenset[str] = frozenset()
) -> list[LoopState]:
    """Order loops by what is lost with them, those of tasks that are ``behind`` first, the last one of a task last."""
    left = Counter(loop.loop.task for loop in running)
    first: list[LoopState] = []
    last: list[LoopState] = []
    for loop in _by_loss(state, running, now):
        left[loop.loop.task] -= 1
        (first if left[loop.loop.task] else last).append(loop)
    return sorted(first, key=lambda loop: loop.loop.task not in behind) + last


def holds(state: NightState, now: float) -> bool:
    """Tell whether the loops gain about as much an hour each as before the last widening, or nobody knows."""
    if len(state.widths) < 2 or state.widths[-1][1] <= state.widths[-2][1]:
        return True
    (before_s, before), (since_s, width) = state.widths[-2:]
    now_s = state.second(now)
    former, since = _gains(state, before_s, since_s), _gains(state, since_s, now_s)
    if former < HOLDS_FROM_GAINS or now_s <= since_s or since_s <= before_s:
        return True
    return since / (now_s - since_s) / width >= HOLDS * former / (since_s - before_s) / before


def _gains(state: NightState, from_s: float, to_s: float) -> int:
    return sum(from_s <= gain.at_s < to_s for loop in state.loops.values() for gain in loop.past.gains)


def _by_loss(state: NightState, loops: list[LoopState], now: float) -> list[LoopState]:
    """Sort by what would be lost, least first: what a person asked for is kept, then what gained of late."""
    since_s = state.second(now) - RECENT_S

    def loss(loop: LoopState) -> tuple[bool, int, int, bool]:
        recent = sum(gain.at_s > since_s for gain in loop.past.gains)
        return (loop.wanted_by == "operator", recent, len(loop.past.gains), loop.session_open)

    return sorted(loops, key=loss)


def _flying(present: Present, loop: LoopState, *orders: str) -> bool:
    return any(f"{order} {loop.loop.id}" in present.in_flight for order in orders)
