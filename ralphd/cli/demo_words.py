"""What happens in a night, as short lines for somebody who waits in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ralphd.core import events, records
from ralphd.core.events import Entry
from ralphd.core.model import Verdict
from ralphd.core.outcomes import HEALTHY, Kind, Outcome

QUIET_KINDS = frozenset({*HEALTHY, Kind.NOOP, Kind.STOPPED})


@dataclass(kw_only=True)
class Teller:
    """Turns entries into lines and remembers how things stand. Lower scores are better."""

    start: float | None = None
    best: float | None = None
    sessions: int = 0

    def tell(self, entry: Entry) -> Iterator[str]:
        match entry.body:
            case events.VerdictGiven(verdict=verdict):
                yield from self._verdict(entry, verdict)
            case events.ClaimSettled(outcome=outcome):
                agrees = "agrees" if outcome.kind is Kind.FINISHED else "says it is not so"
                yield f"{entry.loop} said that it is done; the verifier {agrees}"
            case records.TrajectoryEnded(outcome=outcome):
                self.sessions += 1
                if outcome.kind not in QUIET_KINDS:
                    yield f"{entry.loop} session {entry.trajectory} ended: {_words(outcome)}"
            case records.AttemptEnded(outcome=outcome, wait_s=wait_s):
                yield f"{entry.loop}: {_words(outcome)}; asks again in {wait_s:.1f} s"
            case records.ToolEnded(outcome=outcome) | records.Repaired(outcome=outcome):
                yield f"{entry.loop}: {_words(outcome)}"
            case events.OutcomeNoted(outcome=outcome) if entry.loop:
                yield f"{entry.loop}: {_words(outcome)}"
            case events.NightEnded(why=why):
                yield f"the night has ended ({why})"
            case _:
                return

    def _verdict(self, entry: Entry, verdict: Verdict) -> Iterator[str]:
        if verdict.score is None or verdict.kind is not None:
            return  # the outcome beside it says why
        if not verdict.loop:
            self.start = verdict.score
            yield f"the start measures {verdict.score:g}"
        elif self.best is None or verdict.score < self.best:
            self.best = verdict.score
            yield f"{entry.loop} reaches {verdict.score:g}, the best so far"

    def standing(self) -> str:
        best = "nothing better yet" if self.best is None else f"best so far {self.best:g}"
        start = "" if self.start is None else f", from {self.start:g}"
        return f"{self.sessions} sessions ended; {best}{start}"


def _words(outcome: Outcome) -> str:
    what = outcome.detail.get("limit") and f"past its {outcome.detail['limit']} limit, ended with all it started"
    seen = outcome.evidence[0].what if outcome.evidence else ""
    return f"{outcome.kind.value} ({str(what or seen)[:120]})" if what or seen else outcome.kind.value
