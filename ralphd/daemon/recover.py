"""A new daemon takes a night up: open intents are carried out again where that is harmless, else dropped."""

from __future__ import annotations

from ralphd.core import actions, events
from ralphd.core.outcomes import Kind
from ralphd.daemon.inbox import Settled
from ralphd.daemon.tick import Night


def recover(night: Night) -> None:
    """Reconcile open intents. Orders carry their intent's id, notes its name, so doing them twice does nothing twice.

    A spawn or a verification is dropped: the next pass sees whether the runner lives and whether the head is judged,
    and decides afresh.
    """
    again = []
    for intent, intended in sorted(night.state.intents.items()):
        action = events.action_from_json(intended.type, intended.args)
        if isinstance(action, (actions.SpawnRunner, actions.Verify)):
            night.settled(Settled(intent=intent, result="superseded", detail="the daemon restarted"))
        else:
            again.append((intent, action))
    night.doer.act(night.state, again)
    night.note(Kind.DAEMON_RESTARTED, f"took up {len(night.state.loops)} loops")
