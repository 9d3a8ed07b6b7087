"""Nights of healthy loops, told minute by minute with a clock that is ours: the policy leaves every one of them alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from support.nights import Night, commit

from ralphd.core import actions, events, policy, records
from ralphd.core.actions import Decision
from ralphd.core.fold import apply
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.policy import Head, LoopNow, Present
from ralphd.core.state import NightState

LOOPS = 8
HARM = (actions.RestartLoop, actions.Pause, actions.Park, actions.StopLoop, actions.Restore, actions.Scale)


@dataclass
class Agent:
    """How one loop behaves. ``gains``: the chance that a session is verified as better; ``seconds`` it takes."""

    seconds: float = 1500.0
    gains: float = 0.5
    dips: float = 0.2  # the chance that it is verified as a little worse
    claims: float = 0.0
    noop: float = 0.0
    kinds: tuple[Kind, ...] = (Kind.NEXT,)
    infra: float = 0.0  # the chance that a session ends by what it can't help
    verdict_s: float = 60.0


@dataclass
class Simulation:
    """Folds entries as they come, so that a night of thousands is quick."""

    agents: list[Agent]
    seed: int = 0
    night: Night = field(default_factory=Night)
    state: NightState = field(default_factory=NightState)
    done: list[Decision] = field(default_factory=list)
    told: list[Outcome] = field(default_factory=list)

    def run(self, hours: float = 8.0) -> Simulation:
        self._say(events.NightStarted(width=len(self.agents), ends_at=None, version="0", config={}))
        self.night.task()
        self._fold()
        dice = random.Random(self.seed)
        for n in range(len(self.agents)):
            self.night.loop(f"loop-{n}")
            self._fold()
            self._say(records.RunnerStarted(pid=1, start_ticks=1, boot_id="b"), f"loop-{n}")
        self.night.verdict(100.0)
        self._fold()
        start, commits = self.night.now, 1
        due: list[tuple[float, int, str, dict]] = [(start + dice.random() * 60, n, "begin", {}) for n in range(LOOPS)]
        heads = [commit(1)] * LOOPS
        bests, scores, numbers, verified = [100.0] * LOOPS, [100.0] * LOOPS, [0] * LOOPS, [100.0] * LOOPS
        while due:
            due.sort(key=lambda one: one[0])
            at, n, what, more = due.pop(0)
            if at > start + hours * 3600:
                break
            agent, name, self.night.now = self.agents[n], f"loop-{n}", at
            if what == "begin":
                numbers[n] += 1
                self.night.began(name, numbers[n], head=heads[n])
                due.append((at + agent.seconds * dice.uniform(0.5, 1.5), n, "end", {}))
            elif what == "end":
                before, chance = heads[n], dice.random()
                infra, idle = dice.random() < agent.infra, dice.random() < agent.noop
                if not infra and not idle:
                    commits += 1
                    heads[n] = commit(commits)
                kind = Kind.OVERLOADED if infra else Kind.NOOP if idle else dice.choice(agent.kinds)
                claims = dice.random() < agent.claims
                self.night.ended(name, numbers[n], kind, before=before, after=heads[n], claims_done=claims)
                if heads[n] != before:
                    dips = chance > 1 - agent.dips
                    scores[n] = bests[n] + 1 if chance < agent.gains else scores[n] - 0.5 * dips
                    bests[n] = max(bests[n], scores[n])
                    more = {"of": heads[n], "score": scores[n], "number": numbers[n]}
                    due.append((at + agent.verdict_s, n, "verdict", more))
                due.append((at + 0.01, n, "begin", {}))
            else:
                better = more["score"] > verified[n]
                self.night.verdict(more["score"], name, more["number"], of=more["of"], submission=better)
                verified[n] = max(verified[n], more["score"])
            self._fold()
            self._decide(heads)
        return self

    def _say(self, body: events.Body, loop: str = "") -> None:
        self.night.say(body, loop)
        self._fold()

    def _fold(self) -> None:
        for entry in self.night.entries[self.state.last_id :]:
            apply(self.state, entry)

    def _decide(self, heads: list[str]) -> None:
        loops = {
            name: LoopNow(alive=True, head=Head(commit=heads[n], tree=heads[n][::-1]))
            for n, name in enumerate(self.state.loops)
        }
        present = Present(now=self.night.now, loops=loops)
        for loop, body in policy.conclude(self.state, present):
            self._say(body, loop)
            if isinstance(body, events.OutcomeNoted):
                self.told.append(body.outcome)
        for decision in policy.decide(self.state, present):
            if isinstance(decision.action, actions.Verify):
                continue
            name = getattr(decision.action, "loop", "")
            type_, args = events.action_to_json(decision.action)
            said = events.ActionIntended(type=type_, args=args, why=decision.why, by=decision.by, cause=decision.cause)
            self._say(said, name)
            self._say(events.ActionSettled(intent=self.state.last_id, result="done"), name)
            self.done.append(decision)

    def harm(self) -> list[Decision]:
        return [decision for decision in self.done if isinstance(decision.action, HARM)]


HEALTHY = {
    "work that gains": Agent(),
    "silent for a quarter of an hour at a time": Agent(seconds=3600.0, gains=0.6),
    "short sessions": Agent(seconds=240.0, gains=0.6, dips=0.1),
    "a verifier that takes longer than the sessions": Agent(seconds=600.0, verdict_s=1200.0, gains=0.4),
    "claims now and then": Agent(claims=0.15, gains=0.4),
    "a session without a change now and then": Agent(noop=0.25, gains=0.5),
    "endings that leave work behind": Agent(
        kinds=(Kind.NEXT, Kind.COMPACTION_LIMIT, Kind.HUNG_AFTER_RESULT), gains=0.5
    ),
    "inference that comes and goes": Agent(infra=0.7, gains=0.4),
}


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("seed", range(2))
def test_no_healthy_loop_is_ended_or_reset(name, seed):
    """They may get a note when nothing was gained for long; that is all."""
    night = Simulation(agents=[HEALTHY[name]] * LOOPS, seed=seed).run()
    assert [(d.action, d.why) for d in night.harm()] == []
    assert len(night.state.loops["loop-0"].past.sessions) > 3


TRYING = {"a hard question": Agent(gains=0.08, dips=0.3), "ups and downs": Agent(gains=0.3, dips=0.5)}


@pytest.mark.parametrize("name", TRYING)
def test_who_tries_for_long_is_at_most_set_back_to_its_own_best_after_sixteen_sessions_below_it(name):
    night = Simulation(agents=[TRYING[name]] * LOOPS, seed=3).run()
    for decision in night.harm():
        assert isinstance(decision.action, actions.RestartLoop)
        loop = night.state.loops[decision.action.loop]
        assert (decision.cause, decision.action.reset_to) == ("falling", loop.past.remedies[-1].reset_to)
        assert loop.past.treated("falling", "Tell") >= 3 or loop.past.gains[-1].at_s > loop.past.remedies[-1].at_s


def test_loops_of_all_kinds_beside_one_another_are_left_alone():
    night = Simulation(agents=list(HEALTHY.values())[:LOOPS], seed=7).run(hours=10)
    assert [(d.action, d.why) for d in night.harm()] == []


def test_a_night_of_outage_charges_no_loop():
    outage = Simulation(agents=[Agent(infra=1.0, seconds=240.0)] * LOOPS, seed=1).run(hours=4)
    assert outage.done == []
    assert {outcome.kind for outcome in outage.told} <= {Kind.SHARED_CAUSE}
    storm = Simulation(agents=[Agent(infra=0.9, seconds=240.0, gains=0.5)] * LOOPS, seed=1).run(hours=4)
    assert storm.harm() == []


def test_the_simulation_would_show_harm():
    """The gauge: loops that lose everything again and again are restarted in it."""
    night = Simulation(agents=[Agent(gains=0.0, dips=1.0, seconds=300.0)] * LOOPS, seed=1).run(hours=4)
    assert {type(decision.action) for decision in night.harm()} >= {actions.RestartLoop}
