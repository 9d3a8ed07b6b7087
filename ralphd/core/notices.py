"""What waits for a person, and which of it they have not been told yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ralphd.core import actions
from ralphd.core.actions import Decision
from ralphd.core.exchange import Want
from ralphd.core.outcomes import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.policy.present import Present
    from ralphd.core.state import LoopState, NightState

FAR_S = 3600.0  # a limit that is over sooner is over before anybody has come
STUCK_S = 900.0  # since the last loop came to a stand: by then every wait of our own has been tried a few times
AGAIN_S = 600.0  # what came back after it was mended is told anew, but not every minute
LOOPS_NAMED = 8
WORDS_CHARS = 300

TITLES = {
    Kind.AUTH: "the credential is refused",
    Kind.WAITING_FOR_INPUT: "an agent waits for an answer",
    Kind.MODEL_MISSING: "the model is not there",
    Kind.CONFIG_ERROR: "a loop can't run as it is configured",
    Kind.START_FAILED: "the agent can't be started",
}
WAYS_OUT = {
    Kind.AUTH: "Mend it, then `ralphd resume`.",
    Kind.WAITING_FOR_INPUT: "Answer it in a terminal of your own, or configure it away; then `ralphd resume`.",
}
_KINDS = frozenset(kind.value for kind in Kind)


@dataclass(frozen=True, kw_only=True)
class Need:
    """``key`` names the trouble whoever has it; ``since``: when the newest loop with it came to a stand (epoch).

    ``told`` is the body as it leaves this machine: without a word that an agent, its client or an endpoint wrote.
    """

    key: str
    title: str
    body: str
    told: str
    since: float


def needs(state: NightState, now: float) -> tuple[Need, ...]:
    """Return everything that only a person can end, or that one should know of, as things are."""
    if state.ended_at is not None or state.ending:
        return ()
    loops = [loop for loop in state.loops.values() if loop.want is Want.RUNNING]
    found = [*_held(loops), *_asking(loops), *_far(loops, now), *_left_to_a_person(state)]
    return (*found, *_stuck(loops, now)) if not found else tuple(found)


def tell_person(state: NightState, present: Present) -> Iterator[Decision]:
    """Tell each need once, and again when it had passed and came back."""
    for need in needs(state, present.now):
        told_at = state.noticed.get(need.key)
        if told_at is None or (need.since > told_at and present.now >= told_at + AGAIN_S):
            yield Decision(action=_notify(need), why=need.title)


def _notify(need: Need) -> actions.Notify:
    return actions.Notify(key=need.key, title=need.title, body=need.body, told=need.told)


def lines(state: NightState, now: float) -> list[str]:
    """Say what waits for a person, one line each."""
    return [f"{need.title}: {need.body}" for need in needs(state, now)]


def _held(loops: Iterable[LoopState]) -> Iterator[Need]:
    """Put together what holds several loops for one reason."""
    groups: dict[str, list[LoopState]] = {}
    for loop in loops:
        if loop.held_kind:
            about = loop.account if loop.held_kind == Kind.AUTH else loop.held_why[:WORDS_CHARS]
            groups.setdefault(f"{loop.held_kind} {about}".strip(), []).append(loop)
    for key, held in groups.items():
        kind = held[0].held_kind
        title = next((words for known, words in TITLES.items() if known == kind), f"held: {kind}")
        way_out = next((words for known, words in WAYS_OUT.items() if known == kind), "Then `ralphd resume`.")
        why = held[0].held_why[:WORDS_CHARS] or kind
        told = f"{_names(held)}: {kind}. {way_out}"
        yield Need(key=key, title=title, body=f"{_names(held)}: {why}. {way_out}", told=told, since=_since(held))


def _asking(loops: Iterable[LoopState]) -> Iterator[Need]:
    groups: dict[str, list[LoopState]] = {}
    for loop in loops:
        if loop.standing.asks and not loop.held_kind:
            groups.setdefault(loop.standing.asks[:WORDS_CHARS], []).append(loop)
    for question, asking in groups.items():
        title, way_out = TITLES[Kind.WAITING_FOR_INPUT], "ralphd answers nothing."
        body = f"{_names(asking)}: {question} {way_out}"
        told = f"{_names(asking)}: {Kind.WAITING_FOR_INPUT}. {way_out}"
        yield Need(key=f"asks {question}", title=title, body=body, told=told, since=_since(asking))


def _far(loops: Iterable[LoopState], now: float) -> Iterator[Need]:
    groups: dict[str, list[LoopState]] = {}
    for loop in loops:
        if loop.waiting_until is not None and loop.waiting_kind == Kind.QUOTA and loop.waiting_until - now >= FAR_S:
            groups.setdefault(loop.account, []).append(loop)
    for account, waiting in groups.items():
        hours = (max(loop.waiting_until or now for loop in waiting) - now) / 3600
        body = f"{_names(waiting)} wait {hours:.1f} h for the quota. `ralphd resume --now` has it tried at once."
        title = "the quota is used up"
        yield Need(key=f"quota {account}", title=title, body=body, told=body, since=_since(waiting))


def _left_to_a_person(state: NightState) -> Iterator[Need]:
    """Tell of loops that the policy paused because what would help isn't its to do."""
    for loop in state.loops.values():
        last = loop.past.remedies[-1] if loop.past.remedies else None
        by_policy = loop.want is Want.PAUSED and loop.wanted_by != "operator"
        if by_policy and last is not None and last.action == actions.Pause.__name__:
            since = state.started_at + state.jumped_s + last.at_s
            title, told = "a loop waits for your decision", f"{loop.loop.id} was paused: `ralphd status` says why."
            body = f"{loop.loop.id}: {loop.note[:600]}"
            yield Need(key=f"asks {loop.loop.id}", title=title, body=body, told=told, since=since)


def _stuck(loops: list[LoopState], now: float) -> Iterator[Need]:
    still = [loop for loop in loops if loop.standing.since is not None]
    if not loops or len(still) < len(loops) or now - _since(still) < STUCK_S:
        return
    kinds = sorted({loop.waiting_kind or loop.standing.client_waits or "held" for loop in still})
    begin = f"{_names(still)} have stood still for {(now - _since(still)) / 60:.0f} minutes: "
    known = [kind for kind in kinds if kind in _KINDS]
    body, told = (f"{begin}{', '.join(words)}." for words in (kinds, known or ["`ralphd status` says why"]))
    yield Need(key="stuck", title="no loop works", body=body, told=told, since=_since(still))


def _since(loops: list[LoopState]) -> float:
    """Return when the newest of them came to a stand: until then one need was not the whole of it."""
    return max((loop.standing.since or 0.0 for loop in loops), default=0.0)


def _names(loops: list[LoopState]) -> str:
    named = ", ".join(loop.loop.id for loop in loops[:LOOPS_NAMED])
    return f"{named} and {len(loops) - LOOPS_NAMED} more" if len(loops) > LOOPS_NAMED else named
