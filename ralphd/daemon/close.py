"""The end of a night: nothing that was started runs on, and the results are where the person can take them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ralphd.core import events, policy
from ralphd.core.errors import EdgeError
from ralphd.core.exchange import Want
from ralphd.core.spending import spending
from ralphd.core.state import NightState
from ralphd.daemon.failpoints import hit
from ralphd.daemon.inbox import Closed
from ralphd.daemon.tick import Night

# The runner gives an agent 10 s to leave; one that is still there long after is stuck itself.
RUNNER_PATIENCE_S = 30.0


@dataclass(kw_only=True)
class Closing:
    """Watches a night that ends. ``since``: from when on the runners' end is awaited, monotonic."""

    night: Night
    since: float | None = None
    heads_at: float | None = None  # when the branches were last looked at before all was at rest
    pushed: set[str] = field(default_factory=set)  # loops whose windows were closed over them
    submitted: bool = False

    def step(self) -> None:
        """One pass; submits the last work once when everything has come to rest."""
        state = self.night.state
        if not state.ending or self.submitted:
            return
        if state.skip_verification:
            self.night.doer.queue.drop()
            self.night.world.judge.close()
        if self._runners_gone() and self._at_rest():
            self.submitted = True
            self.night.doer.slow.submit(self._close_surely)

    def _runners_gone(self) -> bool:
        now = self.night.world.clock.monotonic()
        self.since = now if self.since is None else self.since
        alive = [name for name, is_alive in self.night.sight.alive.items() if is_alive]
        patient = now <= self.since + RUNNER_PATIENCE_S
        stuck = [name for name in alive if not patient or name in self.night.doer.unheard]
        if fresh := [name for name in stuck if name not in self.pushed]:
            self.pushed.update(fresh)
            self.night.doer.slow.submit(self._push, fresh)
        return not alive and all(loop.want is Want.STOPPED for loop in self.night.state.loops.values())

    def _at_rest(self) -> bool:
        """Nothing waits to be stored, settled, judged or decided, and the branches were looked at since all stopped."""
        night = self.night
        if night.unstored or night.state.intents or not night.doer.queue.idle():
            return False
        if self.heads_at is None:
            self.heads_at = night.sight.heads_at
            night.sight.heads_at = float("-inf")  # the next pass looks again, and may find more to judge
            return False
        if night.sight.heads_at in {self.heads_at, float("-inf")}:
            return False
        return not any(policy.conclude(night.state, night.present())) and not policy.decide(
            night.state, night.present()
        )

    def _push(self, names: list[str]) -> None:
        """Close the windows of runners that don't go, and end what carries their nonces. Runs in ``slow``."""
        world = self.night.world
        loops = [self.night.state.loops[name] for name in names]
        for loop in loops:
            try:
                world.panes.kill_pane(loop.pane)
            except EdgeError as error:
                world.log.warning("a window can't be closed", loop=loop.loop.id, error=str(error))
        world.host.end_leftovers([loop.loop.nonce for loop in loops])

    def _close_surely(self) -> None:
        """Close, and say so whatever happens: a night that can't be closed must not keep its person waiting."""
        trouble: list[str] = []
        try:
            self._close(trouble)
        except Exception as error:  # noqa: BLE001  # the boundary of a worker
            trouble.append(f"closing failed: {type(error).__name__}: {error}")
        self.night.inbox.put(Closed(trouble=tuple(trouble)))

    def _close(self, trouble: list[str]) -> None:
        """End leftovers, bring results over, end the server. Runs in ``slow``; every trouble is told, none stops it."""
        world, state = self.night.world, self.night.state
        hit("closing_begun")
        try:
            world.host.end_leftovers([loop.loop.nonce for loop in state.loops.values()])
        except (OSError, EdgeError) as error:
            trouble.append(f"leftover processes could not be ended: {error}")
        hit("closing_leftovers_ended")
        for task in state.tasks.values():
            try:
                name = task.task.name
                missing = world.repositories.deliver(task.task, state.id, _best_of(state, name), _tips_of(state, name))
                trouble += [f"not brought over: {line}" for line in missing]
            except (OSError, EdgeError) as error:
                trouble.append(f"the results could not be brought into {task.task.repository}: {error}")
        hit("delivered")
        try:
            world.panes.kill_server()
        except (OSError, EdgeError) as error:
            trouble.append(f"the tmux server could not be ended: {error}")
        hit("server_ended")


def _best_of(state: NightState, task: str) -> dict[str, str]:
    loops = state.loops.values()
    return {loop.loop.id: loop.best_commit for loop in loops if loop.loop.task == task and loop.best_commit}


def _tips_of(state: NightState, task: str) -> dict[str, str]:
    return {loop.loop.id: loop.tip for loop in state.loops.values() if loop.loop.task == task and loop.tip}


def ended(night: Night) -> events.NightEnded:
    """Say why the night ended: goal, time, budget or stopped."""
    if night.state.tasks and all(task.done for task in night.state.tasks.values()):
        return events.NightEnded(why="goal")
    ends_at = night.state.ends_at
    if ends_at is not None and night.world.clock.now() >= ends_at:
        return events.NightEnded(why="time")
    spent = spending(night.state, night.world.price)
    return events.NightEnded(why="budget" if spent.ends_night and spent.over else "stopped")
