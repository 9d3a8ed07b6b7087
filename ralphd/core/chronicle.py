"""What happened to each loop lately, a line an entry: what a model is shown, and may name as evidence."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ralphd.core import events, records
from ralphd.core.advice import ROWS_MOST, Row
from ralphd.core.events import Entry
from ralphd.core.outcomes import Outcome

FOREIGN_CHARS = 160  # of somebody's words in a line
ROUTINE = frozenset({"Verify", "SpawnRunner"})
CONSULTED_KEPT = 32  # of one loop: more than a night's rate lets it ask in ten hours


@dataclass(frozen=True, kw_only=True)
class Past:
    """A consultation about a loop that is over. ``gains``: how many submissions the loop had by then."""

    at: float
    generation: int
    choice: str
    taken: bool
    gains: int


@dataclass(kw_only=True)
class Chronicle:
    """Grows entry by entry, in bounded memory. ``calls`` counts the night's requests to a model."""

    lines: dict[str, deque[Row]] = field(default_factory=dict)
    consulted: dict[str, deque[Past]] = field(default_factory=dict)
    gains: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    newest: str = ""  # hash of the newest request: what was asked together is recorded together

    def hear(self, entry: Entry) -> None:
        if not entry.loop:
            return
        if isinstance(entry.body, events.Consulted):
            self._consulted(entry, entry.body)
        if isinstance(entry.body, events.VerdictGiven):
            self.gains[entry.loop] = self.gains.get(entry.loop, 0) + entry.body.submission
        if text := line(entry):
            rows = self.lines.setdefault(entry.loop, deque(maxlen=ROWS_MOST))
            rows.append(Row(id=entry.id, text=text))

    def rows(self, loop: str) -> tuple[Row, ...]:
        return tuple(self.lines.get(loop, ()))

    def past(self, loop: str) -> tuple[Past, ...]:
        return tuple(self.consulted.get(loop, ()))

    def _consulted(self, entry: Entry, body: events.Consulted) -> None:
        self.calls += body.shared == 1 or body.prompt_sha256 != self.newest
        self.newest = body.prompt_sha256
        past = Past(
            at=entry.at,
            generation=entry.generation,
            choice=body.choice,
            taken=body.taken,
            gains=self.gains.get(entry.loop, 0),
        )
        self.consulted.setdefault(entry.loop, deque(maxlen=CONSULTED_KEPT)).append(past)


def line(entry: Entry) -> str:
    """Tell an entry in a line; nothing for what says nothing about progress."""
    step = LINES.get(type(entry.body))
    return step(entry, entry.body) if step is not None else ""


def _ended(entry: Entry, body: records.TrajectoryEnded) -> str:
    moved = f"new commit {body.head_after[:12]}" if body.head_after != body.head_before else "no new commit"
    claim = ", claimed to be done" if body.claims_done else ""
    told = f"{body.outcome.kind.value} after {body.seconds:.0f} s, {body.calls} tool calls, {moved}{claim}"
    return f"session {entry.trajectory} ended: {told}{_words(body.outcome)}"


def _judged(_entry: Entry, body: events.VerdictGiven) -> str:
    verdict = body.verdict
    score = "no score" if verdict.score is None else f"score {verdict.score:g}"
    kind = f", {verdict.kind.value}" if verdict.kind is not None else ""
    gain = ", a gain" if body.submission else ""
    passed = "passed" if verdict.passed else "not passed"
    return f"verdict on {verdict.commit[:12]}: {score}, {passed}{kind}{gain}: {verdict.why[:FOREIGN_CHARS]}"


def _intended(_entry: Entry, body: events.ActionIntended) -> str:
    if body.type in ROUTINE:
        return ""
    return f"done about this loop: {body.type} by {body.by}: {body.why[:FOREIGN_CHARS]}"


def _consulted(_entry: Entry, body: events.Consulted) -> str:
    came = "taken" if body.taken else f"not taken, {body.refused}"
    return f"advice given before: {body.choice or 'none that counts'}, {came}"


def _repaired(_entry: Entry, body: records.Repaired) -> str:
    return f"repaired: {body.what[:FOREIGN_CHARS]}"


def _typed(entry: Entry, body: Any) -> str:
    return f"session {entry.trajectory}: {body.outcome.kind.value}{_words(body.outcome)}"


def _words(outcome: Outcome) -> str:
    return f" ({outcome.evidence[0].what[:FOREIGN_CHARS]})" if outcome.evidence else ""


LINES: dict[type, Callable[[Entry, Any], str]] = {
    records.TrajectoryEnded: _ended,
    records.AttemptEnded: _typed,
    records.ToolEnded: _typed,
    records.Repaired: _repaired,
    events.VerdictGiven: _judged,
    events.ClaimSettled: _typed,
    events.OutcomeNoted: _typed,
    events.ActionIntended: _intended,
    events.Consulted: _consulted,
}
