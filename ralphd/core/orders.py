"""Which order an action is to its loop's runner."""

from __future__ import annotations

from ralphd.core import actions
from ralphd.core.exchange import Order, Want

Ordering = (
    actions.Pause
    | actions.Park
    | actions.Unpark
    | actions.Resume
    | actions.StopLoop
    | actions.RestartLoop
    | actions.SpawnRunner
)


def order_of(intent: int, action: Ordering) -> Order:
    """Return the order of the action that entry ``intent`` tells of: by that number newer ones are known."""
    match action:
        case actions.Pause(now=now):
            return Order(serial=intent, want=Want.PAUSED, now=now)
        case actions.Park(now=now, because=because):
            return Order(serial=intent, want=Want.PAUSED, now=now, why=f"parked: {because}")
        case actions.Unpark():
            return Order(serial=intent, want=Want.RUNNING, retry=True)
        case actions.Resume(now=now):
            return Order(serial=intent, want=Want.RUNNING, retry=True, ask=now)
        case actions.StopLoop(now=now):
            return Order(serial=intent, want=Want.STOPPED, now=now)
        case actions.RestartLoop():
            return Order(serial=intent, want=Want.RUNNING, now=True, retry=True, why="restart")
        case actions.SpawnRunner():
            return Order(serial=intent, want=Want.RUNNING)
