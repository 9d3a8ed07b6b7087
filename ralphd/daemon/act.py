"""The only doer: carry out an intended action and say what came of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from ralphd.core import actions
from ralphd.core.actions import Action
from ralphd.core.events import OutcomeNoted
from ralphd.core.exchange import Order, note_name
from ralphd.core.orders import order_of
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.state import LoopState, NightState
from ralphd.daemon.failpoints import hit
from ralphd.daemon.inbox import Inbox, Settled
from ralphd.daemon.verify import VerifyQueue
from ralphd.daemon.world import World

# Loops that come back together, after tmux or the machine died, begin so far apart, and all of them within SPREAD_S:
# neither the machine nor the inference server is hit by all of them at once.
STEP_S = 0.5
SPREAD_S = 6.0

Intended = tuple[int, Action]  # the intent's entry id, which also orders the orders


@dataclass(kw_only=True)
class Doer:
    """Quick effects happen here; slow ones (git, tmux) in ``slow``; verdicts in the queue. Each posts one Settled."""

    world: World
    inbox: Inbox
    slow: Executor
    aside: Executor  # for what nobody waits for
    queue: VerifyQueue
    ordered: dict[str, Order] = field(default_factory=dict)  # the newest order of each loop that this daemon gave
    unheard: set[str] = field(default_factory=set)  # loops to which the order to stop could not be written
    ordering: threading.Lock = field(default_factory=threading.Lock)  # orders come from two threads

    def act(self, state: NightState, intended: Iterable[Intended]) -> None:
        spawns: list[tuple[int, LoopState]] = []
        for intent, action in intended:
            match action:
                case actions.SpawnRunner(loop=loop):
                    spawns.append((intent, state.loops[loop]))
                case actions.ReturnBranch():
                    self.slow.submit(self._return_branch, state, intent, action)
                case actions.Notify():
                    self.aside.submit(self._notify, intent, action)
                case actions.Scale() | actions.FreeDisk():
                    self.slow.submit(self._keep_house, intent, action)
                case actions.Verify(candidate=candidate):
                    self.queue.add(state, intent, candidate)
                case _:
                    self._quick(state, intent, action)
        if spawns:
            self.slow.submit(self._spawn, state, spawns)
        self.queue.pump(state)

    def _quick(self, state: NightState, intent: int, action: Action) -> None:
        try:
            self._do(state, intent, action)
            hit("acted")
        except Exception as error:  # noqa: BLE001  # one that fails must not leave those after it undone
            why = str(error) or type(error).__name__
            self.inbox.put(Settled(intent=intent, result="failed", detail=why[:500]))
        else:
            self.inbox.put(Settled(intent=intent, result="done"))

    def _do(self, state: NightState, intent: int, action: Action) -> None:
        match action:
            case actions.Pause() | actions.Park() | actions.Unpark() | actions.Resume():
                self._order(state, action.loop, order_of(intent, action))
            case actions.StopLoop(loop=loop):
                self._stop(state, loop, order_of(intent, action))
            case actions.RestartLoop(loop=loop, reset_to=reset_to):
                self._assign(state, state.loops[loop], state.restarts[intent], reset_to)
                hit("assignment_written")
                self._order(state, loop, order_of(intent, action))
            case actions.Tell(loop=loop, template=template, slots=slots, now=now):
                text = fill(self.world.template(template), slots)
                self.world.folders.note(state.loops[loop].loop.folder, note_name(intent, template, now=now), text)
                hit("note_written")
            case actions.Withdraw(loop=loop, note=note):
                self.world.folders.note(state.loops[loop].loop.folder, note, "")
            case actions.Restore(loop=loop, paths=paths):
                self._assign(state, state.loops[loop], state.loops[loop].generation, state.loops[loop].reset_to, paths)
            case actions.EndNight():
                pass
            case actions.SpawnRunner() | actions.Verify() | actions.ReturnBranch():
                pass  # not quick
            case actions.Scale() | actions.FreeDisk() | actions.Notify():
                pass  # not quick

    def reassign(self, state: NightState) -> None:
        """Write every loop's assignment again, after the configuration changed; a runner reads it at its next turn."""
        for loop in state.loops.values():
            self._assign(state, loop, loop.generation, loop.reset_to)

    def _order(self, state: NightState, loop: str, order: Order) -> None:
        with self.ordering:
            before = self.ordered.get(loop) or state.loops[loop].ordered
            if before is not None and order.serial < before.serial:
                return  # a spawn is slow, and was overtaken by what a person asked for meanwhile
            self.ordered[loop] = order.after(before)
            self.world.folders.order(state.loops[loop].loop.folder, self.ordered[loop])
        hit("order_written")

    def _stop(self, state: NightState, loop: str, order: Order) -> None:
        try:
            self._order(state, loop, order)
        except OSError:
            self.unheard.add(loop)
            if self.world.folders.alive(state.loops[loop].loop.folder):
                raise

    def _assign(
        self, state: NightState, loop: LoopState, generation: int, reset_to: str, restore: tuple[str, ...] = ()
    ) -> None:
        assignment, preamble = self.world.assignment(self.world.config, state, loop, generation, reset_to)
        self.world.folders.assign(replace(assignment, restore=restore or loop.restore), preamble)

    def _spawn(self, state: NightState, spawns: list[tuple[int, LoopState]]) -> None:
        """Make ready and open the windows of all of them by one call. Runs in ``slow``."""
        opened: Mapping[str, str] = {}
        why = "tmux opened no window for it"
        try:
            self._make_ready(state, spawns)
            windows = [
                (loop.loop.id, self.world.runner(loop.loop.folder, late_s))
                for (_, loop), late_s in zip(spawns, spread([loop.started for _, loop in spawns]), strict=True)
            ]
            opened = self.world.panes.open_windows(windows)
            hit("windows_opened")
        except Exception as error:  # noqa: BLE001  # the boundary of a worker: every intent is settled
            why = str(error) or type(error).__name__
        for intent, loop in spawns:
            if loop.loop.id in opened:
                self.inbox.put(Settled(intent=intent, result="done"))
            else:
                self._spawn_failed(intent, loop, why)

    def _return_branch(self, state: NightState, intent: int, action: actions.ReturnBranch) -> None:
        """Put it back and say so; nobody in particular is charged, for nobody knows who it was. Runs in ``slow``."""
        loop = state.loops[action.loop].loop
        where: dict[str, object] = {"loop": loop.id, "found": action.found, "to": action.to}
        try:
            ref = self.world.repositories.put_back(
                state.tasks[loop.task].task, loop, found=action.found, to=action.to, stamp=f"{intent:08d}"
            )
        except Exception as error:  # noqa: BLE001  # the boundary of a worker: every intent is settled
            what, result = f"{loop.branch} was moved by somebody else and could not be put back: {error}", "failed"
        else:
            where["ref"] = ref
            what, result = f"{loop.branch} was moved by somebody else; it is back, what was there is {ref}", "done"
        outcome = Outcome(kind=Kind.FOREIGN_CHANGE, detail=where, evidence=(Evidence(what=what[:500]),))
        body = ("", 0, 0, OutcomeNoted(outcome=outcome))
        self.inbox.put(Settled(intent=intent, result=result, detail=what[:500], bodies=(body,)))

    def _notify(self, intent: int, action: actions.Notify) -> None:
        """Tell the person, and record whether that went well. Runs in ``aside``."""
        result, detail = self.tell_person(action.title, action.told)
        self.inbox.put(Settled(intent=intent, result=result, detail=detail))

    def tell_person(self, title: str, body: str) -> tuple[str, str]:
        """Return how it went, as the result and detail of an action. Takes as long as the way to the person does."""
        if self.world.notifier is None:
            return "done", "nobody is configured to be told; `ralphd status` and the report say it"
        try:
            self.world.notifier.notify(self.world.hide(f"ralphd: {title}"), self.world.hide(body))
        except Exception as error:  # noqa: BLE001  # the boundary of a worker: every intent is settled
            return "failed", self.world.hide(str(error) or type(error).__name__)[:500]
        return "done", ""

    def _keep_house(self, intent: int, action: actions.Scale | actions.FreeDisk) -> None:
        """Write down which loops there are, or make room. Runs in ``slow``."""
        detail = ""
        try:
            if isinstance(action, actions.Scale):
                self.world.frame()
            else:
                detail = f"{self.world.free_disk() >> 20} MiB freed"
        except Exception as error:  # noqa: BLE001  # the boundary of a worker: every intent is settled
            self.world.log.warning("not done", action=type(action).__name__, why=str(error))
            detail = str(error)[:500]
        self.inbox.put(Settled(intent=intent, result="done", detail=detail))

    def _make_ready(self, state: NightState, spawns: list[tuple[int, LoopState]]) -> None:
        self.world.host.end_leftovers([loop.loop.nonce for _, loop in spawns if loop.started])
        hit("leftovers_ended")
        self._close_old_windows({loop.loop.id for _, loop in spawns})
        hit("old_windows_closed")
        for name, task in state.tasks.items():
            loops = [loop.loop for _, loop in spawns if loop.loop.task == name]
            if loops:
                tips = {loop.id: tip for loop in loops if (tip := state.loops[loop.id].tip)}
                self.world.repositories.add_worktrees(task.task, loops, tips)
        hit("worktrees_made")
        for intent, loop in spawns:
            self._assign(state, loop, loop.generation, loop.reset_to)
            self._order(state, loop.loop.id, order_of(intent, actions.SpawnRunner(loop=loop.loop.id)))
        hit("runners_assigned")

    def _close_old_windows(self, loops: set[str]) -> None:
        for pane in self.world.panes.panes().values():
            if pane.window in loops:
                self.world.panes.kill_pane(pane.pane)

    def _spawn_failed(self, intent: int, loop: LoopState, why: str) -> None:
        outcome = Outcome(kind=Kind.SPAWN_FAILED, evidence=(Evidence(what=why[:500]),))
        body = (loop.loop.id, loop.generation, loop.trajectory, OutcomeNoted(outcome=outcome))
        self.inbox.put(Settled(intent=intent, result="failed", detail=why[:500], bodies=(body,)))


def spread(back: Sequence[bool]) -> list[float]:
    """Return how many seconds late each loop begins; those that are ``back`` one after another, new ones at once."""
    step_s = min(STEP_S, SPREAD_S / max(1, sum(back)))
    late_s, before = [], 0
    for again in back:
        late_s.append(before * step_s if again else 0.0)
        before += again
    return late_s


def fill(template: str, slots: dict[str, str]) -> str:
    """Put ``slots`` into ``{name}`` places. Not str.format: braces are common in text, and slots may hold some."""
    parts = template.split("{")
    filled = [parts[0]]
    for part in parts[1:]:
        name, brace, rest = part.partition("}")
        filled.append(slots[name] + rest if brace and name in slots else "{" + part)
    return "".join(filled)
