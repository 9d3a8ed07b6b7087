"""What a night's entries add up to, before anybody words it: one pass, one small function an entry type."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from ralphd.core import actions, clocks, events, records
from ralphd.core.losses import Loss, loss_in
from ralphd.core.model import Loop, Task, Verdict
from ralphd.core.outcomes import Kind, Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Key = tuple[int, int]  # generation, trajectory

EVIDENCE_A_KIND = 5  # enough to see whether it is always the same; the journal has the rest
EVIDENCE_AN_OUTCOME = 2


@dataclass(kw_only=True)
class LoopFacts:
    """One loop. ``ends`` holds the kind each trajectory ended with, claims settled; ``usage`` the newest told."""

    id: str
    loop: Loop | None = None
    generation: int = 0
    began: set[Key] = field(default_factory=set)
    ends: dict[Key, Kind] = field(default_factory=dict)
    usage: dict[Key, records.Usage] = field(default_factory=dict)
    logs: dict[Key, str] = field(default_factory=dict)
    moved_to: dict[str, None] = field(default_factory=dict)  # commits, in order
    spans: dict[Key, tuple[float, float | None]] = field(default_factory=dict)  # when each trajectory began and ended
    outcomes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class JudgedFact:
    """A verdict with the trajectory that made its commit and the night's width at that time.

    ``at``: by the clock as it went at the night's start, so that no clock that was set puts one before an earlier one.
    ``sound``: it may count as evidence. What isn't sound is no submission either, whatever was thought at the time.
    """

    at: float
    verdict: Verdict
    submission: bool
    key: Key
    width: int | None
    sound: bool = True


@dataclass(frozen=True, kw_only=True)
class TraceFact:
    """Where a person can see a failure: a file and a byte range (``end`` exclusive), or a plain fact in ``what``."""

    kind: str
    loop: str
    trajectory: int
    what: str
    file: str = ""
    start: int = 0
    end: int = 0


@dataclass(kw_only=True)
class ActionFact:
    """Something that was decided. ``result`` is None while nothing is recorded about it."""

    at: float
    loop: str
    action: str
    by: str
    why: str
    result: str | None = None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class AdviceFact:
    """A consultation of the supervisor's model. ``key``: the trajectory that the loop was in."""

    at: float
    loop: str
    key: Key
    body: events.Consulted


@dataclass(kw_only=True)
class Facts:
    """Everything the report is made of. Times are epoch seconds."""

    night: str = ""
    started_at: float | None = None
    ends_at: float | None = None
    ended_at: float | None = None
    last_at: float | None = None
    jumped_s: float = 0.0  # by how much the wall's clock was set since the start
    why_ended: str | None = None
    width: int | None = None
    version: str | None = None
    tasks: dict[str, Task] = field(default_factory=dict)
    loops: dict[str, LoopFacts] = field(default_factory=dict)
    verdicts: list[JudgedFact] = field(default_factory=list)
    elsewhere: Counter[str] = field(default_factory=Counter)  # outcomes of no loop
    troubles: list[tuple[float, str]] = field(default_factory=list)  # when what went wrong
    claims: dict[int, tuple[str, Key]] = field(default_factory=dict)  # by id of the TrajectoryEnded entry
    actions: list[ActionFact] = field(default_factory=list)
    intents: dict[int, ActionFact] = field(default_factory=dict)
    traces: dict[str, list[TraceFact]] = field(default_factory=dict)
    own_retries: Counter[str] = field(default_factory=Counter)  # of CLIs by themselves, by what they met
    own_waits_s: float = 0.0
    supervisor: str = ""  # the model that may be asked
    budget_usd: float | None = None
    advice: list[AdviceFact] = field(default_factory=list)
    unreached: list[float] = field(default_factory=list)  # when its endpoint was found down
    losses: list[Loss] = field(default_factory=list)  # what a damaged journal could not give back

    def of(self, loop: str) -> LoopFacts:
        found = self.loops.get(loop)
        if found is None:
            found = self.loops[loop] = LoopFacts(id=loop)
        return found


def gather(entries: Iterable[events.Entry]) -> Facts:
    """Fold the entries of one night, given in order of id."""
    facts = Facts()
    for entry in entries:
        facts.night = facts.night or entry.night
        facts.last_at = entry.at if facts.last_at is None else max(facts.last_at, entry.at)
        outcome = events.outcome_of(entry.body)
        if outcome is not None:
            _count(facts, entry, outcome)
            _jump(facts, entry.at, outcome)
        step = _STEPS.get(type(entry.body))
        if step is not None:
            step(facts, entry)
    facts.verdicts = _weighed(facts.verdicts)
    return facts


def _jump(facts: Facts, at: float, outcome: Outcome) -> None:
    """Leave the night as long as it was: a clock that is set makes it neither longer nor shorter."""
    if outcome.kind is Kind.CLOCK_JUMP:
        facts.jumped_s += clocks.seconds_of(outcome)
        facts.last_at = at  # what was recorded before the jump is of another time


def _weighed(verdicts: list[JudgedFact]) -> list[JudgedFact]:
    """Mark what is sound: a tree once found flaky or tampered with never is, not even in its earlier verdicts."""
    doubtful = {(j.verdict.task, j.verdict.tree) for j in verdicts if j.verdict.kind in {Kind.FLAKY, Kind.TAMPERED}}
    return [_weigh(j, (j.verdict.task, j.verdict.tree) in doubtful) for j in verdicts]


def _weigh(judged: JudgedFact, doubtful: bool) -> JudgedFact:
    sound = not judged.verdict.unverified and not doubtful
    return replace(judged, sound=sound, submission=judged.submission and sound and bool(judged.verdict.loop))


def _key(entry: events.Entry) -> Key:
    return (entry.generation, entry.trajectory)


def _count(facts: Facts, entry: events.Entry, outcome: Outcome) -> None:
    counter = facts.of(entry.loop).outcomes if entry.loop else facts.elsewhere
    counter[outcome.kind.value] += 1
    _trace(facts, entry, outcome)


def _trace(facts: Facts, entry: events.Entry, outcome: Outcome) -> None:
    """Keep the first few places to look of each kind of failure."""
    kind = outcome.kind.value
    if outcome.kind.family == "done" and outcome.kind is not Kind.COMPACTION_LIMIT:
        return
    facts.troubles.append((entry.at - facts.jumped_s, kind))
    traces = facts.traces.setdefault(kind, [])
    if len(traces) >= EVIDENCE_A_KIND:
        return
    at = (kind, entry.loop, entry.trajectory)
    found = [_seen(at, seen.what, seen.file, seen.start, seen.end) for seen in outcome.evidence[:EVIDENCE_AN_OUTCOME]]
    log = getattr(entry.body, "log", "") or (facts.of(entry.loop).logs.get(_key(entry), "") if entry.loop else "")
    traces.extend(found or [_seen(at, _plain(outcome.detail), log)])
    del traces[EVIDENCE_A_KIND:]


def _seen(at: tuple[str, str, int], what: str, file: str = "", start: int = 0, end: int = 0) -> TraceFact:
    return TraceFact(kind=at[0], loop=at[1], trajectory=at[2], what=what, file=file, start=start, end=end)


def _plain(detail: dict[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in detail.items() if isinstance(value, (str, int, float)))[:300]


def _night_started(facts: Facts, entry: events.Entry) -> None:
    body = entry.body
    assert isinstance(body, events.NightStarted)
    if facts.started_at is None:
        facts.started_at = entry.at
    facts.width, facts.ends_at, facts.version = body.width, body.ends_at, body.version
    facts.ended_at = facts.why_ended = None  # a night that is taken up again has not ended
    facts.supervisor = str(body.config.get("supervisor") or "")
    budget = body.config.get("budget_usd")
    facts.budget_usd = float(budget) if isinstance(budget, (int, float)) else None


def _night_ended(facts: Facts, entry: events.Entry) -> None:
    body = entry.body
    assert isinstance(body, events.NightEnded)
    facts.ended_at, facts.why_ended = entry.at, body.why


def _task_added(facts: Facts, entry: events.Entry) -> None:
    assert isinstance(entry.body, events.TaskAdded)
    facts.tasks[entry.body.task.name] = entry.body.task


def _loop_added(facts: Facts, entry: events.Entry) -> None:
    assert isinstance(entry.body, events.LoopAdded)
    facts.of(entry.body.loop.id).loop = entry.body.loop


def _began(facts: Facts, entry: events.Entry) -> None:
    assert isinstance(entry.body, records.TrajectoryStarted)
    loop = facts.of(entry.loop)
    loop.began.add(_key(entry))
    loop.logs[_key(entry)] = entry.body.log
    loop.spans[_key(entry)] = (entry.at - facts.jumped_s, None)
    loop.generation = max(loop.generation, entry.generation)


def _progressed(facts: Facts, entry: events.Entry) -> None:
    assert isinstance(entry.body, records.Progressed)
    facts.of(entry.loop).usage[_key(entry)] = entry.body.usage


def _ended(facts: Facts, entry: events.Entry) -> None:
    body = entry.body
    assert isinstance(body, records.TrajectoryEnded)
    loop, key = facts.of(entry.loop), _key(entry)
    loop.began.add(key)
    loop.generation = max(loop.generation, entry.generation)
    loop.ends[key] = body.outcome.kind
    _own_retries(facts, body.outcome.detail.get("own_retries"))
    ended_at = entry.at - facts.jumped_s
    loop.spans[key] = (loop.spans.get(key, (ended_at - body.seconds, None))[0], ended_at)
    loop.usage[key] = _newest(loop.usage.get(key), body.usage)
    if body.head_after and body.head_after != body.head_before:
        loop.moved_to[body.head_after] = None
    facts.claims[entry.id] = (entry.loop, key)


def _own_retries(facts: Facts, told: object) -> None:
    for name, count in told.items() if isinstance(told, dict) else ():
        if isinstance(count, (int, float)) and name == "waited_s":
            facts.own_waits_s += count
        elif isinstance(count, int):
            facts.own_retries[name] += count


def _newest(before: records.Usage | None, now: records.Usage) -> records.Usage:
    """Keep what was told while it ran when the end tells nothing (a killed CLI)."""
    return before if before is not None and now == records.Usage() else now


def _consulted(facts: Facts, entry: events.Entry) -> None:
    assert isinstance(entry.body, events.Consulted)
    facts.advice.append(AdviceFact(at=entry.at, loop=entry.loop, key=_key(entry), body=entry.body))


def _noted(facts: Facts, entry: events.Entry) -> None:
    assert isinstance(entry.body, events.OutcomeNoted)
    if entry.body.outcome.kind is Kind.SUPERVISOR_UNAVAILABLE:
        facts.unreached.append(entry.at)
    loss = loss_in(entry.body.outcome)
    if loss is not None:
        facts.losses.append(loss)


def _judged(facts: Facts, entry: events.Entry) -> None:
    body = entry.body
    assert isinstance(body, events.VerdictGiven)
    if body.verdict.cut_off:  # earlier versions recorded what nobody had judged
        return
    facts.verdicts.append(
        JudgedFact(
            at=entry.at - facts.jumped_s,
            verdict=body.verdict,
            submission=body.submission,
            key=_key(entry),
            width=facts.width,
        ),
    )


def _settled_claim(facts: Facts, entry: events.Entry) -> None:
    body = entry.body
    assert isinstance(body, events.ClaimSettled)
    if body.entry not in facts.claims:
        return
    loop_id, key = facts.claims[body.entry]
    loop = facts.of(loop_id)
    loop.outcomes[loop.ends[key].value] -= 1
    loop.outcomes[body.outcome.kind.value] += 1
    loop.ends[key] = body.outcome.kind
    _trace(facts, entry, body.outcome)


def _intended(facts: Facts, entry: events.Entry) -> None:
    body = entry.body
    assert isinstance(body, events.ActionIntended)
    loop = entry.loop or body.args.get("loop")
    action = ActionFact(
        at=entry.at, loop=loop if isinstance(loop, str) else "", action=body.type, by=body.by, why=body.why,
    )  # fmt: skip
    facts.actions.append(action)
    facts.intents[entry.id] = action
    width = body.args.get("width")
    if body.type == actions.Scale.__name__ and isinstance(width, int):
        facts.width = width


def _settled(facts: Facts, entry: events.Entry) -> None:
    body = entry.body
    assert isinstance(body, events.ActionSettled)
    action = facts.intents.get(body.intent)
    if action is not None:
        action.result, action.detail = body.result, body.detail


def _repaired(facts: Facts, entry: events.Entry) -> None:
    body = entry.body
    assert isinstance(body, records.Repaired)
    facts.actions.append(
        ActionFact(
            at=entry.at, loop=entry.loop, action="Repair", by="runner", why=body.what, result="done", detail=body.ref,
        ),
    )  # fmt: skip


_STEPS: dict[type, Callable[[Facts, events.Entry], None]] = {
    events.NightStarted: _night_started,
    events.NightEnded: _night_ended,
    events.TaskAdded: _task_added,
    events.LoopAdded: _loop_added,
    events.VerdictGiven: _judged,
    events.ClaimSettled: _settled_claim,
    events.OutcomeNoted: _noted,
    events.Consulted: _consulted,
    events.ActionIntended: _intended,
    events.ActionSettled: _settled,
    records.TrajectoryStarted: _began,
    records.TrajectoryEnded: _ended,
    records.Progressed: _progressed,
    records.Repaired: _repaired,
}
