"""Whether what a person or a model asks for may be done."""

from __future__ import annotations

from ralphd.core import actions
from ralphd.core.actions import Action
from ralphd.core.exchange import Want
from ralphd.core.state import NightState

LOOPS_NAMED = 40  # more of 512 would hide what is said


def vet(state: NightState, action: Action) -> str:
    """Return why an action somebody proposes is refused, or an empty string."""
    loop = state.loops.get(getattr(action, "loop", ""))
    match action:
        case actions.EndNight():
            return "the night has ended" if state.ended_at is not None else ""
        case actions.Verify() | actions.Notify():
            return ""
        case _ if loop is None:
            known = list(state.loops)
            more = " …" if len(known) > LOOPS_NAMED else ""
            return f"no loop named {action.loop!r}; there are: {', '.join(known[:LOOPS_NAMED])}{more}"
        case actions.Pause() | actions.Tell() | actions.StopLoop() if loop.want is Want.STOPPED:
            return f"{action.loop} has been stopped for this night"
        case actions.Resume() | actions.RestartLoop() | actions.SpawnRunner() if state.ending:
            return "the night is ending"
        case _:
            return ""
