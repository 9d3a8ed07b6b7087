"""Everything that has one right answer: what to do next, and whether what somebody asks for may be done."""

from __future__ import annotations

from collections.abc import Iterator

from ralphd.core import actions, events
from ralphd.core.actions import Decision
from ralphd.core.notices import tell_person
from ralphd.core.policy import judging, rungs, running, scaling, sharing
from ralphd.core.policy.judging import checkable, passed_over
from ralphd.core.policy.present import Bounds, Head, LoopNow, Moved, Present, Strain
from ralphd.core.policy.rungs import Offer, Rung, cheap_offers, offers, stuck
from ralphd.core.policy.running import LEFT_BY_HANGUP, SPAWN_BACKOFF_MAX_S, SPAWN_PATIENCE_S, over
from ralphd.core.policy.telling import tell
from ralphd.core.policy.vetting import LOOPS_NAMED, vet
from ralphd.core.spending import warn
from ralphd.core.state import NightState

__all__ = [
    "LEFT_BY_HANGUP",
    "LOOPS_NAMED",
    "RULES",
    "SPAWN_BACKOFF_MAX_S",
    "SPAWN_PATIENCE_S",
    "Bounds",
    "Head",
    "LoopNow",
    "Moved",
    "Offer",
    "Present",
    "Rung",
    "Strain",
    "cheap_offers",
    "checkable",
    "conclude",
    "decide",
    "offers",
    "over",
    "passed_over",
    "stuck",
    "vet",
]

# In order: of two decisions about one thing the first one counts.
RULES = (
    tell_person,  # what waits for a person is told once
    warn,  # what the night was given is spent
    running.end,  # a night whose time is up, or whose tasks are all done
    running.stop_all,  # then every loop stops
    running.finish_tasks,  # a task that reached its goal needs nobody any more
    running.respect_closed_window,  # a person closed it: pause
    running.hold_credential,  # refused to one, it is refused to all
    sharing.share,  # while most loops fail alike, one tries for all
    scaling.free_disk,  # room before anything is stopped for want of it
    scaling.rescale,  # narrower under strain, wider when it has passed
    scaling.fit,  # as many loops as the width says
    rungs.probe_paused,  # what was wrong with a loop may have passed
    running.keep_running,  # every loop that is wanted has a runner
    running.return_branches,  # a branch that somebody else moved goes back
    judging.verify_bases,  # what all else is measured against
    judging.verify_claims,  # a claim is settled by a verdict
    judging.verify_ends,  # what a session left behind
    judging.verify_heads,  # and what it commits meanwhile
    judging.verify_passed_over,  # and what was good before it became worse
    rungs.restore_protected,  # nothing that is built on a changed judge can count
    rungs.withdraw,  # a note that a gain has outdone is told to nobody
    rungs.cure,  # the least that may help a loop in trouble, a rung higher the fourth time
    tell,  # what the next session has to know
)

# What follows from what is known, and is recorded before anything is done about it.
CONCLUSIONS = (
    judging.settle,  # lost runners, verdicts that are known already, claims
    sharing.note_shared,  # what most loops fail of
    rungs.note_troubles,  # what a single loop fails of
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


def conclude(state: NightState, present: Present) -> Iterator[tuple[str, events.Body]]:
    """Return what follows from what is known without doing anything: pairs of loop id and entry body."""
    for conclusion in CONCLUSIONS:
        yield from conclusion(state, present)
