"""What is known of a night once an action was carried out, or overtaken."""

from __future__ import annotations

from ralphd.core import actions, events
from ralphd.core.exchange import Want, newest, note_name
from ralphd.core.history import Remedy
from ralphd.core.orders import Ordering, order_of
from ralphd.core.state import LoopState, NightState

WIDTHS_KEPT = 32


def done(state: NightState, intent: int, intended: events.ActionIntended, generation: int) -> None:
    """Fold an action that was done. ``intent``: the entry of its intent; ``generation``: that a restart began, or 0."""
    action = events.action_from_json(intended.type, intended.args)
    _apply(state, action, intended, generation)
    _remember(state, intent, intended)
    if isinstance(action, Ordering):  # its runner may not have read that when the next daemon gives its first order
        loop = state.loops[action.loop]
        loop.ordered = newest(loop.ordered, order_of(intent, action))


def overtake(state: NightState, intended: events.ActionIntended, by: str) -> None:
    """Fold an order to verify that was given up, for the sake of the newer commit ``by``."""
    action = events.action_from_json(intended.type, intended.args)
    loop = state.loops.get(action.candidate.loop) if isinstance(action, actions.Verify) else None
    if loop is not None and isinstance(action, actions.Verify):
        loop.overtaken[action.candidate.commit] = by


def _apply(state: NightState, action: actions.Action, intended: events.ActionIntended, generation: int) -> None:
    match action:
        case actions.Pause(loop=name) | actions.Resume(loop=name) | actions.StopLoop(loop=name):
            loop = state.loops[name]
            loop.want = {actions.Pause: Want.PAUSED, actions.Resume: Want.RUNNING}.get(type(action), Want.STOPPED)
            loop.left = ""
            if loop.want is Want.RUNNING:  # what held it counts again only if the runner says so again
                loop.held_kind = loop.held_why = ""
            loop.wanted_by, loop.aside = intended.by, ""
            loop.note = "" if loop.want is Want.RUNNING else intended.why
        case actions.Park(loop=name, because=because):
            _set_aside(state.loops[name], because, intended.why)
        case actions.Unpark(loop=name):
            _set_aside(state.loops[name], "", "")
        case actions.Withdraw(loop=name, note=note):
            state.loops[name].unread.pop(note, None)
        case actions.Scale(width=width):
            _scale(state, width, intended.by)
        case actions.Restore(loop=name, paths=paths, commit=commit):
            state.loops[name].restore = paths
            state.loops[name].restored.add(commit)
        case actions.RestartLoop(loop=name, reset_to=reset_to):
            loop = state.loops[name]
            loop.want, loop.wanted_by, loop.note = Want.RUNNING, intended.by, ""
            loop.left = loop.aside = ""
            loop.reset_in = generation if reset_to else loop.reset_in
            if loop.generation < generation:  # else its runner was quicker, and has begun it already
                loop.generation, loop.reset_to = generation, reset_to
                loop.claim = None
                loop.held_kind = loop.held_why = ""
        case actions.EndNight(now=now):
            state.ending_s = state.ending_s if state.ending else state.seen_s
            state.ending, state.skip_verification = True, now
        case actions.Tell(loop=name):
            state.loops[name].told.add(actions.key(action))
        case actions.FreeDisk():
            state.freed_s = state.seen_s
        case actions.SpawnRunner() | actions.Verify() | actions.ReturnBranch() | actions.Notify():
            pass


def _remember(state: NightState, intent: int, intended: events.ActionIntended) -> None:
    """Count what was done about a trouble, and what a person did: both begin a new count."""
    loop = state.loops.get(str(intended.args.get("loop", "")))
    if loop is not None and (intended.cause or intended.type == actions.RestartLoop.__name__):
        remedy = Remedy(
            entry=intent,
            at_s=state.seen_s,
            cause=intended.cause,
            action=intended.type,
            by=intended.by,
            reset_to=str(intended.args.get("reset_to", "")),
        )
        loop.past.treat(remedy)
    if loop is not None and intended.cause and intended.type == actions.Tell.__name__:
        name = note_name(intent, str(intended.args["template"]), now=bool(intended.args.get("now")))
        loop.unread[name] = intent


def _set_aside(loop: LoopState, because: str, why: str) -> None:
    loop.want, loop.wanted_by = Want.PAUSED if because else Want.RUNNING, "policy"
    loop.aside, loop.note = because, why
    loop.left = ""


def _scale(state: NightState, width: int, by: str) -> None:
    state.widths = [*state.widths[-WIDTHS_KEPT:], (state.seen_s, width)]
    state.width = width
    if by == "operator":
        state.wished = width
