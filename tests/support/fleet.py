"""How do many runners fare on a faked clock? The real gate (files and locks) and the real pacing, with a model of the rest."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ralphd.core import pacing
from ralphd.core.exchange import Limits
from ralphd.core.gate import Moment
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.pacing import Circumstances, Streak, Then
from ralphd.core.signals import Retrying, Said
from ralphd.pane.gatekeeper import Gatekeeper

Server = Callable[[float, random.Random], Outcome | None]  # at which time, by which chance: a refusal, None: an answer
START_S = (0.5, 4.0)  # from the start of a CLI to its first answer
THINK_S = (5.0, 60.0)  # between two requests of one session
SESSION_S = (60.0, 900.0)
OWN_WAIT_MAX_S = 40.0  # of a client that asks again by itself: Claude Code's
SILENT_S = 300.0  # after which a request that nobody answers is ended
LOOK_S = 5.0  # between two looks at a try that goes on


@dataclass
class Asked:
    """One request. ``closed``: the gate was, when it went out as the first of an attempt.

    What a running agent asks next is its own affair: it learns of an outage by one refusal.
    """

    loop: int
    began: float
    ended: float
    closed: bool
    refused: bool


@dataclass
class Fleet:
    """``run`` lets the loops work against the server. What they asked is in ``asked``, how attempts ended in ``paces``."""

    root: Path
    server: Server
    loops: int = 16
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    asks_again: bool = False  # the client waits by itself and tells of it, without end
    dies: float = 0.0  # the chance that a runner dies during a request, and comes again seconds later
    now: float = 1000.0
    asked: list[Asked] = field(default_factory=list)
    paces: list[pacing.Pace] = field(default_factory=list)
    deaths: int = 0

    def run(self, seconds: float) -> Fleet:
        self.random = random.Random(self.seed)
        self.end = self.now + seconds
        turns = [(self.now + self.random.uniform(0, 5), loop, self._loop(loop)) for loop in range(self.loops)]
        heapq.heapify(turns)
        while turns and turns[0][0] < self.end:
            self.now, loop, life = heapq.heappop(turns)
            heapq.heappush(turns, (self.now + next(life), loop, life))
        return self

    def moment(self) -> Moment:
        return Moment(now=self.now, epoch=self.now + 1.7e9, chance=self.random.random())

    def _loop(self, loop: int) -> Iterator[float]:
        while True:
            gate = Gatekeeper("boot", self.moment)
            gate.assign(str(self.root / "loops" / str(loop)), "account", self.limits)
            yield from self._life(loop, gate)
            self.deaths += 1
            gate.leave()  # as the kernel does for a runner that dies
            yield self.random.uniform(1, 5)

    def _life(self, loop: int, gate: Gatekeeper) -> Iterator[float]:
        """One runner, until it dies."""
        streak = Streak()
        while True:
            yield from self._pass(gate)
            began, outcome = self.now, Outcome(kind=Kind.NEXT)
            lasts, first = self.random.uniform(*SESSION_S), True
            while self.now < began + lasts:
                refusal = yield from self._ask(loop, gate, closed=first and gate.look().closed)
                first = False
                if self.random.random() < self.dies:
                    return
                if refusal is not None and self.asks_again:
                    refusal = yield from self._insist(loop, gate, refusal)
                if refusal is not None:
                    outcome = refusal
                    break
                gate.heard(Said(text="an answer"))
                yield self.random.uniform(*THINK_S)
            gate.judge(outcome)
            seen = Circumstances(
                seconds=self.now - began, worked=False, now=self.now + 1.7e9, chance=self.random.random()
            )
            streak, pace = pacing.after(streak, outcome, seen, self.limits)
            self.paces.append(pace)
            if not gate.look().closed and pace.then is Then.ATTEMPT:
                yield pace.wait_s

    def _ask(self, loop: int, gate: Gatekeeper, *, closed: bool) -> Iterator[float]:
        began = self.now
        asked = Asked(loop=loop, began=began, ended=began, closed=closed, refused=True)
        self.asked.append(asked)
        asked.ended = began + self.random.uniform(*START_S)
        yield asked.ended - began
        refusal = self.server(self.now, self.random)
        if refusal is not None and refusal.kind is Kind.STALLED:
            asked.ended = began + SILENT_S
            while self.now < asked.ended:
                gate.still_tries(tells=True)
                yield LOOK_S
        asked.refused = refusal is not None
        return refusal

    def _insist(self, loop: int, gate: Gatekeeper, refusal: Outcome) -> Iterator[float]:
        """Ask again by itself, as a client does, until that is left to the gate; the last refusal, None: an answer."""
        attempt, delay_s = 0, 0.5
        while refusal is not None:
            attempt += 1
            told = Retrying(status=529, attempt=attempt, delay_s=delay_s)
            if gate.leaves_it(told):
                return refusal
            gate.heard(told)
            yield delay_s
            delay_s = min(OWN_WAIT_MAX_S, 2 * delay_s)
            refusal = yield from self._ask(loop, gate, closed=False)
        return None

    def _pass(self, gate: Gatekeeper) -> Iterator[float]:
        while gate.look().closed and not gate.trying:
            while not gate.may_go(asked=False):
                yield gate.look_s()
            if gate.look().closed:
                return
            yield gate.spread_s()

    # What is to be said of it.

    def in_flight_while_closed(self) -> int:
        """Return the greatest number of requests at a time that went out while the gate was closed."""
        edges = [(ask.began, 1) for ask in self.asked if ask.closed]
        edges += [(ask.ended, -1) for ask in self.asked if ask.closed]
        most = running = 0
        for _, step in sorted(edges):
            running += step
            most = max(most, running)
        return most

    def working_by(self, since: float, *, but_for: set[int] | frozenset[int] = frozenset()) -> float:
        """Return when the last loop had its first answer after ``since``."""
        first: dict[int, float] = {}
        for ask in self.asked:
            if not ask.refused and ask.ended >= since and ask.loop not in but_for:
                first[ask.loop] = min(first.get(ask.loop, ask.ended), ask.ended)
        assert len(first) == self.loops - len(but_for)
        return max(first.values())
