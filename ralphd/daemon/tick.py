"""The spine: observe, record, decide, intend; what the journal has stored is acted upon, never before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ralphd.core import actions, clocks, events, policy
from ralphd.core.actions import Decision
from ralphd.core.clocks import Gap, Reading
from ralphd.core.events import Entry
from ralphd.core.exchange import Want
from ralphd.core.fold import apply
from ralphd.core.model import Candidate, Verdict, is_submission
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.policy import Bounds, Present, Strain
from ralphd.core.records import Repaired, RunnerStopped, TrajectoryEnded
from ralphd.core.spending import spending
from ralphd.core.state import NightState
from ralphd.core.verdicts import to_beat
from ralphd.daemon.act import Doer
from ralphd.daemon.backlog import Backlog
from ralphd.daemon.failpoints import hit
from ralphd.daemon.inbox import Inbox, Settled, Stored
from ralphd.daemon.observe import Sight, hear, look
from ralphd.daemon.world import World

# A full or locked disk is retried by the writer; a person who stops a night is not kept longer than this.
JOURNAL_PATIENCE_S = 30.0
# While the journal takes nothing, what the runners told waits in memory up to here (some 50 MiB), then in their files.
UNSTORED_MAX = 20_000
ENDS = (TrajectoryEnded, RunnerStopped)  # records after which a branch is likely to have moved
# What failed is not tried again before this, and then twice as late each time: a full disk must not meet a busy loop.
AGAIN_MIN_S = 1.0
AGAIN_MAX_S = 60.0
# A verification that is cut off is work lost, perhaps by its candidate's doing: it waits longer, and so much longer
# than it took that it can't keep the verifier from others.
JUDGED_AGAIN_MAX_S = 900.0
RESTS = 4.0


@dataclass(kw_only=True)
class Night:
    """A running night. Every method belongs to the main thread."""

    world: World
    inbox: Inbox
    state: NightState
    sight: Sight
    doer: Doer
    unstored: int = 0  # entries submitted and not committed yet
    consult: Callable[[Night], frozenset[str]] = lambda _night: frozenset()  # whose trouble a model is asked about
    consulted: frozenset[str] = frozenset()
    hears: Callable[[Entry], None] = lambda _entry: None  # everything that is stored
    read: Reading | None = None  # the clocks, when they were looked at last
    gaps: tuple[Gap, ...] = ()  # in which nobody could work, newest last; the state has those that are stored
    backlog: Backlog = field(default_factory=Backlog)
    failing: dict[str, tuple[float, float]] = field(default_factory=dict)  # not again before (monotonic), and how long

    def tick(self) -> None:
        self.heed_clocks()
        news = hear(self.world, self.state, self.sight, listen=self.unstored < UNSTORED_MAX)
        if news:
            hit("records_heard")
        # before anything else can fail: a record is read once
        self.record(entry for entry in news if not self._known_gap(entry))
        if news:
            hit("records_submitted")
        look(self.world, self.state, self.sight, urgent=any(isinstance(entry.body, ENDS) for entry in news))
        self.advance()

    def advance(self) -> None:
        """Decide on what is recorded, once the journal has everything: so an intent is never decided twice.

        Not before the first look: to a new daemon every loop would seem dead.
        """
        self.heed_clocks()
        if self.unstored or not self.sight.heard:
            return
        self.record(self.entry(loop, body) for loop, body in policy.conclude(self.state, self.present()))
        if self.unstored:
            return
        self.consulted = self.consult(self)
        if not self.unstored:
            self.intend(policy.decide(self.state, self.present()))

    def heed_clocks(self) -> None:
        """Record what happened to the clocks, before anything is decided by them."""
        clock, before = self.world.clock, self.read
        self.read = Reading(wall=clock.now(), steady=clock.monotonic(), boot=clock.boottime())
        if before is None:
            return
        change = clocks.compare(before, self.read)
        for loop, at in self.sight.spawned_at.items():
            self.sight.spawned_at[loop] = at + change.jumped_s + change.slept_s
        for outcome in change.outcomes:
            self.gaps = clocks.with_gap(self.gaps, clock.now(), outcome)
        self.record(self.entry("", events.OutcomeNoted(outcome=outcome)) for outcome in change.outcomes)

    def _known_gap(self, entry: Entry) -> bool:
        """Tell whether a runner tells of a gap that is recorded: what befell all of them is one row, not one a loop.

        Nothing is lost by it: each runner's own record stays in its file, and the row says the same.
        """
        if not isinstance(entry.body, Repaired) or entry.body.outcome.kind is not Kind.SUSPENDED:
            return False
        gap = Gap(at=entry.at, seconds=clocks.seconds_of(entry.body.outcome))
        if any(known.same(gap) for known in (*self.gaps, *self.state.gaps)):
            return True
        self.gaps = clocks.with_gap(self.gaps, entry.at, entry.body.outcome)
        return False

    def present(self) -> Present:
        loops = {name: self.sight.now(name) for name in self.state.loops}
        supervisor = self.world.config.supervisor
        open_ = (events.action_from_json(i.type, i.args) for i in self.state.intents.values())
        return Present(
            now=self.world.clock.now(),
            loops=loops,
            in_flight=frozenset((*(actions.key(action) for action in open_), *self._waited_for())),
            strains=self.sight.strains,
            bounds=Bounds(least=supervisor.width_min, most=supervisor.width_max),
            consulted=self.consulted,
            spending=spending(self.state, self.world.price),
        )

    def _waited_for(self) -> list[str]:
        now = self.world.clock.monotonic()
        return [key for key, (until, _) in self.failing.items() if now < until]

    def _note_failure(self, intended: events.ActionIntended, result: str, took_s: float) -> None:
        key = actions.key(events.action_from_json(intended.type, intended.args))
        _, waited_s = self.failing.pop(key, (0.0, 0.0))
        if result == "failed":
            most_s = JUDGED_AGAIN_MAX_S if intended.type == actions.Verify.__name__ else AGAIN_MAX_S
            wait_s = min(most_s, max(AGAIN_MIN_S, 2 * waited_s))
            self.failing[key] = (self.world.clock.monotonic() + max(wait_s, RESTS * took_s), wait_s)

    def intend(self, decisions: Iterable[Decision], told: Iterable[Entry] = ()) -> None:
        """Record intents, in one commit with what they follow from."""
        intents = [*told, *(self._intent(decision) for decision in decisions)]
        if intents:
            hit("intent_decided")
            self.record(intents)
            hit("intent_submitted")

    def stored(self, message: Stored) -> None:
        """Fold what the journal has, then carry out the intents among it."""
        self.unstored -= message.submitted
        _pass_by(message.entries)
        intended = []
        for entry in message.entries:
            apply(self.state, entry)
            self.hears(entry)
            if isinstance(entry.body, events.ActionIntended):
                action = events.action_from_json(entry.body.type, entry.body.args)
                self._note_spawn(action)
                intended.append((entry.id, action))
        self.doer.act(self.state, intended)
        self.advance()

    def settled(self, message: Settled, took_s: float = 0.0) -> None:
        bodies = [self.entry(loop, body, gen, traj) for loop, gen, traj, body in message.bodies]
        end = events.ActionSettled(intent=message.intent, result=message.result, detail=message.detail)
        intended = self.state.intents.get(message.intent)
        loop = str(intended.args.get("loop", "")) if intended else ""
        if intended:
            self._note_failure(intended, message.result, took_s)
        if intended and intended.type == actions.SpawnRunner.__name__ and message.result == "done":
            self.sight.silent.add(loop)
        hit("settling")
        self.record([*bodies, self.entry(loop, end)])
        hit("settled_submitted")

    def judged(self, intent: int, candidate: Candidate, verdict: Verdict) -> None:
        """Record a verdict, its trouble if any, and the end of its intent, in one commit."""
        self.doer.queue.finished(intent)
        where = (candidate.loop, candidate.generation, candidate.trajectory)
        if self.state.skip_verification and verdict.kind is Kind.VERIFY_FAILED:
            self.settled(Settled(intent=intent, result="superseded", detail="the night ends now"))
            return
        if verdict.cut_off:
            self._not_judged(intent, candidate, verdict)
            return
        self.backlog.note(candidate.task, verdict.seconds)
        hit("judged")
        given = events.VerdictGiven(verdict=verdict, submission=self._submission(candidate, verdict))
        bodies: list[events.Body] = [given]
        if verdict.kind is not None:
            bodies.append(events.OutcomeNoted(outcome=_trouble(verdict)))
        self.settled(Settled(intent=intent, result="done", bodies=tuple((*where, body) for body in bodies)))
        hit("verdict_submitted")
        self.doer.queue.pump(self.state)

    def _not_judged(self, intent: int, candidate: Candidate, verdict: Verdict) -> None:
        """Record that a candidate's worth is as unknown as before, and why, once; the policy asks for it again."""
        where = (candidate.loop, candidate.generation, candidate.trajectory)
        known = actions.key(actions.Verify(candidate=candidate)) in self.failing
        bodies = () if known else ((*where, events.OutcomeNoted(outcome=_trouble(verdict))),)
        ending = Settled(intent=intent, result="failed", detail=f"cut off: {verdict.why}"[:500], bodies=bodies)
        self.settled(ending, took_s=verdict.seconds)
        self.doer.queue.pump(self.state)

    def behind(self) -> tuple[Strain, ...]:
        """Tell which verifiers are behind."""
        waiting = {one.candidate.loop for one in self.doer.queue.waiting}
        loops = [loop for name, loop in self.state.loops.items() if loop.want is Want.RUNNING and name in waiting]
        slots = {name: task.task.verifier.slots for name, task in self.state.tasks.items()}
        return self.backlog.look((loop.loop.task for loop in loops), slots, self.world.clock.monotonic())

    def _submission(self, candidate: Candidate, verdict: Verdict) -> bool:
        loop, task = self.state.loops.get(candidate.loop), self.state.tasks[candidate.task]
        if loop is None or (task.base is not None and verdict.tree == task.base.tree):
            return False
        return is_submission(verdict, task.task.verifier, to_beat(task, loop))

    def record(self, entries: Iterable[Entry]) -> None:
        batch = list(entries)
        if batch:
            self.unstored += len(batch)
            count = len(batch)
            self.world.journal.submit(batch, then=lambda stored: self._put_stored(stored, count))

    def _put_stored(self, stored: list[Entry], submitted: int) -> None:
        # A record the journal had already is dropped there; the count must come down all the same.
        self.inbox.put(Stored(entries=tuple(stored), submitted=submitted))

    def _note_spawn(self, action: actions.Action) -> None:
        if isinstance(action, actions.SpawnRunner):
            if action.loop in self.sight.silent:
                self.note(Kind.SPAWN_FAILED, "its window was opened, and its runner never said a word", action.loop)
            self.sight.spawns[action.loop] = self.sight.spawns.get(action.loop, 0) + 1
            self.sight.spawned_at[action.loop] = self.world.clock.now()
            self.sight.servers.pop(action.loop, None)  # it may come up in another one

    def _intent(self, decision: Decision) -> Entry:
        type_, args = events.action_to_json(decision.action)
        body = events.ActionIntended(type=type_, args=args, why=decision.why, by=decision.by, cause=decision.cause)
        loop = getattr(decision.action, "loop", "")
        if isinstance(decision.action, actions.Verify):
            loop = decision.action.candidate.loop
        self.world.log.info("decided", action=type_, loop=loop, why=decision.why, by=decision.by)
        return self.entry(loop, body)

    def entry(
        self, loop: str, body: events.Body, generation: int | None = None, trajectory: int | None = None
    ) -> Entry:
        known = self.state.loops.get(loop)
        return Entry(
            at=self.world.clock.now(),
            night=self.state.id,
            loop=loop,
            generation=(known.generation if known else 0) if generation is None else generation,
            trajectory=(known.trajectory if known else 0) if trajectory is None else trajectory,
            body=body,
        )

    def finish(self, end: events.NightEnded) -> bool:
        """Write the night's last entry and wait until the journal has it; False when it can't be written in time."""
        stored: list[Entry] = []
        done = threading.Event()

        def take(entries: list[Entry]) -> None:
            stored.extend(entries)
            done.set()

        self.world.journal.submit([self.entry("", end)], then=take)
        hit("end_submitted")
        if not done.wait(JOURNAL_PATIENCE_S):
            return False
        hit("end_stored")
        for entry in stored:
            apply(self.state, entry)
        return True

    def note(self, kind: Kind, what: str, loop: str = "") -> None:
        """Record a typed end that nobody else reports."""
        outcome = Outcome(kind=kind, evidence=(Evidence(what=what[:500]),))
        self.record([self.entry(loop, events.OutcomeNoted(outcome=outcome))])


# What is passed when the journal has such an entry. Everything else that it stores is a record of a runner.
STORED = {
    events.ActionIntended: "intent_stored",
    events.ActionSettled: "settled_stored",
    events.VerdictGiven: "verdict_stored",
}


def _pass_by(entries: tuple[Entry, ...]) -> None:
    for entry in entries:
        if entry.seq or type(entry.body) in STORED:
            hit("records_stored" if entry.seq else STORED[type(entry.body)])


def _trouble(verdict: Verdict) -> Outcome:
    assert verdict.kind is not None
    detail: dict[str, object] = {"commit": verdict.commit, "score": verdict.score, "tampered": list(verdict.tampered)}
    if verdict.cut_off:
        detail |= {"cut_off": True, "task": verdict.task}
    return Outcome(kind=verdict.kind, detail=detail, evidence=(Evidence(what=verdict.why, file=verdict.output),))
