"""Asking the supervisor's model about loops in trouble: off the main thread, within bounds, nothing taken unvetted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ralphd.core import answer, batch
from ralphd.core.advice import Question, case_of, question
from ralphd.core.answer import Advice, Faulty, Spent
from ralphd.core.chronicle import Chronicle
from ralphd.core.config import SupervisorConfig
from ralphd.core.errors import AdviserError
from ralphd.core.outcomes import Kind
from ralphd.core.policy import Offer
from ralphd.core.reach import Reach
from ralphd.core.state import LoopState
from ralphd.daemon.inbox import Advised, Inbox, Reached
from ralphd.daemon.tick import Night
from ralphd.daemon.weigh import PATIENCE_S, Asking, Paid, Room, record, weigh
from ralphd.ports import Adviser

AN_HOUR = 3  # questions about one loop: an action needs a session or two before it shows
AT_ONCE = 4  # requests under way: the rest is the policy's
SAID_AGAIN_S = 3600.0  # an endpoint that comes and goes is told of once in so long
HOUR_S = 3600.0


@dataclass(kw_only=True)
class Consultant:
    """Belongs to the main thread, but for the calls, which ``run`` starts elsewhere.

    ``fence`` and ``chance`` draw; ``excerpt`` reads a loop's log. ``budget`` is in requests a night. ``adviser_of``
    returns whoever goes by a model's name, at the endpoint of the night's start.
    """

    adviser: Adviser
    adviser_of: Callable[[str], Adviser]
    run: Callable[[Callable[[], None]], object]
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
    alone: set[str] = field(default_factory=set)  # asked about one by one, since answers to several at once went wrong
    arrived: list[Advised] = field(default_factory=list)
    probing: bool = False
    serial: int = 0
    served: int = 0  # advisers before this one
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
        try:
            return self._heed(night)
        except Exception as error:  # what breaks here must not keep the policy from deciding
            night.world.log.exception("asking the supervisor's model failed")
            self._failed(night, AdviserError(f"{type(error).__name__}: {error}"[:300]))
            return frozenset()

    def _heed(self, night: Night) -> frozenset[str]:
        arrived, self.arrived = self.arrived, []
        for message in arrived:
            self._settle(night, message)
        now = night.world.clock.now()
        self._give_up(night)
        self._probe(night)
        due: list[str] = []
        open_ = [name for name in self.room.stuck(night.state, now) if self._is_open(night, name, due)]
        return frozenset((*open_, *self._ask_all(night, due)))

    def follow(self, edited: SupervisorConfig) -> None:
        """Ask another model from now on, or none; what the former one still says is not heard.

        The endpoint stays that of the night's start: who can write ralphd.toml must not have our key sent elsewhere.
        """
        self.budget = edited.calls
        if edited.model == self.adviser.model:
            return
        former, self.adviser = self.adviser, self.adviser_of(edited.model)
        self.served += 1
        self.asking, self.reach, self.probing = {}, Reach(), False
        self.looked_at, self.left_alone = {}, set()
        self.run(former.close)

    def reached(self, night: Night, message: Reached) -> None:
        if message.of != self.served:
            return
        self.probing = False
        if message.error is None:
            self.reach = self.reach.answered()
        else:
            self._failed(night, message.error)

    def close(self) -> None:
        self.adviser.close()

    # ------------------------------------------------------------------ asking

    def _is_open(self, night: Night, name: str, due: list[str]) -> bool:
        """Tell whether a loop's trouble is the model's for now; add it to ``due`` if it may be asked about."""
        loop, clock = night.state.loops[name], night.world.clock
        if name in self.asking:
            return not self.asking[name].late
        if self.looked_at.get(name) == _how_far(loop):
            return name in self.left_alone
        self.left_alone.discard(name)
        if self._may_ask(name, clock.now()):
            due.append(name)
        return False

    def _may_ask(self, name: str, now: float) -> bool:
        recent = [past for past in self.chronicle.past(name) if past.at > now - HOUR_S]
        return self.reach.up is True and len(recent) < AN_HOUR and bool(self.chronicle.rows(name))

    def _free(self) -> bool:
        under_way = len({asking.serial for asking in self.asking.values()})
        return under_way < AT_ONCE and self.chronicle.calls + under_way < self.budget

    def _ask_all(self, night: Night, due: list[str]) -> list[str]:
        """Ask, cheap questions together, and return whom the policy has to wait for.

        While a cheap one is under way, those that come up wait for each other: nobody waits when nothing is asked.
        """
        cheap = [name for name in due if name not in self.alone and self.room.cheap(night.state, name)]
        asked = [name for name in due if name not in cheap and self._free() and self._ask(night, [name])]
        if any(asking.cheap and not asking.late for asking in self.asking.values()):
            return asked + (cheap if self._free() else [])
        for names in (cheap[n : n + batch.BATCH_MOST] for n in range(0, len(cheap), batch.BATCH_MOST)):
            asked += names if self._free() and self._ask(night, names, cheap=True) else []
        return asked

    def _ask(self, night: Night, names: list[str], *, cheap: bool = False) -> bool:
        """Ask about these loops in one request; about a single one all that is open for it may be answered."""
        room = self.room.cheap if len(names) > 1 else self.room.offers
        offered = {name: found for name in names if (found := room(night.state, name))}
        if not offered:
            return False
        shared = len(offered) > 1
        parts = [
            self._question(night, name, offers, f"q{number}-{self.fence()[:8]}-" if shared else "")
            for number, (name, offers) in enumerate(offered.items(), 1)
        ]
        sent = batch.together(parts) if shared else parts[0]
        self.serial += 1
        for (name, offers), part in zip(offered.items(), parts, strict=True):
            loop = night.state.loops[name]
            self.looked_at[name] = _how_far(loop)
            self.asking[name] = Asking(
                loop=name,
                question=part,
                serial=self.serial,
                trouble=offers[0].why,
                generation=loop.generation,
                since=night.world.clock.boottime(),
                sent=sent.sha256,
                shared=len(parts),
                cheap=cheap,
            )
        self.run(partial(self._call, self.adviser, self.serial, sent))
        return True

    def _question(self, night: Night, name: str, offers: Sequence[Offer], prefix: str) -> Question:
        loop, rows = night.state.loops[name], self.chronicle.rows(name)
        case = case_of(
            night.state,
            loop,
            night.world.clock.now(),
            trouble=offers[0].why,
            rows=rows,
            excerpt=self.excerpt(loop),
        )
        return question(case, offers, system=self.system(), fence=self.fence(), hide=self.hide, prefix=prefix)

    def _call(self, adviser: Adviser, serial: int, asked: Question) -> None:
        """Ask. Runs in the pool."""
        began, body, error = time.monotonic(), b"", None
        try:
            body = adviser.ask(asked)
        except AdviserError as why:
            error = why
        except Exception as why:  # noqa: BLE001  # the boundary of a worker: whatever broke is an endpoint that is down
            error = AdviserError(f"{type(why).__name__}: {why}"[:300])
        seconds = round(time.monotonic() - began, 3)
        self.inbox.put(Advised(serial=serial, body=body, error=error, seconds=seconds))

    def _give_up(self, night: Night) -> None:
        """Take an endpoint that keeps a question too long for one that is down; its call may end whenever it likes."""
        for asking in self.asking.values():
            if not asking.late and night.world.clock.boottime() >= asking.since + PATIENCE_S:
                asking.late = True
                self._failed(night, AdviserError(f"no answer within {PATIENCE_S:g} s"))

    def _probe(self, night: Night) -> None:
        if not self.probing and self.reach.due(night.world.clock.boottime()):
            self.probing = True
            self.run(partial(self._look, self.adviser, self.served))

    def _look(self, adviser: Adviser, of: int) -> None:
        """See whether it answers. Runs in the pool."""
        error = None
        try:
            adviser.reach()
        except AdviserError as why:
            error = why
        except Exception as why:  # noqa: BLE001  # as above
            error = AdviserError(f"{type(why).__name__}: {why}"[:300])
        self.inbox.put(Reached(error=error, of=of))

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
        answered = [asking for asking in self.asking.values() if asking.serial == message.serial]
        for asking in answered:
            del self.asking[asking.loop]
        if not answered:
            return
        if message.error is not None:
            self._failed(night, message.error)
            return
        self.reach = self.reach.answered()
        told, spent = _read([asking.question for asking in answered], message.body)
        if len(answered) > 1 and any(isinstance(one, Faulty) for one in told):
            self.alone.update(asking.loop for asking in answered)
        for asking, one, part in zip(answered, told, batch.share(spent, len(answered)), strict=True):
            came = weigh(night, self.room, self.chronicle, asking, one)
            if isinstance(came, Offer) and came.action is None:
                self.left_alone.add(asking.loop)
            record(night, asking, one, came, Paid(model=self.adviser.model, seconds=message.seconds, spent=part))


def _read(asked: list[Question], body: bytes) -> tuple[tuple[Advice | Faulty, ...], Spent]:
    if len(asked) > 1:
        return batch.read(asked, body)
    told, spent = answer.read(asked[0], body)
    return (told,), spent


def _how_far(loop: LoopState) -> tuple[int, int]:
    """Return what grows when a session of the loop has ended."""
    return loop.generation, loop.trajectory - loop.session_open
