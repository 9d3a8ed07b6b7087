"""The report as a value: what a night came to, part by part. Field names are those of ``ralphd.report/1``."""

from __future__ import annotations

from dataclasses import dataclass, field

from ralphd.core.report_facts import TraceFact
from ralphd.core.report_unknown import Unknown
from ralphd.core.taken import Taken


@dataclass(frozen=True, kw_only=True)
class NightPart:
    """The frame. Times are epoch seconds. ``state``: ended, or running while no end is recorded."""

    id: str
    state: str
    started_at: float | None
    ends_at: float | None
    ended_at: float | None
    last_at: float | None
    reported_at: float
    width: int | None
    why_ended: str | None
    version: str | None
    budget_usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best verified commit. ``counts`` is JUnit's, if the score came from there."""

    score: float | None
    loop: str
    commit: str
    passed: bool
    counts: dict[str, int] | None


@dataclass(frozen=True, kw_only=True)
class TaskPart:
    """A question and what is verifiably better about it.

    ``improved`` is None when nobody can know (no verifier, or the start has no score); ``improved_by`` is positive in
    either direction. ``verdicts`` counts those of candidates, not of the base. ``take``: commands for ``repository``.
    """

    name: str
    direction: str
    goal: float | None
    goal_reached: bool
    verified: bool
    base: str
    base_score: float | None
    base_counts: dict[str, int] | None
    best: Best | None
    improved: bool | None
    improved_by: float | None
    submissions: int
    verdicts: int
    flaky: int
    tampered: int
    repository: str
    ref: str | None
    take: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LoopPart:
    """One loop. ``commits``: different tips its sessions left behind or that were judged; not every commit between.

    Tokens are sums over the trajectories whose CLI tells them; None when none did. So is the cost, with what a price
    list makes of the tokens of the others; ``cost_estimated``: that is some of it.
    """

    id: str
    task: str
    pod: str
    generation: int
    trajectories: int
    healthy: int
    submissions: int
    verdicts: int
    best_score: float | None
    gain_per_h: float | None
    best_commit: str | None
    head: str | None
    commits: int
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    cost_estimated: bool
    outcomes: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class ActionPart:
    """What was decided or repaired, by whom, why, and what came of it (``result`` None: nothing is recorded)."""

    at: float
    loop: str
    action: str
    by: str
    why: str
    result: str | None
    detail: str


@dataclass(frozen=True, kw_only=True)
class Point:
    """A moment at which a task's best score or its number of submissions changed."""

    at: float
    task: str
    best_score: float | None
    submissions: int
    width: int | None


@dataclass(frozen=True, kw_only=True)
class Span:
    """Sessions of a loop one after the other that ended alike. ``kind`` None: it has no recorded end."""

    at: float
    until_at: float | None
    kind: str | None
    sessions: int


@dataclass(frozen=True, kw_only=True)
class Strip:
    """What a loop did all night."""

    loop: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """How often something went wrong between two moments, and which kind most often."""

    at: float
    until_at: float
    count: int
    kind: str


@dataclass(frozen=True, kw_only=True)
class Fewer:
    """What the night would have given with fewer loops: the mean over all choices of that many."""

    task: str
    loops: int
    of: int
    best_score: float


@dataclass(frozen=True, kw_only=True)
class Totals:
    """The night in figures. ``hours`` until its end, or until the last thing that was recorded.

    ``gain``: by how much the best of each task beats its start, summed; its rate lies between ``gain_low_per_h`` and
    ``gain_high_per_h`` 19 times of 20. None: nobody can know.
    """

    healthy_with_submission: int
    hours: float | None
    healthy_with_submission_per_h: float | None
    gain: float | None
    gain_per_h: float | None
    gain_low_per_h: float | None
    gain_high_per_h: float | None
    trajectories: int
    healthy: int
    submissions: int
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    cost_estimated: bool


@dataclass(frozen=True, kw_only=True)
class OwnRetries:
    """How often CLIs asked inference again by themselves, by what they met, and for how long they waited."""

    counts: dict[str, int]
    waited_s: float


@dataclass(frozen=True, kw_only=True)
class Share:
    """Loops taken together: their sessions that ended, and the submissions among those."""

    loops: int
    sessions: int
    submissions: int
    submissions_per_session: float | None


@dataclass(frozen=True, kw_only=True)
class AdvicePart:
    """What the supervisor's model did. ``refused``: answers that weren't taken, by outcome.

    ``unreached``: how often its endpoint was found down. ``before`` and ``after``: the loops whose advice was taken, up
    to the first time and from then on; ``others``: the rest.
    """

    model: str
    asked: int
    taken: int
    choices: dict[str, int]
    refused: dict[str, int]
    unreached: int
    tokens_in: int | None
    tokens_out: int | None
    before: Share
    after: Share
    others: Share


@dataclass(frozen=True, kw_only=True)
class Report:
    """A night, told. Field names are the JSON's."""

    night: NightPart
    tasks: tuple[TaskPart, ...]
    loops: tuple[LoopPart, ...]
    outcomes: dict[str, int]
    actions: tuple[ActionPart, ...]
    throughput: tuple[Point, ...]
    totals: Totals
    evidence: tuple[TraceFact, ...]
    unknown: tuple[Unknown, ...]
    taken: tuple[Taken, ...] = ()
    own_retries: OwnRetries = field(default_factory=lambda: OwnRetries(counts={}, waited_s=0.0))
    advice: AdvicePart | None = None
    strips: tuple[Strip, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    fewer: tuple[Fewer, ...] = ()
