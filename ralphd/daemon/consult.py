"""Asking the supervisor's model about loops in trouble: off the main thread, within bounds, nothing taken unvetted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from ralphd.core import actions, answer, policy
from ralphd.core.actions import Decision
from ralphd.core.advice import Question, case_of, question
from ralphd.core.answer import Advice, Faulty, Spent
from ralphd.core.chronicle import Chronicle
from ralphd.core.errors import AdviserError
from ralphd.core.events import Consulted, OutcomeNoted
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.policy import Offer
from ralphd.core.reach import Reach
from ralphd.core.state import LoopState, NightState
from ralphd.daemon.inbox import Advised, Inbox, Reached
from ralphd.daemon.tick import Night
from ralphd.ports import Adviser

PATIENCE_S = 30.0  # then the policy decides, and the answer is too late
AN_HOUR = 3  # questions about one loop: an action needs a session or two before it shows
AT_ONCE = 4  # questions under way: the rest is the policy's
SAME_ADVICE = 3  # taken so often without a gain, it is futile
SAID_AGAIN_S = 3600.0  # an endpoint that comes and goes is told of once in so long
HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a model may be asked about: the loops, and what is open for each. Both are the policy's."""

    stuck: Callable[[NightState, float], Sequence[str]]
    offers: Callable[[NightState, str], Sequence[Offer]]


@dataclass(kw_only=True)
class Asking:
    """A question under way. ``ended`` is how many sessions the loop had behind it."""

    question: Question
    serial: int
    trouble: str
    generation: int
    since: float  # boottime


@dataclass(kw_only=True)
class Consultant:
    """Belongs to the main thread, but for the calls. ``fence`` and ``chance`` draw; ``excerpt`` reads a loop's log."""

    adviser: Adviser
    pool: Executor
    inbox: Inbox
    room: Room
    budget: int
    system: Callable[[], str]
    excerpt: Callable[[LoopState], str]
    hide: Callable[[str], str]
    fence: Callable[[], str]
    chance: Callable[[], float]
    chronicle: Chronicle = field(default_factory=Chronicle)
    reach: Reach = field(default_factory=Reach)
    asking: dict[str, Asking] = field(default_factory=dict)
    looked_at: dict[str, tuple[int, int]] = field(default_factory=dict)  # how far each loop was when last asked about
    left_alone: set[str] = field(default_factory=set)  # by advice, until its next session has ended
    arrived: list[Advised] = field(default_factory=list)
    probing: bool = False
    serial: int = 0
    said_down_at: float = float("-inf")

    @property
    def trouble(self) -> str:
        """Say that the endpoint is down, for ``status``; empty when it isn't."""
        if not self.adviser.model or self.reach.up is not False:
            return ""
        return f"the supervisor's model doesn't answer ({self.reach.why}); the policy decides alone"

    def heed(self, night: Night) -> frozenset[str]:
        """Take the answers that came, ask what is to be asked, and return the loops to leave alone meanwhile."""
        if not self.adviser.model:
            return frozenset()
        arrived, self.arrived = self.arrived, []
        for message in arrived:
            self._settle(night, message)
        self._probe(night)
        now = night.world.clock.now()
        return frozenset(name for name in self.room.stuck(night.state, now) if self._is_open(night, name))

    def reached(self, night: Night, message: Reached) -> None:
        self.probing = False
        if message.error is None:
            self.reach = self.reach.answered()
        else:
            self._failed(night, message.error)

    def close(self) -> None:
        self.adviser.close()

    # ------------------------------------------------------------------ asking

    def _is_open(self, night: Night, name: str) -> bool:
        """Tell whether a loop's trouble is the model's for now; ask about it if that is due."""
        loop, clock = night.state.loops[name], night.world.clock
        if name in self.asking:
            return clock.boottime() < self.asking[name].since + PATIENCE_S
        if self.looked_at.get(name) == _how_far(loop):
            return name in self.left_alone
        self.left_alone.discard(name)
        return self._may_ask(name, clock.now()) and self._ask(night, loop)

    def _may_ask(self, name: str, now: float) -> bool:
        recent = [past for past in self.chronicle.past(name) if past.at > now - HOUR_S]
        spent = self.chronicle.calls + len(self.asking)
        free = len(self.asking) < AT_ONCE and spent < self.budget
        return self.reach.up is True and free and len(recent) < AN_HOUR and bool(self.chronicle.rows(name))

    def _ask(self, night: Night, loop: LoopState) -> bool:
        name, clock = loop.loop.id, night.world.clock
        offers = self.room.offers(night.state, name)
        if not offers:
            return False
        trouble = offers[0].why
        rows, excerpt = self.chronicle.rows(name), self.excerpt(loop)
        case = case_of(night.state, loop, clock.now(), trouble=trouble, rows=rows, excerpt=excerpt)
        asked = question(case, offers, system=self.system(), fence=self.fence(), hide=self.hide)
        self.serial += 1
        self.looked_at[name] = _how_far(loop)
        self.asking[name] = Asking(
            question=asked,
            serial=self.serial,
            trouble=trouble,
            generation=loop.generation,
            since=clock.boottime(),
        )
        self.pool.submit(self._call, name, self.serial, asked)
        return True

    def _call(self, loop: str, serial: int, asked: Question) -> None:
        """Ask. Runs in the pool."""
        began, body, error = time.monotonic(), b"", None
        try:
            body = self.adviser.ask(asked)
        except AdviserError as why:
            error = why
        except Exception as why:  # noqa: BLE001  # the boundary of a worker: whatever broke is an endpoint that is down
            error = AdviserError(f"{type(why).__name__}: {why}"[:300])
        seconds = round(time.monotonic() - began, 3)
        self.inbox.put(Advised(loop=loop, serial=serial, body=body, error=error, seconds=seconds))

    def _probe(self, night: Night) -> None:
        if not self.probing and self.reach.due(night.world.clock.boottime()):
            self.probing = True
            self.pool.submit(self._look)

    def _look(self) -> None:
        """See whether it answers. Runs in the pool."""
        error = None
        try:
            self.adviser.reach()
        except AdviserError as why:
            error = why
        except Exception as why:  # noqa: BLE001  # as above
            error = AdviserError(f"{type(why).__name__}: {why}"[:300])
        self.inbox.put(Reached(error=error))

    # ------------------------------------------------------------------ what came

    def _failed(self, night: Night, error: AdviserError) -> None:
        now = night.world.clock.boottime()
        was_up = self.reach.up is not False
        why = self.hide(str(error))[:300]
        self.reach = self.reach.failed(now, why, chance=self.chance(), floor_s=error.floor_s)
        if was_up and now >= self.said_down_at + SAID_AGAIN_S:
            self.said_down_at = now
            night.note(Kind.SUPERVISOR_UNAVAILABLE, self.trouble)

    def _settle(self, night: Night, message: Advised) -> None:
        asking = self.asking.get(message.loop)
        if asking is None or asking.serial != message.serial:
            return
        del self.asking[message.loop]
        if message.error is not None:
            self._failed(night, message.error)
            return
        self.reach = self.reach.answered()
        told, spent = answer.read(asking.question, message.body)
        offer, refused = self._weigh(night, message.loop, asking, told)
        self._record(night, message, asking, (told, spent, offer, refused))

    def _weigh(
        self, night: Night, name: str, asking: Asking, told: Advice | Faulty
    ) -> tuple[Offer | None, Faulty | None]:
        """Return what to do, of what is offered now, or why the answer isn't taken."""
        if isinstance(told, Faulty):
            return None, told
        offer, why = self._still_offered(night, name, asking, told.choice)
        if offer is None:
            return None, Faulty(kind=Kind.SUPERVISOR_STALE, why=why, choice=told.choice)
        action = offer.action
        if action is not None and (getattr(action, "loop", "") != name or (why := policy.vet(night.state, action))):
            return None, Faulty(kind=Kind.SUPERVISOR_FORBIDDEN, why=why or "about another loop", choice=told.choice)
        if self._is_futile(name, told.choice):
            why = f"{told.choice} was taken {SAME_ADVICE} times and brought nothing"
            return None, Faulty(kind=Kind.SUPERVISOR_FUTILE, why=why, choice=told.choice)
        return offer, None

    def _still_offered(self, night: Night, name: str, asking: Asking, choice: str) -> tuple[Offer | None, str]:
        state, clock = night.state, night.world.clock
        if clock.boottime() >= asking.since + PATIENCE_S:
            return None, f"it took longer than {PATIENCE_S:g} s, and the policy had decided"
        if state.loops[name].generation != asking.generation:
            return None, "another generation has begun meanwhile"
        if name not in self.room.stuck(state, clock.now()):
            return None, "the trouble is over, or somebody else saw to it"
        found = next((offer for offer in self.room.offers(state, name) if offer.name == choice), None)
        if found is None:
            return None, "it is not open any more"
        if found.action is not None and actions.key(found.action) in night.present().in_flight:
            return None, "it is being done already"
        return found, ""

    def _is_futile(self, name: str, choice: str) -> bool:
        taken = [past for past in self.chronicle.past(name) if past.taken][-SAME_ADVICE:]
        gains = self.chronicle.gains.get(name, 0)
        return len(taken) == SAME_ADVICE and all(past.choice == choice and past.gains == gains for past in taken)

    def _record(
        self,
        night: Night,
        message: Advised,
        asking: Asking,
        came: tuple[Advice | Faulty, Spent, Offer | None, Faulty | None],
    ) -> None:
        told, spent, offer, refused = came
        body = Consulted(
            model=self.adviser.model,
            trouble=asking.trouble,
            prompt_sha256=asking.question.sha256,
            offered=asking.question.offered,
            choice=told.choice,
            evidence=told.evidence if isinstance(told, Advice) else (),
            why=told.why if isinstance(told, Advice) else "",
            taken=refused is None,
            refused=refused.kind.value if refused is not None else "",
            reason=refused.why if refused is not None else "",
            tokens_in=spent.tokens_in,
            tokens_out=spent.tokens_out,
            seconds=message.seconds,
        )
        entries = [night.entry(message.loop, body)]
        if refused is not None:
            outcome = Outcome(
                kind=refused.kind, detail={"choice": refused.choice}, evidence=(Evidence(what=refused.why[:300]),)
            )
            entries.append(night.entry(message.loop, OutcomeNoted(outcome=outcome)))
        decisions: list[Decision] = []
        if offer is not None and offer.action is None:
            self.left_alone.add(message.loop)
        elif offer is not None and offer.action is not None:
            decisions.append(Decision(action=offer.action, why=offer.why, by="supervisor", cause=offer.cause))
        night.intend(decisions, told=entries)


def _how_far(loop: LoopState) -> tuple[int, int]:
    """Return what grows when a session of the loop has ended."""
    return loop.generation, loop.trajectory - loop.session_open
