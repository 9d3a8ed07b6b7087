"""The few things the daemon asks of the outside world: working defaults in edges/, fakes in testing.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ralphd.core.advice import Question
from ralphd.core.events import Entry
from ralphd.core.exchange import Assignment, Order
from ralphd.core.model import Candidate, Loop, Task, Verdict
from ralphd.core.outcomes import Kind
from ralphd.core.policy import Head


class Clock(Protocol):
    """Three clocks: the wall's (epoch seconds, may jump), one that stands still in suspend, one that goes on in it."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    def boottime(self) -> float: ...


class Journal(Protocol):
    """The one writer. Entries are stored in the order submitted; a runner's record is stored once."""

    def submit(self, entries: Sequence[Entry], then: Callable[[list[Entry]], None] | None = None) -> None:
        """Queue entries. ``then`` gets those really stored, with ids, after the commit, from the writer's thread."""

    @property
    def trouble(self) -> str:
        """Say why the newest attempt to write failed; empty when all is well."""

    @property
    def trouble_kind(self) -> Kind:
        """Return which outcome the trouble is: host.disk_full, host.inodes, host.io_error or daemon.journal_error."""

    def close(self) -> object:
        """Write what waits and stop."""


@dataclass(frozen=True, kw_only=True)
class PaneSeen:
    """A pane of ralphd's own tmux server."""

    pane: str
    window: str
    pid: int
    attached: bool


class Panes(Protocol):
    """The private tmux server. Raises TmuxError; a slow server raises it within seconds."""

    def open_windows(self, windows: Sequence[tuple[str, tuple[str, ...]]]) -> Mapping[str, str]:
        """Open a window for each (name, argv), the server first if need be; the pane ids of those that opened."""

    def panes(self) -> Mapping[str, PaneSeen]:
        """Return all panes by pane id; empty when no server runs."""

    def server(self) -> str:
        """Name the server process that runs now, unlike any before it; empty when there is none."""

    def kill_pane(self, pane: str) -> None: ...

    def kill_server(self) -> None:
        """End the server and wait until its process is gone."""


class Repositories(Protocol):
    """Night repositories and the loops' branches in them. Raises GitError."""

    def add_worktrees(self, task: Task, loops: Sequence[Loop], tips: Mapping[str, str]) -> None:
        """Make the loops' worktrees, not checked out yet, and their branches. Nothing happens where both exist.

        ``tips``: where branches were last, by loop; one that has been deleted since is made there again.
        """

    def heads(self, task: Task, night: str) -> Mapping[str, Head]:
        """Return the tips of the night's branches by loop id."""

    def moved_by_others(self, task: Task, loop: Loop, known: str, found: str) -> bool:
        """Tell whether the loop's branch went from ``known`` to ``found`` and not by its own worktree."""

    def put_back(self, task: Task, loop: Loop, *, found: str, to: str, stamp: str) -> str:
        """Keep ``found`` in a rescue ref, set the loop's branch to ``to`` unless it moved on, and return the ref."""

    def deliver(
        self, task: Task, night: str, best: Mapping[str, str], tips: Mapping[str, str] | None = None
    ) -> Sequence[str]:
        """Bring the night's branches into the user's repository as refs/ralphd/<night>/…, and change nothing else.

        ``best`` maps loops to commits that must come along even where no branch holds them any more, ``tips`` to where
        a branch was that is gone. Returns a line for each that could not be brought over.
        """

    def fingerprint(self, task: Task) -> Mapping[str, str]:
        """Hash what agents must not change in the night repository: config, hooks, attributes."""

    def put_back_guarded(self, task: Task) -> Sequence[str]:
        """Make that, and each loop's own configuration, what it was but for harmless settings.

        Returns what was put back; costs little where nothing changed. Raises OSError.
        """


@dataclass(frozen=True, kw_only=True)
class Told:
    """New records of a loop, and how many lines were refused as forged or damaged."""

    entries: tuple[Entry, ...]
    refused: int = 0


class Folders(Protocol):
    """The folders that the daemon and the runners share (core/exchange.py names the files)."""

    def assign(self, assignment: Assignment, preamble: str) -> None:
        """Write the loop's assignment, and the preamble's text to the path it names."""

    def order(self, folder: str, order: Order) -> None:
        """Write the order and ring the runner's bell; an older order never takes the place of a newer one."""

    def note(self, folder: str, name: str, text: str) -> None:
        """Leave a note (core/exchange.py says what its name means) and ring. The same name twice is one note.

        An empty text takes back what no session has been given yet.
        """

    def told(self, loop: Loop, night: str, after_seq: int) -> Told:
        """Read what the runner has appended since the last call."""

    def alive(self, folder: str) -> bool:
        """Tell whether a runner holds the loop's lock."""


class Judge(Protocol):
    """Runs a verifier once. Never raises for what a candidate does; the trouble is in the verdict's ``kind``."""

    def judge(self, task: Task, candidate: Candidate, base: Verdict | None) -> Verdict: ...

    def close(self) -> None:
        """End every run under way."""


class Notifier(Protocol):
    """The way to a person who is not looking."""

    def notify(self, title: str, body: str) -> None:
        """Tell one thing, in plain text. Gives up within a minute; raises whatever tells why."""


class Adviser(Protocol):
    """A model that is asked about a loop in trouble, through an endpoint that speaks the Messages API."""

    @property
    def model(self) -> str:
        """Return its name; empty: there is none, and the policy decides alone."""

    def ask(self, question: Question) -> bytes:
        """Return the body of its answer, whatever that is. Raises AdviserError, within half a minute."""

    def reach(self) -> None:
        """See, as cheaply as can be, whether it would answer. Raises AdviserError."""

    def close(self) -> None:
        """End every call under way."""


class Host(Protocol):
    """The machine's processes."""

    def end_leftovers(self, nonces: Iterable[str]) -> int:
        """End every process that carries one of these loops' nonces in its environment; returns how many there were."""
