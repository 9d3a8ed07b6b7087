"""The one queue: everything that happens outside the daemon's main thread arrives here as a typed message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from ralphd.core.errors import AdviserError
from ralphd.core.events import Body, Entry
from ralphd.core.model import Candidate, Verdict


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The journal committed these entries; of ``submitted`` some may have been there already."""

    entries: tuple[Entry, ...]
    submitted: int


@dataclass(frozen=True, kw_only=True)
class Settled:
    """An action's effect is done or failed. ``entries``: what else there is to record, with the loop it concerns."""

    intent: int
    result: str
    detail: str = ""
    bodies: tuple[tuple[str, int, int, Body], ...] = ()  # loop, generation, trajectory, body


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A candidate has its verdict."""

    intent: int
    candidate: Candidate
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A person's request through the control socket. ``reply(data, last)`` may be called several times."""

    request: dict[str, object]
    reply: Callable[[dict[str, object], bool], None]


@dataclass(frozen=True, kw_only=True)
class Rang:
    """A scheduled job's time has come."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A watched file changed."""

    path: str


@dataclass(frozen=True, kw_only=True)
class Leave:
    """A signal asks the daemon to go. The loops stay."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Closed:
    """The night's results are brought over, and nothing that was started runs any more."""

    trouble: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Advised:
    """The supervisor's model answered, or didn't. ``serial``: of the request."""

    serial: int
    body: bytes
    error: AdviserError | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Reached:
    """Whether the model's endpoint answers was looked at. ``of``: how many advisers there were before that one."""

    error: AdviserError | None
    of: int = 0


Message = Stored | Settled | Judged | Asked | Rang | Changed | Leave | Closed | Advised | Reached
Inbox = SimpleQueue[Message]
