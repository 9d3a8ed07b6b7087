"""Whether what a person or a model asks for may be done."""

from __future__ import annotations

from ralphd.core import actions
from ralphd.core.actions import Action
from ralphd.core.exchange import Want
from ralphd.core.policy.present import Bounds
from ralphd.core.state import NightState

LOOPS_NAMED = 40  # more of 512 would hide what is said


def vet(state: NightState, action: Action, bounds: Bounds | None = None) -> str:
    """Return why an action somebody proposes is refused, or an empty string. ``bounds``: of the width."""
    loop = state.loops.get(getattr(action, "loop", ""))
    match action:
        case actions.EndNight():
            return "the night has ended" if state.ended_at is not None else ""
        case actions.Verify() | actions.FreeDisk() | actions.Notify():
            return ""
        case actions.Scale(width=width):
            return _vet_width(state, width, bounds or Bounds())
        case _ if loop is None:
            known = list(state.loops)
            more = " …" if len(known) > LOOPS_NAMED else ""
            return f"no loop named {action.loop!r}; there are: {', '.join(known[:LOOPS_NAMED])}{more}"
        case (
            actions.Pause()
            | actions.Tell()
            | actions.StopLoop()
            | actions.Park()
            | actions.Restore()
            | actions.Withdraw()
        ) if loop.want is Want.STOPPED:
            return f"{action.loop} has been stopped for this night"
        case actions.Resume() | actions.RestartLoop() | actions.SpawnRunner() | actions.Unpark() if state.ending:
            return "the night is ending"
        case _:
            return ""


def _vet_width(state: NightState, width: int, bounds: Bounds) -> str:
    """Let the width that the night began with always be asked for, whatever the supervisor may do by itself."""
    if state.ending:
        return "the night is ending"
    most = max(bounds.most, state.wished)
    if width > most:
        return f"{width} loops are more than supervisor.width_max allows ({most}); raise it in ralphd.toml"
    least = max(1, min(bounds.least, state.wished))
    if width < least:
        return f"{width} loops are fewer than supervisor.width_min allows ({least}); `ralphd pause` holds all"
    return ""
