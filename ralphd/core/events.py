"""What the journal holds: entries, each with one body of a closed union. State and report are folds over them."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core import actions, codec, records
from ralphd.core.model import Loop, Task, Verdict
from ralphd.core.outcomes import Kind, Outcome


@dataclass(frozen=True, kw_only=True)
class NightStarted:
    """The night's frame.

    ``ends_at``: epoch seconds, None: until stopped. ``for_s``: it ends so long after its start, whatever the wall's
    clock is set to meanwhile; None: it ends when that clock shows ``ends_at``. ``config``: ralphd.toml as understood,
    redacted.
    """

    width: int
    ends_at: float | None
    version: str
    config: dict[str, object]
    for_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class TaskAdded:
    """A question joins the night."""

    task: Task


@dataclass(frozen=True, kw_only=True)
class LoopAdded:
    """A loop joins the night."""

    loop: Loop


@dataclass(frozen=True, kw_only=True)
class ActionIntended:
    """Written before the effect. ``type`` is the action's class name, ``args`` its fields.

    ``cause`` names the trouble that it shall cure, empty when there is none.
    """

    type: str
    args: dict[str, object]
    why: str
    by: str
    cause: str = ""


@dataclass(frozen=True, kw_only=True)
class ActionSettled:
    """What came of intent ``intent`` (an entry id). ``result``: done, failed, refused, superseded or overtaken.

    Overtaken is a verification in whose place another one waits; ``detail`` is then that one's commit.
    """

    intent: int
    result: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class VerdictGiven:
    """A candidate was judged. The entry names the trajectory that made the commit."""

    verdict: Verdict
    submission: bool


@dataclass(frozen=True, kw_only=True)
class ClaimSettled:
    """A trajectory that claimed done was judged: its outcome becomes ``done.finished`` or ``verify.false_done``.

    ``entry`` is the id of its TrajectoryEnded entry.
    """

    entry: int
    outcome: Outcome


@dataclass(frozen=True, kw_only=True)
class OutcomeNoted:
    """A typed end that no runner reports: of a verification, tmux, the host, or the daemon itself."""

    outcome: Outcome


@dataclass(frozen=True, kw_only=True)
class Consulted:
    """A model was asked about the loop's trouble. ``taken``: its choice is intended, in the same commit.

    ``choice`` is what it chose of ``offered``, or tried to; ``evidence`` the entries it named, ``why`` its words.
    Not taken: ``refused`` is the outcome (supervisor.*) and ``reason`` says it in words. Tokens None: not told.
    ``shared``: how many questions went into the same request: its hash is the same for all, its tokens are shared out.
    """

    model: str
    trouble: str
    prompt_sha256: str
    offered: tuple[str, ...]
    choice: str
    evidence: tuple[int, ...]
    why: str
    taken: bool
    refused: str = ""
    reason: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    shared: int = 1


@dataclass(frozen=True, kw_only=True)
class NightEnded:
    """The night is over. ``why``: stopped, time, goal."""

    why: str


DaemonBody = (
    NightStarted
    | TaskAdded
    | LoopAdded
    | ActionIntended
    | ActionSettled
    | VerdictGiven
    | ClaimSettled
    | OutcomeNoted
    | Consulted
    | NightEnded
)
Body = records.RunnerBody | DaemonBody

BODIES: dict[str, type] = {cls.__name__: cls for cls in (*records.RunnerBody.__args__, *DaemonBody.__args__)}
RUNNER_BODIES = frozenset(cls.__name__ for cls in records.RunnerBody.__args__)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One thing that happened.

    ``id`` is given by the journal (0 before); ``seq`` is the runner's own count, 0 for what the daemon says.
    """

    at: float  # epoch seconds
    night: str
    body: Body
    id: int = 0
    loop: str = ""
    generation: int = 0
    trajectory: int = 0
    seq: int = 0
    nonce: str = ""


def outcome_of(body: Body) -> Outcome | None:
    """Return the outcome that an entry counts for, if any. A settled claim replaces its trajectory's, it adds none."""
    match body:
        case records.Repaired(outcome=outcome) if outcome.kind is Kind.TAMPERED:
            return None  # it was counted with the verdict that it mends
        case (
            records.ToolEnded(outcome=outcome)
            | records.AttemptEnded(outcome=outcome)
            | records.TrajectoryEnded(outcome=outcome)
            | records.Repaired(outcome=outcome)
            | OutcomeNoted(outcome=outcome)
        ):
            return outcome
        case _:
            return None


def body_to_json(body: Body) -> tuple[str, object]:
    return type(body).__name__, codec.dump(body)


def body_from_json(type_: str, data: object) -> Body:
    """Build a body; raises codec.Malformed for an unknown type or a misshapen body."""
    cls = BODIES.get(type_)
    if cls is None:
        raise codec.Malformed(f"no such entry type {type_[:60]!r}")
    body: Body = codec.load(cls, data)
    return body


def action_to_json(action: actions.Action) -> tuple[str, dict[str, object]]:
    data = codec.dump(action)
    assert isinstance(data, dict)
    return type(action).__name__, data


_ACTIONS: dict[str, type] = {cls.__name__: cls for cls in actions.Action.__args__}


def action_from_json(type_: str, args: dict[str, object]) -> actions.Action:
    cls = _ACTIONS.get(type_)
    if cls is None:
        raise codec.Malformed(f"no such action {type_[:60]!r}")
    action: actions.Action = codec.load(cls, args)
    return action
