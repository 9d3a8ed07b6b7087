"""What did the night come to? A fold of its entries into the one value that every report renders, and its JSON."""

from __future__ import annotations

import re
import time
from collections import Counter
from functools import cache

from ralphd.core import codec, hindsight, report_advice, report_unknown, timeline
from ralphd.core.model import Verdict, Verifier
from ralphd.core.outcomes import HEALTHY, Kind
from ralphd.core.progress import UNKNOWN, Rate, gain_rate
from ralphd.core.report_facts import ActionFact, Facts, JudgedFact, LoopFacts, gather
from ralphd.core.report_parts import (
    ActionPart,
    Best,
    Fewer,
    LoopPart,
    NightPart,
    OwnRetries,
    Point,
    Report,
    TaskPart,
    Totals,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ralphd.core.events import Entry
    from ralphd.core.records import Usage
    from ralphd.core.taken import Taken

    Price = Callable[[Usage], float | None]

__all__ = ["Report", "iso", "report", "to_json"]

SCHEMA = "ralphd.report/1"
YEAR_10000 = 253402300800.0  # epoch seconds; ISO 8601 has four digits
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def no_price(usage: Usage) -> float | None:  # noqa: ARG001 -- the contract of a price list
    return None


def report(
    entries: Iterable[Entry],
    now: float,
    unreadable: Callable[[], int] = int,
    taken: tuple[Taken, ...] = (),
    price: Price = no_price,
) -> Report:
    """Fold one night's entries, in order of id, and put what people have ``taken`` beside them.

    ``unreadable`` is asked after the last entry how many the reader had to leave out. ``price`` gives the dollars of
    usage whose CLI tells no cost, or None.
    """
    facts, price = gather(entries), cache(price)
    judged: dict[str, list[JudgedFact]] = {}
    for one in facts.verdicts:
        judged.setdefault(one.verdict.loop, []).append(one)
    loops = tuple(_loop(facts, loop, judged.get(loop.id, []), price) for loop in facts.loops.values())
    return Report(
        night=_night(facts, now),
        tasks=tuple(_task(facts, name) for name in _task_names(facts)),
        loops=loops,
        outcomes=_outcomes(facts),
        actions=tuple(map(_action, facts.actions)),
        throughput=_throughput(facts),
        totals=_totals(facts, loops),
        evidence=tuple(trace for kind in sorted(facts.traces) for trace in facts.traces[kind]),
        own_retries=OwnRetries(counts=_counts(facts.own_retries), waited_s=round(facts.own_waits_s, 3)),
        unknown=report_unknown.unknown(facts, unreadable(), price),
        advice=report_advice.advice(facts),
        taken=taken,
        strips=timeline.strips(facts),
        troubles=timeline.troubles(facts, facts.started_at, facts.last_at),
        fewer=tuple(fewer for name in _task_names(facts) for fewer in _fewer(facts, name, loops)),
    )


def to_json(value: Report) -> dict[str, object]:
    """Return the report as JSON-ready data: times as ISO 8601 in UTC, the unknown as null."""
    data = codec.dump(value)
    assert isinstance(data, dict)
    return {"schema": SCHEMA, **{key: _with_times(item) for key, item in data.items()}}


def iso(at: float) -> str | None:
    """Return epoch seconds as ISO 8601 in UTC; None for what no calendar has."""
    if not 0 <= at < YEAR_10000:
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _with_times(data: object) -> object:
    if isinstance(data, dict):
        return {key: _time(key, item) for key, item in data.items()}
    return [_with_times(item) for item in data] if isinstance(data, list) else data


def _time(key: str, item: object) -> object:
    is_time = isinstance(item, (int, float)) and (key == "at" or key.endswith("_at"))
    return iso(float(item)) if is_time and isinstance(item, (int, float)) else _with_times(item)


def _night(facts: Facts, now: float) -> NightPart:
    return NightPart(
        id=facts.night,
        state="running" if facts.ended_at is None else "ended",
        started_at=facts.started_at,
        ends_at=facts.ends_at,
        ended_at=facts.ended_at,
        last_at=facts.last_at,
        reported_at=now,
        width=facts.width,
        why_ended=facts.why_ended,
        version=facts.version,
        budget_usd=facts.budget_usd,
    )


def _task_names(facts: Facts) -> list[str]:
    told = [judged.verdict.task for judged in facts.verdicts]
    of_loops = [loop.loop.task for loop in facts.loops.values() if loop.loop is not None]
    return list(dict.fromkeys([*facts.tasks, *of_loops, *told]))


def _verifier(facts: Facts, task: str) -> Verifier:
    return facts.tasks[task].verifier if task in facts.tasks else Verifier(command="?")


def _best(verdicts: Iterable[Verdict], verifier: Verifier) -> Verdict | None:
    """Return the first of the best: by score; without any score, the first that passed."""
    best: Verdict | None = None
    for verdict in verdicts:
        if verdict.score is None:
            better = best is None and verdict.passed
        else:
            better = best is None or verifier.better(verdict.score, best.score)
        if better:
            best = verdict
    return best


def _task(facts: Facts, name: str) -> TaskPart:
    task, verifier = facts.tasks.get(name), _verifier(facts, name)
    base = _base(facts, name)
    judged = [j for j in facts.verdicts if j.verdict.task == name and j.verdict.loop]
    best = _best((j.verdict for j in judged if j.sound), verifier)
    improved = _improved(verifier, base, best)
    return TaskPart(
        name=name,
        direction=verifier.direction,
        goal=verifier.goal,
        goal_reached=best is not None and verifier.reached(best.score),
        verified=bool(verifier.command),
        base=task.base if task else "",
        base_score=base.score if base else None,
        base_counts=base.counts if base else None,
        best=_best_part(best),
        improved=improved,
        improved_by=_gain(base, best) if improved else None,
        submissions=sum(j.submission for j in judged),
        verdicts=len(judged),
        flaky=_how_many(facts, name, Kind.FLAKY),
        tampered=_how_many(facts, name, Kind.TAMPERED),
        repository=task.repository if task else "",
        ref=f"refs/ralphd/{facts.night}/{best.loop}" if best else None,
        take=_take(facts.night, best),
    )


def _base(facts: Facts, task: str) -> Verdict | None:
    """Return the last verdict on the start that gave a score."""
    found = [j.verdict for j in facts.verdicts if j.sound and j.verdict.task == task and not j.verdict.loop]
    return next((verdict for verdict in reversed(found) if verdict.score is not None), found[-1] if found else None)


def _best_part(best: Verdict | None) -> Best | None:
    if best is None:
        return None
    return Best(score=best.score, loop=best.loop, commit=best.commit, passed=best.passed, counts=best.counts)


def _improved(verifier: Verifier, base: Verdict | None, best: Verdict | None) -> bool | None:
    if not verifier.command:
        return None
    if best is None:
        return False
    if base is None or (base.score is None) != (best.score is None):
        return None
    if best.score is None:
        return best.passed and not base.passed
    return verifier.better(best.score, base.score)


def _gain(base: Verdict | None, best: Verdict | None) -> float | None:
    if base is None or best is None or base.score is None or best.score is None:
        return None
    return abs(best.score - base.score)


def _how_many(facts: Facts, task: str, kind: Kind) -> int:
    return len({j.verdict.tree for j in facts.verdicts if j.verdict.task == task and j.verdict.kind is kind})


def _take(night: str, best: Verdict | None) -> tuple[str, ...]:
    if best is None or not _COMMIT.fullmatch(best.commit):
        return ()
    return (f"git merge --ff-only {best.commit}", f"git switch -c take-{night}-{best.loop} {best.commit}")


def _loop(facts: Facts, loop: LoopFacts, judged: list[JudgedFact], price: Price) -> LoopPart:
    task = loop.loop.task if loop.loop else ""
    best = _best((j.verdict for j in judged if j.sound), _verifier(facts, task))
    usage = list(loop.usage.values())
    priced = [price(u) if u.cost_usd is None else None for u in usage]
    return LoopPart(
        id=loop.id,
        task=task,
        pod=loop.loop.pod if loop.loop else "",
        generation=loop.generation,
        trajectories=len(loop.began),
        healthy=sum(kind in HEALTHY for kind in loop.ends.values()),
        submissions=sum(j.submission for j in judged),
        verdicts=len(judged),
        best_score=best.score if best else None,
        gain_per_h=_loop_gain_per_h(facts, task, best),
        best_commit=best.commit if best else None,
        head=next(reversed(loop.moved_to), None),
        commits=len({*loop.moved_to, *(j.verdict.commit for j in judged)}),
        tokens_in=_sum(u.tokens_in for u in usage),
        tokens_out=_sum(u.tokens_out for u in usage),
        cost_usd=_sum_usd([*(u.cost_usd for u in usage), *priced]),
        cost_estimated=any(priced),
        outcomes=_counts(loop.outcomes),
    )


def _loop_gain_per_h(facts: Facts, task: str, best: Verdict | None) -> float | None:
    base, hours = _base(facts, task), _hours(facts)
    gain = _gain(base, best)
    if gain is None or not hours:
        return None
    return round(gain / hours, 4) if _improved(_verifier(facts, task), base, best) else 0.0


def _sum(told: Iterable[int | None]) -> int | None:
    known = [figure for figure in told if figure is not None]
    return sum(known) if known else None


def _sum_usd(told: Iterable[float | None]) -> float | None:
    known = [figure for figure in told if figure is not None]
    return round(sum(known), 6) if known else None


def _counts(counter: Counter[str]) -> dict[str, int]:
    return {kind: count for kind, count in sorted(counter.items()) if count > 0}


def _outcomes(facts: Facts) -> dict[str, int]:
    total = Counter(facts.elsewhere)
    for loop in facts.loops.values():
        total.update(loop.outcomes)
    return _counts(total)


def _action(fact: ActionFact) -> ActionPart:
    return ActionPart(
        at=fact.at,
        loop=fact.loop,
        action=fact.action,
        by=fact.by,
        why=fact.why,
        result=fact.result,
        detail=fact.detail,
    )


def _throughput(facts: Facts) -> tuple[Point, ...]:
    """Return a point at every verdict that changed something; the best includes the start's own score."""
    best: dict[str, float | None] = {}
    submissions: Counter[str] = Counter()
    points: list[Point] = []
    for judged in facts.verdicts:
        task, score = judged.verdict.task, judged.verdict.score
        before = (best.get(task), submissions[task])
        if judged.sound and score is not None and _verifier(facts, task).better(score, best.get(task)):
            best[task] = score
        submissions[task] += judged.submission
        if (best.get(task), submissions[task]) != before:
            points.append(_point(judged, best.get(task), submissions[task]))
    return tuple(points)


def _fewer(facts: Facts, task: str, loops: tuple[LoopPart, ...]) -> Iterator[Fewer]:
    """Tell what half the loops would have given, and one less than all."""
    scores = [loop.best_score for loop in loops if loop.task == task and loop.best_score is not None]
    if len(scores) < hindsight.LEAST:
        return
    lower = _verifier(facts, task).direction == "min"
    for k in sorted({len(scores) // 2, len(scores) - 1}):
        mean = hindsight.expected_best(scores, k, lower_is_better=lower)
        yield Fewer(task=task, loops=k, of=len(scores), best_score=mean)


def _point(judged: JudgedFact, best: float | None, submissions: int) -> Point:
    return Point(
        at=judged.at, task=judged.verdict.task, best_score=best, submissions=submissions, width=judged.width,
    )  # fmt: skip


def _totals(facts: Facts, loops: tuple[LoopPart, ...]) -> Totals:
    submitted = {(j.verdict.loop, j.key) for j in facts.verdicts if j.submission}
    good = sum(
        kind in HEALTHY and (loop.id, key) in submitted
        for loop in facts.loops.values()
        for key, kind in loop.ends.items()
    )
    hours = _hours(facts)
    gain, rate = _fleet_gain(facts, hours)
    return Totals(
        healthy_with_submission=good,
        hours=None if hours is None else round(hours, 4),
        healthy_with_submission_per_h=round(good / hours, 4) if hours else None,
        gain=gain,
        gain_per_h=_rounded(rate.per_h),
        gain_low_per_h=_rounded(rate.low),
        gain_high_per_h=_rounded(rate.high),
        trajectories=sum(loop.trajectories for loop in loops),
        healthy=sum(loop.healthy for loop in loops),
        submissions=sum(loop.submissions for loop in loops),
        tokens_in=_sum(loop.tokens_in for loop in loops),
        tokens_out=_sum(loop.tokens_out for loop in loops),
        cost_usd=_sum_usd(loop.cost_usd for loop in loops),
        cost_estimated=any(loop.cost_estimated for loop in loops),
    )


def _fleet_gain(facts: Facts, hours: float | None) -> tuple[float | None, Rate]:
    """Return the verified gain of all tasks whose start has a score, and its rate."""
    steps: list[float] = []
    known = False
    for name in facts.tasks:
        base = _base(facts, name)
        if base is not None and base.score is not None:
            known = True
            steps += _steps(facts, name, base.score)
    if not known:
        return None, UNKNOWN
    doubted = sum(_how_many(facts, name, Kind.FLAKY) for name in facts.tasks)
    doubt = doubted / len(facts.verdicts) if facts.verdicts else 0.0
    return round(sum(steps), 6), gain_rate(sum(steps), steps, hours or 0.0, doubt)


def _steps(facts: Facts, task: str, best: float) -> list[float]:
    """Return by how much each verdict beat the best that there was of its task."""
    steps = []
    for judged in facts.verdicts:
        score = judged.verdict.score
        counts = judged.sound and judged.verdict.loop and judged.verdict.task == task and score is not None
        if counts and score is not None and _verifier(facts, task).better(score, best):
            steps.append(abs(score - best))
            best = score
    return steps


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 4)


def _hours(facts: Facts) -> float | None:
    end = facts.last_at if facts.ended_at is None else facts.ended_at
    if facts.started_at is None or end is None:
        return None
    return max(0.0, end - facts.started_at - facts.jumped_s) / 3600
