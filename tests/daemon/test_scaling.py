"""How many loops run: what a person asks for, what the machine can bear, and who is held back."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import replace

from support.stories import BASE, Story

from ralphd.core import events, records
from ralphd.core.exchange import Want
from ralphd.core.model import Loop, Verifier
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.policy import Strain
from ralphd.core.policy.scaling import WIDEN_AFTER_S, to_park
from ralphd.daemon.backlog import Backlog

GOOD, BETTER = "1" * 40, "2" * 40
MEMORY = Strain(kind=Kind.MEMORY_PRESSURE, words="everything waits for memory")


def wants(story: Story) -> dict[str, Want]:
    return {name: loop.want for name, loop in story.night.state.loops.items()}


def parked(story: Story) -> set[str]:
    return {name for name, loop in story.night.state.loops.items() if loop.aside}


def test_narrower_holds_the_loops_with_the_least_to_lose_at_their_sessions_end() -> None:
    story = Story(loops=3)
    story.begin()
    story.will_say(GOOD, 1.0)
    story.session_ends("l2", 1, head=GOOD)
    story.step(5)
    (reply,) = story.ask("scale", width=1)
    assert reply["data"] == {"width": 1, "was": 3, "new": []}
    story.step()
    assert parked(story) == {"l1", "l3"}
    orders = story.folders.orders["/f/l1"]
    assert (orders[-1].want, orders[-1].now) == (Want.PAUSED, False)
    assert wants(story)["l2"] is Want.RUNNING
    story.ask("scale", width=2)
    story.step()
    assert len(parked(story)) == 1
    story.ask("scale", width=3)
    story.step()
    assert parked(story) == set()


def test_wider_than_the_loops_there_are_adds_new_ones() -> None:
    story = Story(loops=2)
    story.begin()
    framed: list[int] = []
    story.night.world.frame = lambda: framed.append(len(story.night.state.loops))
    (reply,) = story.ask("scale", width=4)
    assert reply["data"]["new"] == ["main-1", "main-2"]
    story.step()
    assert sorted(story.panes.windows) == ["l1", "l2", "main-1", "main-2"]
    assert framed == [4]
    assert story.night.state.width == 4
    story.start_daemon()
    assert sorted(story.night.state.loops) == ["l1", "l2", "main-1", "main-2"]


def test_a_width_out_of_bounds_is_refused_with_the_way_out() -> None:
    story = Story(loops=2)
    story.begin()
    (reply,) = story.ask("scale", width=17)
    assert (reply["ok"], reply["code"]) == (False, 2)
    assert "supervisor.width_max" in str(reply["error"])
    assert story.ask("scale", width="many")[0]["code"] == 2
    assert story.intents("Scale") == []


def test_what_a_person_paused_or_resumed_is_theirs() -> None:
    story = Story(loops=3)
    story.begin()
    story.ask("pause", loops=["l1"])
    story.ask("scale", width=1)
    story.step()
    assert wants(story)["l1"] is Want.PAUSED
    assert len(parked(story)) == 1
    story.ask("scale", width=3)
    story.step()
    assert parked(story) == set()
    assert wants(story)["l1"] is Want.PAUSED
    story.ask("scale", width=1)
    story.step()
    (kept,) = [name for name, want in wants(story).items() if want is Want.RUNNING]
    held = next(iter(parked(story)))
    story.will_say(GOOD, 1.0)
    story.session_ends(kept, 1, head=GOOD)
    story.step(5)
    story.ask("resume", loops=[held])
    story.step()
    assert wants(story)[held] is Want.RUNNING
    assert parked(story) == {kept}
    loops = [story.loop_state(name) for name in (held, kept)]
    assert [loop.loop.id for loop in to_park(story.night.state, loops, story.clock.now())] == [kept, held]


def test_under_strain_the_night_gets_narrower_and_wider_again_after_it() -> None:
    story = Story(loops=8)
    story.begin()
    story.daemon.hooks.strains = lambda: (MEMORY,)
    story.step(5)
    story.step(1)
    assert (story.night.state.width, len(parked(story))) == (4, 4)
    assert story.daemon.troubles[Kind.MEMORY_PRESSURE] == MEMORY.words
    story.step(30)
    assert story.night.state.width == 4
    story.step(40)
    story.step(1)
    assert story.night.state.width == 2
    story.daemon.hooks.strains = tuple
    story.step(WIDEN_AFTER_S - 100)
    assert story.night.state.width == 2
    widths = []
    for _ in range(40):
        story.step(WIDEN_AFTER_S / 5)
        widths.append(story.night.state.width)
    assert widths[-1] == 8
    assert widths == sorted(widths)
    assert parked(story) == set()
    kinds = [body.outcome.kind for body in story.journal.bodies(events.OutcomeNoted)]
    assert kinds.count(Kind.MEMORY_PRESSURE) == 1


def test_only_danger_ends_sessions() -> None:
    story = Story(loops=2)
    story.begin()
    danger = Strain(kind=Kind.MEMORY_PRESSURE, words="now", danger=True)
    story.daemon.hooks.strains = lambda: (danger,)
    story.step(5)
    story.step(1)
    (name,) = parked(story)
    assert story.folders.orders[f"/f/{name}"][-1].now is True


def test_a_low_disk_is_made_room_on_once_in_a_while() -> None:
    story = Story(loops=2)
    story.begin()
    calls: list[int] = []
    story.night.world.free_disk = lambda: calls.append(1) or (5 << 20)
    low = Strain(kind=Kind.DISK_LOW, words="the disk is low")
    story.daemon.hooks.strains = lambda: (low,)
    for _ in range(20):
        story.step(6)
    assert len(calls) == 1
    settled = [body.detail for body in story.journal.bodies(events.ActionSettled)]
    assert "5 MiB freed" in settled


class Bench(Executor):
    """Takes ``seconds`` over each verdict."""

    def __init__(self, story: Story, seconds: float) -> None:
        self.story, self.seconds, self.due = story, seconds, []

    def submit(self, call, *args):
        self.due.append((self.story.clock.monotonic() + self.seconds, call, args))
        return Future()

    def go_on(self) -> None:
        now = self.story.clock.monotonic()
        for done in [one for one in self.due if one[0] <= now]:
            self.due.remove(done)
            done[1](*done[2])
        self.story.drain()


def a_night_of_slow_verdicts(loops: int, verdict_s: float, hours: float = 8) -> tuple[Story, list[int]]:
    """Each loop leaves a commit every quarter of an hour, and each is better than all before."""
    story = Story(loops=loops)
    story.begin()
    bench = story.night.doer.queue.pool = Bench(story, verdict_s)
    numbers, widths = dict.fromkeys(story.night.state.loops, 1), []
    for minute in range(int(hours * 60)):
        for at, name in enumerate(numbers):
            if minute % 15 == at % 15 and name not in parked(story):
                head = f"{minute:04x}{at:02x}".rjust(40, "e")
                story.will_say(head, float(minute + 1), seconds=verdict_s / 2)
                story.session_ends(name, numbers[name], head=head)
                numbers[name] += 1
                story.session_starts(name, numbers[name])
        story.step(60)
        bench.go_on()
        widths.append(story.night.state.width)
    return story, widths


def test_behind_its_verifier_a_night_gets_narrower_and_stays_so() -> None:
    story, widths = a_night_of_slow_verdicts(loops=16, verdict_s=600.0)
    assert widths[14] == 16
    assert set(widths[-420:]) == {8}
    (scaled,) = bodies_of(story, "Scale")
    assert "the verifier of main is behind" in scaled.why
    assert {strain.task for strain in story.night.sight.strains} == {"main"}
    assert story.daemon.troubles[Kind.HOST_LIMITS].startswith("the verifier of main is behind")
    assert not [order for name in story.night.state.loops for order in story.folders.orders[f"/f/{name}"] if order.now]


def test_a_queue_that_keeps_the_verifier_busy_narrows_nothing() -> None:
    for loops, verdict_s in ((8, 600.0), (16, 60.0), (2, 3600.0)):
        story, widths = a_night_of_slow_verdicts(loops, verdict_s, hours=3)
        assert set(widths) == {loops}
        assert story.daemon.troubles == {}


def test_a_verifier_that_has_caught_up_lets_the_night_get_wider_after_two_hours() -> None:
    backlog = Backlog()
    backlog.note("main", 600.0)
    told = []
    for minute in range(300):
        waiting = 12 if minute < 40 else 6 if minute < 80 else 1
        told.append([strain.narrows for strain in backlog.look(["main"] * waiting, {"main": 2}, minute * 60.0)])
    assert told[:15] == [[]] * 15
    assert told[15:40] == [[True]] * 25
    assert told[40:199] == [[False]] * 159
    assert told[199:] == [[]] * 101


def bodies_of(story: Story, action: str) -> list[events.ActionIntended]:
    return [body for body in story.journal.bodies(events.ActionIntended) if body.type == action]


def crash(story: Story, name: str, number: int) -> None:
    """A session that ends at once with the same error as all others, and the next one."""
    ended = records.TrajectoryEnded(
        outcome=Outcome(kind=Kind.EXITED, detail={"code": 1, "message": f"no such file {number}"}),
        head_before=BASE,
        head_after=BASE,
        claims_done=False,
        usage=records.Usage(),
        compactions=None,
        seconds=0.1,
        attempts=1,
        calls=0,
        leftovers=0,
        log="log",
    )
    story.tell(name, ended, number, f"n{number}")
    story.session_starts(name, number + 1)


def test_what_befalls_most_loops_at_once_is_one_cause_and_one_loop_tries() -> None:
    story = Story(loops=5)
    story.begin()
    for number in (1, 2):
        for name in ("l1", "l2", "l3", "l4"):
            crash(story, name, number)
        story.step(5)
    story.step(1)
    told = [body.outcome for body in story.journal.bodies(events.OutcomeNoted)]
    (shared,) = [outcome for outcome in told if outcome.kind is Kind.SHARED_CAUSE]
    assert shared.evidence[0].what == "4 of 5 loops fail alike: agent.exited"
    assert parked(story) == {"l2", "l3", "l4"}
    for number in range(3, 30):
        crash(story, "l1", number)
        story.step(5)
    assert story.intents("RestartLoop") == []
    assert len([e for e in story.journal.bodies(events.OutcomeNoted) if e.outcome.kind is Kind.SHARED_CAUSE]) == 1
    story.session_ends("l1", 30, head=GOOD)
    story.will_say(GOOD, 1.0)
    story.step(5)
    story.step(1)
    assert parked(story) == set()
    assert all(want is Want.RUNNING for want in wants(story).values())


def test_who_comes_to_it_later_waits_too() -> None:
    story = Story(loops=4)
    story.begin()
    for number in (1, 2):
        for name in ("l1", "l2", "l3"):
            crash(story, name, number)
        story.step(5)
    story.step(1)
    assert parked(story) == {"l2", "l3"}
    for number in range(1, 9):
        crash(story, "l4", number)
        crash(story, "l1", number + 2)
        story.step(5)
    story.step(1)
    assert parked(story) == {"l2", "l3", "l4"}
    assert story.intents("RestartLoop") == []


def test_the_one_that_tries_changes() -> None:
    """It may have a trouble of its own by then."""
    story = Story(loops=3)
    story.begin()
    for number in (1, 2):
        for name in ("l1", "l2", "l3"):
            crash(story, name, number)
        story.step(5)
    story.step(1)
    assert parked(story) == {"l2", "l3"}
    story.step(600)
    story.step(1)
    assert parked(story) == {"l1", "l3"}


class TwoTasks(Story):
    """Every other loop works on a second task."""

    def start_daemon(self) -> None:
        other = replace(self.task(), name="other", verifier=Verifier())
        self.journal.submit([self.entry("", events.TaskAdded(task=other))])
        super().start_daemon()

    @staticmethod
    def loop(name: str) -> Loop:
        return replace(Story.loop(name), task="main" if int(name[1:]) % 2 else "other")


BEHIND = Strain(kind=Kind.HOST_LIMITS, words="the verifier of main is behind", shows_s=900.0, task="main")


def test_a_verifier_that_is_behind_holds_back_the_loops_of_its_own_task_alone() -> None:
    story = TwoTasks(loops=8)
    story.begin()
    story.daemon.hooks.strains = lambda: (BEHIND,)
    story.step(5)
    story.step(1)
    assert story.night.state.width == 6
    assert len(parked(story)) == 2
    assert parked(story) < {"l1", "l3", "l5", "l7"}
    for _ in range(4):
        story.step(900)
        story.step(1)
    assert story.night.state.width == 5  # the last loop of a task goes on
    assert len(parked(story)) == 3
    assert parked(story) < {"l1", "l3", "l5", "l7"}
    story.ask("stop", loops=["l2", "l4"])
    story.step(5)
    assert len(parked(story)) == 3  # the room of others is none for those whose verifier is behind
    story.ask("scale", width=8)
    story.step(5)
    assert parked(story) == set()  # but a person's word counts


def test_a_machine_that_is_short_itself_holds_back_whoever_has_the_least_to_lose() -> None:
    story = TwoTasks(loops=8)
    story.begin()
    for name in ("l1", "l3", "l5", "l7"):
        head = name[1:].rjust(40, "f")
        story.will_say(head, float(name[1:]))
        story.session_ends(name, 1, head=head)
        story.step(5)
    story.daemon.hooks.strains = lambda: (BEHIND, MEMORY)
    story.step(5)
    story.step(1)
    assert story.night.state.width == 4
    assert len(parked(story) & {"l2", "l4", "l6", "l8"}) == 3
