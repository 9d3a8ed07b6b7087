"""A new daemon takes a night up: open intents are carried out again where that is harmless, else dropped."""

from __future__ import annotations

from ralphd.core import actions, events
from ralphd.core.errors import EdgeError
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.daemon.failpoints import hit
from ralphd.daemon.inbox import Settled
from ralphd.daemon.tick import Night


def recover(night: Night) -> None:
    """Reconcile open intents. Orders carry their intent's id, notes its name, so doing them twice does nothing twice.

    A spawn or a verification is dropped: the next pass sees whether the runner lives and whether the head is judged,
    and decides afresh.
    """
    hit("recovering")
    again = []
    for intent, intended in sorted(night.state.intents.items()):
        action = events.action_from_json(intended.type, intended.args)
        if isinstance(action, (actions.SpawnRunner, actions.Verify)):
            night.settled(Settled(intent=intent, result="superseded", detail="the daemon restarted"))
        else:
            again.append((intent, action))
    _expect_runners(night)
    night.doer.act(night.state, again)
    night.note(Kind.DAEMON_RESTARTED, f"took up {len(night.state.loops)} loops")
    hit("recovered")


def note_reboot(night: Night, boot_id: str) -> None:
    """Record once that the machine was started anew since a runner was last heard of: none of them can live."""
    if night.state.boot_id in {"", boot_id}:
        return
    what = f"the machine was started anew; {len(night.state.loops)} loops go on from their worktrees"
    outcome = Outcome(kind=Kind.REBOOTED, detail={"boot_id": boot_id}, evidence=(Evidence(what=what),))
    night.record([night.entry("", events.OutcomeNoted(outcome=outcome))])


def _expect_runners(night: Night) -> None:
    """Give windows that the last daemon had just opened their time: a second one would close the first.

    A window ends with its runner, so one without is about to have one.
    """
    world, loops = night.world, night.state.loops
    starting = {name for name, loop in loops.items() if not world.folders.alive(loop.loop.folder)}
    if not starting:
        return
    try:
        starting &= {pane.window for pane in world.panes.panes().values()}
    except EdgeError as error:
        world.log.warning("the tmux server doesn't answer", error=str(error))
    for name in starting:
        night.sight.spawns[name] = 1
        night.sight.spawned_at[name] = world.clock.now()
        night.sight.silent.add(name)
