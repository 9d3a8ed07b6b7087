"""Whether an answer of the supervisor's model is taken: it must be fresh, open now, vetted, and not tried in vain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ralphd.core import actions, policy
from ralphd.core.actions import Decision
from ralphd.core.advice import Question
from ralphd.core.answer import Advice, Faulty, Spent
from ralphd.core.chronicle import Chronicle
from ralphd.core.events import Consulted, OutcomeNoted
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.policy import Offer
from ralphd.core.state import NightState
from ralphd.daemon.tick import Night

PATIENCE_S = 30.0  # then the policy decides, and the answer is too late
SAME_ADVICE = 3  # taken so often without a gain, it is futile


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a model may be asked about: the loops, and what is open for each. All is the policy's.

    ``cheap``: what is open for a loop whose question may be asked together with others; empty: it may not.
    """

    stuck: Callable[[NightState, float], Sequence[str]]
    offers: Callable[[NightState, str], Sequence[Offer]]
    cheap: Callable[[NightState, str], Sequence[Offer]] = lambda _state, _loop: ()


@dataclass(kw_only=True)
class Asking:
    """A question under way about a loop in this generation. ``late``: nobody waits for its answer any more.

    ``serial`` and ``sent`` (a hash) are the request's, which holds ``shared`` questions; ``cheap``: it may hold more.
    """

    loop: str
    question: Question
    serial: int
    trouble: str
    generation: int
    since: float  # boottime
    sent: str
    shared: int = 1
    cheap: bool = False
    late: bool = False


@dataclass(frozen=True, kw_only=True)
class Paid:
    """What an answer took."""

    model: str
    seconds: float
    spent: Spent


def weigh(night: Night, room: Room, chronicle: Chronicle, asking: Asking, told: Advice | Faulty) -> Offer | Faulty:
    """Return what to do, of what is open now with everything filled in by the policy, or why the answer isn't taken."""
    if isinstance(told, Faulty):
        return told
    found = _open(night, room, asking, told.choice)
    if isinstance(found, str):
        return Faulty(kind=Kind.SUPERVISOR_STALE, why=found, choice=told.choice)
    if found.action is not None:
        elsewhere = "" if getattr(found.action, "loop", "") == asking.loop else "it is about another loop"
        if why := elsewhere or policy.vet(night.state, found.action):
            return Faulty(kind=Kind.SUPERVISOR_FORBIDDEN, why=why, choice=told.choice)
    if _is_futile(chronicle, asking.loop, told.choice):
        why = f"{told.choice} was taken {SAME_ADVICE} times and brought nothing"
        return Faulty(kind=Kind.SUPERVISOR_FUTILE, why=why, choice=told.choice)
    return found


def _open(night: Night, room: Room, asking: Asking, choice: str) -> Offer | str:
    """Return what is open now by that name, or why nothing is."""
    state, name = night.state, asking.loop
    if asking.late:
        return f"it took longer than {PATIENCE_S:g} s, and the policy had decided"
    if state.loops[name].generation != asking.generation:
        return "another generation has begun meanwhile"
    if name not in room.stuck(state, night.world.clock.now()):
        return "the trouble is over, or somebody else saw to it"
    found = next((offer for offer in room.offers(state, name) if offer.name == choice), None)
    if found is None:
        return "it is not open any more"
    if found.action is not None and actions.key(found.action) in night.present().in_flight:
        return "it is being done already"
    return found


def _is_futile(chronicle: Chronicle, loop: str, choice: str) -> bool:
    taken = [past for past in chronicle.past(loop) if past.taken][-SAME_ADVICE:]
    gains = chronicle.gains.get(loop, 0)
    return len(taken) == SAME_ADVICE and all(past.choice == choice and past.gains == gains for past in taken)


def record(night: Night, asking: Asking, told: Advice | Faulty, came: Offer | Faulty, paid: Paid) -> None:
    """Record the consultation and, in the same commit, what is intended because of it."""
    refused = came if isinstance(came, Faulty) else None
    body = Consulted(
        model=paid.model,
        trouble=asking.trouble,
        prompt_sha256=asking.sent,
        offered=asking.question.offered,
        choice=told.choice,
        evidence=told.evidence if isinstance(told, Advice) else (),
        why=told.why if isinstance(told, Advice) else "",
        taken=refused is None,
        refused=refused.kind.value if refused is not None else "",
        reason=refused.why if refused is not None else "",
        tokens_in=paid.spent.tokens_in,
        tokens_out=paid.spent.tokens_out,
        seconds=paid.seconds,
        shared=asking.shared,
    )
    entries = [night.entry(asking.loop, body)]
    if refused is not None:
        seen = (Evidence(what=refused.why[:300]),)
        outcome = Outcome(kind=refused.kind, detail={"choice": refused.choice}, evidence=seen)
        entries.append(night.entry(asking.loop, OutcomeNoted(outcome=outcome)))
    decisions = []
    if isinstance(came, Offer) and came.action is not None:
        decisions.append(Decision(action=came.action, why=came.why, by="supervisor", cause=came.cause))
    night.intend(decisions, told=entries)
