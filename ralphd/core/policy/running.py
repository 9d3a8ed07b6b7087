"""Who runs: the night begins, goes on and ends, and each loop has a runner as long as one is wanted."""

from __future__ import annotations

from collections.abc import Iterator

from ralphd.core import actions
from ralphd.core.actions import Decision
from ralphd.core.exchange import Want
from ralphd.core.outcomes import Kind
from ralphd.core.policy.present import LoopNow, Present
from ralphd.core.spending import TITLE
from ralphd.core.state import LoopState, NightState

NIGHT_ENDS = "the night ends"  # why loops are stopped then
LEFT_BY_HANGUP = "SIGHUP"  # how a runner's last word begins when its window was closed under it

# A spawn that shows no life is tried again after 20, 40, 60 … s: a broken server must not meet a storm.
SPAWN_BACKOFF_MAX_S = 60.0
# A runner shows itself within 0.1 s of its window on an idle machine; 512 at once on two cores take some 15 s.
SPAWN_PATIENCE_S = 20.0


def end(state: NightState, present: Present) -> Iterator[Decision]:
    if not state.ending and (why := over(state, present.now) or _spent(present)):
        yield Decision(action=actions.EndNight(), why=why)


def _spent(present: Present) -> str:
    return TITLE if present.spending.ends_night and present.spending.over else ""


def over(state: NightState, now: float) -> str:
    """Say why a night has to end by itself; empty while it has not."""
    if state.ends_at is not None and now >= state.ends_at:
        return "the night's time is up"
    if state.tasks and all(task.done for task in state.tasks.values()):
        return "every task has reached its goal"
    return ""


def stop_all(state: NightState, _present: Present) -> Iterator[Decision]:
    if not state.ending:
        return
    for loop in state.loops.values():
        if loop.want is not Want.STOPPED:
            yield Decision(action=actions.StopLoop(loop=loop.loop.id, now=True), why=NIGHT_ENDS)


def finish_tasks(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        if state.tasks[loop.loop.task].done and (loop.want is Want.RUNNING or loop.aside):
            yield Decision(action=actions.StopLoop(loop=loop.loop.id, now=True), why="its task has reached its goal")


def respect_closed_window(state: NightState, present: Present) -> Iterator[Decision]:
    if state.ending or actions.key(actions.EndNight()) in present.in_flight:
        return  # then it is the night that closes windows
    for loop in wanted(state):
        if _window_closed(loop, present.loops[loop.loop.id]):
            why = f"its window was closed; `ralphd resume {loop.loop.id}` goes on"
            yield Decision(action=actions.Pause(loop=loop.loop.id, now=True), why=why, by="operator")


def _window_closed(loop: LoopState, seen: LoopNow) -> bool:
    """Tell whether somebody closed this very window: with its server still there, it was no accident of the server."""
    return loop.left.startswith(LEFT_BY_HANGUP) and seen.server_lives and not seen.alive


def hold_credential(state: NightState, _present: Present) -> Iterator[Decision]:
    refused = [loop for loop in wanted(state) if loop.held_kind == Kind.AUTH]
    for loop in wanted(state):
        same = next((one for one in refused if _may_share(one, loop)), None)
        if same is not None and loop.held_kind != Kind.AUTH:
            why = f"the credential was refused ({same.loop.id}); mend it, then `ralphd resume`"
            yield Decision(action=actions.Pause(loop=loop.loop.id), why=why)


def _may_share(one: LoopState, other: LoopState) -> bool:
    """Tell whether two loops may have one account: that of a loop which never ran yet is not known."""
    return one.account == other.account or not (one.account and other.account)


def keep_running(state: NightState, present: Present) -> Iterator[Decision]:
    if state.ending or over(state, present.now) or _spent(present):
        return
    for loop in wanted(state):
        seen = present.loops[loop.loop.id]
        if seen.alive or _window_closed(loop, seen) or _held_up(loop, present):
            continue
        if present.now >= seen.spawned_at + _spawn_wait_s(seen.spawns):
            why = "its runner is gone" if loop.started else "the night starts"
            yield Decision(action=actions.SpawnRunner(loop=loop.loop.id), why=why)


def _held_up(loop: LoopState, present: Present) -> bool:
    """Tell whether the loop is just being paused or stopped: the newest order wins, and a spawn brings one along."""
    return any(f"{order} {loop.loop.id}" in present.in_flight for order in ("Pause", "Park", "StopLoop"))


def _spawn_wait_s(spawns: int) -> float:
    return min(SPAWN_BACKOFF_MAX_S, SPAWN_PATIENCE_S * spawns)


def wanted(state: NightState) -> Iterator[LoopState]:
    return (loop for loop in state.loops.values() if loop.want is Want.RUNNING)


def return_branches(state: NightState, present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        moved = present.loops[loop.loop.id].moved
        if moved is not None and moved.found not in loop.returned:  # once: whoever insists isn't fought
            action = actions.ReturnBranch(loop=loop.loop.id, found=moved.found, to=moved.to)
            yield Decision(action=action, why="somebody else than its loop moved its branch")
