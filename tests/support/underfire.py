"""A story whose daemon may die at any message: what the world keeps is kept, and each effect is checked as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from queue import Empty
from typing import Any

from support.invariants import assert_each_record_once, assert_one_outcome_each, intents_of, settled_of
from support.stories import BASE, Story

from ralphd.core import events, records
from ralphd.core.exchange import Order, Want
from ralphd.core.fold import fold
from ralphd.core.model import Candidate, Loop, Task, Verdict
from ralphd.core.outcomes import Kind
from ralphd.core.policy import SPAWN_PATIENCE_S, Head
from ralphd.daemon.inbox import Asked, Message
from ralphd.daemon.recover import recover
from ralphd.ports import Told
from ralphd.testing import FakeFolders, FakeJudge, FakePanes

SHOWS_ITSELF_S = SPAWN_PATIENCE_S - 5  # a runner that takes longer than this never comes


class Later(Executor):
    """Work that waits until the story lets it happen."""

    def __init__(self, work: list[Callable[[], Any]]) -> None:
        self.work = work

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.work.append(lambda: fn(*args, **kwargs))
        return Future()


class KeptFolders(FakeFolders):
    """Records stay in their file; each daemon reads it for itself. Nothing is written without an intent."""

    story: UnderFire
    heard: dict[str, int]

    def told(self, loop: Loop, night: str, after_seq: int) -> Told:
        after = max(after_seq, self.heard.get(loop.id, 0))
        news = [entry for entry in self.telling.get(loop.id, []) if entry.seq > after]
        self.heard[loop.id] = news[-1].seq if news else after
        return Told(entries=tuple(news))

    def order(self, folder: str, order: Order) -> None:
        self.story.must_be_intended(order.serial)
        super().order(folder, order)

    def note(self, folder: str, name: str, text: str) -> None:
        if text:
            self.story.must_be_intended(int(name[:8]))
        else:
            self.story.must_be_withdrawing(name)
        super().note(folder, name, text)


class WatchedPanes(FakePanes):
    """A window has an age; one opened over a living runner, or without an intent, fails the story."""

    story: UnderFire

    def open_windows(self, windows: Sequence[tuple[str, tuple[str, ...]]]) -> Mapping[str, str]:
        for name, _ in windows:
            self.story.must_be_spawning(name)
            self.story.see(name not in self.story.runners, f"{name} runs already")
            self.story.opened_at[name] = self.story.clock.steady
        return super().open_windows(windows)

    def kill_pane(self, pane: str) -> None:
        name = pane.removeprefix("%")
        if name in self.story.runners:
            self.story.see(self.story.night.state.ending, f"{name} was disturbed")
            self.story.hang_up(name)
        super().kill_pane(pane)

    def kill_server(self) -> None:
        self.story.see(not self.story.runners, "the server was ended under its runners")
        super().kill_server()


class AnyJudge(FakeJudge):
    """Scores a commit by its number, the base with 0."""

    def judge(self, task: Task, candidate: Candidate, base: Verdict | None) -> Verdict:
        self.asked.append(candidate.commit)
        score = 0.0 if candidate.commit == BASE else float(int(candidate.commit, 16) % 7)
        return Verdict(
            task=task.name, loop=candidate.loop, commit=candidate.commit, tree=f"tree of {candidate.commit}",
            score=score, passed=False, why="so",
        )  # fmt: skip


class Runner:
    """What a runner knows: the newest order it heard, and the session that it has open."""

    def __init__(self) -> None:
        self.serial = -1
        self.want = Want.RUNNING
        self.session = 0
        self.generation = 1


class UnderFire(Story):
    """``crash`` forgets all but the journal and the files; ``one_step`` lets one message or piece of work happen."""

    def __init__(self, **more: Any) -> None:
        self.runners: dict[str, Runner] = {}
        self.opened_at: dict[str, float] = {}
        self.sessions: dict[str, int] = {}
        self.commits = 0
        self.complaints: list[str] = []
        self.work: list[Callable[[], Any]] = []
        self.first = True
        super().__init__(**more)

    # ------------------------------------------------------------------ the daemon

    def start_daemon(self) -> None:
        if self.first:
            self.folders, self.panes, self.judge = KeptFolders(), WatchedPanes(up=False), AnyJudge()
            self.folders.story = self.panes.story = self
        self.folders.heard = {}
        super().start_daemon()
        self.work = []
        self.night.doer.slow = self.night.doer.queue.pool = Later(self.work)
        if not self.first:
            recover(self.night)
        self.first = False

    def crash(self) -> None:
        """The daemon dies at this very moment, and a new one comes. What the journal had not stored is gone."""
        self.journal.waiting.clear()
        self.start_daemon()

    def make_pass(self) -> None:
        if not self.daemon.gone:
            self.daemon._pass()
            self.daemon._tell_ready()

    def one_step(self, *, work_first: bool = False) -> bool:
        """Handle one message, or do one piece of slow work. False when there is neither."""
        message = None if work_first and self.work else self._message()
        if message is not None:
            if not self.daemon.gone:
                self.daemon._handle(message)
            return True
        if self.work:
            self.work.pop(0)()
            return True
        return False

    def _message(self) -> Message | None:
        try:
            return self.inbox.get_nowait()
        except Empty:
            return None

    def drain(self) -> None:
        for _ in range(10_000):
            if not self.one_step():
                return
        raise AssertionError("the daemon never comes to rest")

    def wish(self, verb: str, **request: object) -> None:
        """A person asks; nothing that follows from it happens yet."""
        self.daemon._handle(Asked(request={"verb": verb, **request}, reply=lambda data, last: None))

    # ------------------------------------------------------------------ the world

    def run_up(self, name: str) -> None:
        """A runner comes up in its window, if it ever does; it reads what is in its folder."""
        young = self.clock.steady < self.opened_at.get(name, -1e9) + SHOWS_ITSELF_S
        if name in self.runners or name not in self.panes.windows or not young:
            return
        self.runners[name] = Runner()
        if self.sessions.get(name, 0) < 0:  # the last runner was killed in a session
            self.sessions[name] = -self.sessions[name]
            self._end(name, self.sessions[name], Kind.PANE_LOST, self._generation(name))
        self.runner_starts(name)
        self.obey(name)

    def obey(self, name: str) -> None:
        """Read the newest order, and do as it says."""
        runner = self.runners[name]
        orders = self.folders.orders.get(f"/f/{name}", [])
        newest = max((order for order in orders if order.serial > runner.serial), key=lambda o: o.serial, default=None)
        cut = newest is not None and (newest.now or newest.now_at > runner.serial)
        if newest is not None:
            runner.serial, runner.want = newest.serial, newest.want
        if runner.session and (cut or runner.want is not Want.RUNNING):
            self.end_session(name, Kind.STOPPED)
        if runner.want is Want.STOPPED:
            self.tell(name, records.RunnerStopped(why=""), generation=runner.generation)
            self._gone(name)
        elif runner.want is Want.RUNNING and not runner.session:
            self.begin_session(name)

    def begin_session(self, name: str) -> None:
        runner = self.runners[name]
        runner.generation = self._generation(name)
        self.sessions[name] = runner.session = self.sessions.get(name, 0) + 1
        nonce = f"{name} {runner.session}"
        started = records.TrajectoryStarted(head=BASE, log="log", prompt_sha256="", prompt_bytes=1)
        self.tell(name, started, runner.session, nonce, runner.generation)
        agent = records.AgentStarted(pid=100, start_ticks=1, attempt=1)
        self.tell(name, agent, runner.session, nonce, runner.generation)

    def end_session(self, name: str, kind: Kind, *, commits: bool = False, claims: bool = False) -> None:
        runner = self.runners[name]
        if not runner.session:
            return
        if commits:
            self.commits += 1
            commit = f"{self.commits:040x}"
            self.repositories.tips[name] = Head(commit=commit, tree=f"tree of {commit}")
        self._end(name, runner.session, kind, runner.generation, claims=claims)
        runner.session = 0

    def _end(self, name: str, session: int, kind: Kind, generation: int, *, claims: bool = False) -> None:
        head = self.repositories.tips[name].commit
        ended = records.TrajectoryEnded(
            outcome=events.Outcome(kind=kind), head_before=BASE, head_after=head, claims_done=claims,
            usage=records.Usage(), compactions=None, seconds=1.0, attempts=1, calls=0, leftovers=0, log="log",
        )  # fmt: skip
        self.tell(name, ended, session, f"{name} {session}", generation)

    def kill_runner(self, name: str) -> None:
        """It is killed, and its window ends with it; the next one will find the open session."""
        self.sessions[name] = -self.sessions.get(name, 0) if self.runners[name].session else self.sessions.get(name, 0)
        self.panes.windows.pop(name, None)
        self._gone(name)

    def hang_up(self, name: str) -> None:
        """Its window is closed, by whomever."""
        runner = self.runners[name]
        self.end_session(name, Kind.STOPPED)
        self.tell(name, records.RunnerStopped(why="SIGHUP: the pane was closed"), generation=runner.generation)
        self._gone(name)

    def server_dies(self) -> None:
        for name in list(self.runners):
            self.hang_up(name)
        self.panes.windows.clear()
        self.panes.up = False

    def _gone(self, name: str) -> None:
        del self.runners[name]
        self.panes.windows.pop(name, None)
        self.runner_dies(name)

    def _generation(self, name: str) -> int:
        return self.folders.assignments[f"/f/{name}"].generation

    # ------------------------------------------------------------------ what must hold

    def open_intents(self) -> dict[int, events.ActionIntended]:
        stored = self.journal.stored
        settled = set(settled_of(stored))
        return {intent: body for intent, body in intents_of(stored).items() if intent not in settled}

    def must_be_intended(self, intent: int) -> None:
        self.see(intent in self.open_intents(), f"done without an intent in the journal: {intent}")

    def must_be_withdrawing(self, note: str) -> None:
        notes = {body.args.get("note") for body in self.open_intents().values() if body.type == "Withdraw"}
        self.see(note in notes, f"{note} was taken back without an intent in the journal")

    def must_be_spawning(self, name: str) -> None:
        spawning = [body for body in self.open_intents().values() if body.type == "SpawnRunner"]
        named = name in {body.args["loop"] for body in spawning}
        self.see(named, f"{name} was spawned without an intent in the journal")

    def see(self, right: object, complaint: str) -> None:
        """Keep a complaint. It can't be raised where it is seen: the doer would take it for a failed action."""
        if not right:
            self.complaints.append(complaint)

    def must_hold(self) -> None:
        assert not self.complaints, "; ".join(self.complaints)
        assert_one_outcome_each(self.journal.stored)
        assert_each_record_once(self.journal.stored, self._written())
        if self.inbox.empty() and not self.journal.stuck and not self.daemon.gone:
            assert self.night.state == fold(self.journal.stored)

    def must_hold_at_rest(self, wanted: Iterable[str] = ()) -> None:
        """``wanted``: loops that must run."""
        assert not self.complaints, "; ".join(self.complaints)
        assert_one_outcome_each(self.journal.stored, at_rest=True)
        assert_each_record_once(self.journal.stored, self._written(), whole=True)
        assert self.night.state == fold(self.journal.stored)
        for name in wanted:
            assert name in self.runners, f"{name} does not run"

    def _written(self) -> dict[str, list[int]]:
        return {name: [entry.seq for entry in told] for name, told in self.folders.telling.items()}
