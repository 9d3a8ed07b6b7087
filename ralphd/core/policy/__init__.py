"""Everything that has one right answer: what to do next, and whether what somebody asks for may be done."""

from __future__ import annotations

from ralphd.core import actions
from ralphd.core.actions import Decision
from ralphd.core.notices import tell_person
from ralphd.core.policy import judging, running
from ralphd.core.policy.judging import checkable, conclude
from ralphd.core.policy.present import Head, LoopNow, Moved, Present
from ralphd.core.policy.running import LEFT_BY_HANGUP, SPAWN_BACKOFF_MAX_S, SPAWN_PATIENCE_S, over
from ralphd.core.policy.telling import tell
from ralphd.core.policy.vetting import LOOPS_NAMED, vet
from ralphd.core.state import NightState

__all__ = [
    "LEFT_BY_HANGUP",
    "LOOPS_NAMED",
    "RULES",
    "SPAWN_BACKOFF_MAX_S",
    "SPAWN_PATIENCE_S",
    "Head",
    "LoopNow",
    "Moved",
    "Present",
    "checkable",
    "conclude",
    "decide",
    "over",
    "vet",
]

# In order: of two decisions about one thing the first one counts.
RULES = (
    tell_person,  # what waits for a person is told once
    running.end,  # a night whose time is up, or whose tasks are all done
    running.stop_all,  # then every loop stops
    running.finish_tasks,  # a task that reached its goal needs nobody any more
    running.respect_closed_window,  # a person closed it: pause
    running.hold_credential,  # refused to one, it is refused to all
    running.keep_running,  # every loop that is wanted has a runner
    running.return_branches,  # a branch that somebody else moved goes back
    judging.verify_bases,  # what all else is measured against
    judging.verify_claims,  # a claim is settled by a verdict
    judging.verify_ends,  # what a session left behind
    judging.verify_heads,  # and what it commits meanwhile
    tell,  # what the next session has to know
)


def decide(state: NightState, present: Present) -> tuple[Decision, ...]:
    """Return what is to be done now, by every rule in order, once for each key."""
    if state.ended_at is not None:
        return ()
    taken = set(present.in_flight)
    decisions = []
    for rule in RULES:
        for decision in rule(state, present):
            if actions.key(decision.action) not in taken:
                taken.add(actions.key(decision.action))
                decisions.append(decision)
    return tuple(decisions)
