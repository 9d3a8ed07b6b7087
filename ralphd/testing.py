"""Fakes for every port, so that whole nights can be told as stories without tmux, git or a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ralphd.core.advice import Question
from ralphd.core.errors import AdviserError, EdgeError
from ralphd.core.events import Body, Entry
from ralphd.core.exchange import Assignment, Order
from ralphd.core.model import Candidate, Loop, Task, Verdict
from ralphd.core.outcomes import Kind
from ralphd.core.policy import Head
from ralphd.ports import PaneSeen, Told


@dataclass
class FakeClock:
    """Stands still until ``pass_time``. The wall may ``jump`` without time passing; the machine may ``suspend``."""

    wall: float = 1_800_000_000.0
    steady: float = 1_000.0
    slept: float = 0.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def boottime(self) -> float:
        return self.steady + self.slept

    def suspend(self, seconds: float) -> None:
        self.wall += seconds
        self.slept += seconds

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def jump(self, seconds: float) -> None:
        self.wall += seconds


@dataclass
class FakeJournal:
    """Keeps entries in memory; while ``stuck`` they wait, and ``unstick`` stores them in order."""

    stored: list[Entry] = field(default_factory=list)
    stuck: str = ""
    trouble_kind: Kind = Kind.DISK_FULL
    waiting: list[tuple[list[Entry], Callable[[list[Entry]], None] | None]] = field(default_factory=list)

    @property
    def trouble(self) -> str:
        return self.stuck

    def submit(self, entries: Sequence[Entry], then: Callable[[list[Entry]], None] | None = None) -> None:
        self.waiting.append((list(entries), then))
        if not self.stuck:
            self.unstick()

    def unstick(self) -> None:
        self.stuck = ""
        while self.waiting:
            entries, then = self.waiting.pop(0)
            fresh = self._store(entries)
            if then is not None:
                then(fresh)

    def close(self) -> None:
        self.unstick()

    def bodies(self, kind: type[Body]) -> list[Body]:
        return [entry.body for entry in self.stored if isinstance(entry.body, kind)]

    def _store(self, entries: list[Entry]) -> list[Entry]:
        known = {(entry.loop, entry.seq) for entry in self.stored if entry.seq}
        fresh = []
        for entry in entries:
            if entry.seq and (entry.loop, entry.seq) in known:
                continue
            known.add((entry.loop, entry.seq))
            fresh.append(replace(entry, id=len(self.stored) + 1))
            self.stored.append(fresh[-1])
        return fresh


@dataclass
class FakePanes:
    """Windows are names in a dict. ``broken`` makes every call fail as a dead tmux would."""

    windows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    up: bool = True
    born: int = 0  # servers so far
    broken: str = ""

    def open_windows(self, windows: Sequence[tuple[str, tuple[str, ...]]]) -> Mapping[str, str]:
        self._check()
        self.born += not self.up
        self.up = True
        self.windows.update(windows)
        return {name: f"%{name}" for name, _ in windows}

    def panes(self) -> Mapping[str, PaneSeen]:
        self._check()
        return {f"%{name}": PaneSeen(pane=f"%{name}", window=name, pid=1, attached=False) for name in self.windows}

    def server(self) -> str:
        return f"server {self.born}" if self.up else ""

    def kill_pane(self, pane: str) -> None:
        self._check()
        self.windows.pop(pane.removeprefix("%"), None)

    def kill_server(self) -> None:
        self.windows.clear()
        self.up = False

    def _check(self) -> None:
        if self.broken:
            raise EdgeError(self.broken)


@dataclass
class FakeRepositories:
    """``tips`` holds each loop's branch; ``delivered`` the tasks whose results were brought over."""

    tips: dict[str, Head] = field(default_factory=dict)
    worktrees: list[str] = field(default_factory=list)
    delivered: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    prints: dict[str, str] = field(default_factory=dict)
    to_put_back: tuple[str, ...] = ()
    hijacked: dict[str, tuple[str, str]] = field(default_factory=dict)  # loop -> where its branch was and was put to
    broken: str = ""

    def add_worktrees(self, task: Task, loops: Sequence[Loop], tips: Mapping[str, str]) -> None:
        for loop in loops:
            self.worktrees.append(loop.id)
            start = tips.get(loop.id, task.base)
            self.tips.setdefault(loop.id, Head(commit=start, tree=f"tree of {start}"))

    def heads(self, task: Task, night: str) -> Mapping[str, Head]:
        del task, night
        return dict(self.tips)

    def moved_by_others(self, task: Task, loop: Loop, known: str, found: str) -> bool:
        del task
        return self.hijacked.get(loop.id) == (known, found)

    def put_back(self, task: Task, loop: Loop, *, found: str, to: str, stamp: str) -> str:
        del task
        if self.broken:
            raise EdgeError(self.broken)
        self.kept[f"{loop.id}/{stamp}"] = found
        self.tips[loop.id] = Head(commit=to, tree=f"tree of {to}")
        return f"refs/ralphd/rescue/{loop.id}/{stamp}"

    def deliver(
        self, task: Task, night: str, best: Mapping[str, str], tips: Mapping[str, str] | None = None
    ) -> Sequence[str]:
        del night, tips
        self.kept.update(best)
        self.delivered.append(task.name)
        return ()

    def put_back_guarded(self, task: Task) -> Sequence[str]:
        del task
        back, self.to_put_back = self.to_put_back, ()
        return back

    def fingerprint(self, task: Task) -> Mapping[str, str]:
        del task
        return dict(self.prints)


@dataclass
class FakeFolders:
    """A runner is a list of records to tell and a flag whether it lives."""

    assignments: dict[str, Assignment] = field(default_factory=dict)
    orders: dict[str, list[Order]] = field(default_factory=dict)
    notes: dict[str, dict[str, str]] = field(default_factory=dict)
    telling: dict[str, list[Entry]] = field(default_factory=dict)
    living: set[str] = field(default_factory=set)

    def assign(self, assignment: Assignment, preamble: str) -> None:
        del preamble
        self.assignments[assignment.folder] = assignment

    def order(self, folder: str, order: Order) -> None:
        self.orders.setdefault(folder, []).append(order)

    def note(self, folder: str, name: str, text: str) -> None:
        notes = self.notes.setdefault(folder, {})
        if text:
            notes.setdefault(name, text)
        else:
            notes.pop(name, None)

    def told(self, loop: Loop, night: str, after_seq: int) -> Told:
        del night
        news = [entry for entry in self.telling.pop(loop.id, []) if entry.seq > after_seq]
        return Told(entries=tuple(news))

    def alive(self, folder: str) -> bool:
        return folder in self.living


@dataclass
class FakeJudge:
    """Says of a commit what ``verdicts`` holds, one after the other; of an unknown one that it can't run."""

    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def judge(self, task: Task, candidate: Candidate, base: Verdict | None) -> Verdict:
        del task, base
        self.asked.append(candidate.commit)
        told = self.verdicts[candidate.commit]
        return told.pop(0) if len(told) > 1 else told[0]

    def close(self) -> None:
        """Nothing runs."""


@dataclass
class FakeNotifier:
    """Keeps what it was told; ``broken`` makes every call fail."""

    told: list[tuple[str, str]] = field(default_factory=list)
    broken: str = ""

    def notify(self, title: str, body: str) -> None:
        if self.broken:
            raise OSError(self.broken)
        self.told.append((title, body))


@dataclass
class FakeHost:
    """Counts whose leftovers were asked to end."""

    ended: list[str] = field(default_factory=list)

    def end_leftovers(self, nonces: Iterable[str]) -> int:
        self.ended += nonces
        return 0


@dataclass
class FakeAdviser:
    """Answers what ``reply`` makes of each question: bytes, or an AdviserError to raise. ``asked`` keeps them."""

    reply: Callable[[Question], bytes | AdviserError]
    model: str = "fake"
    asked: list[Question] = field(default_factory=list)
    down: AdviserError | None = None
    probes: int = 0

    def ask(self, question: Question) -> bytes:
        self.asked.append(question)
        told = self.down or self.reply(question)
        if isinstance(told, AdviserError):
            raise told
        return told

    def reach(self) -> None:
        self.probes += 1
        if self.down is not None:
            raise self.down

    def close(self) -> None:
        """Nothing runs."""
