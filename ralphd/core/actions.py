"""What ralphd can do to a night: a closed union of values that somebody else carries out."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.model import Candidate

ASKED = "the operator asked"  # why, of all that a person asks for


@dataclass(frozen=True, kw_only=True)
class SpawnRunner:
    """Open the loop's window with a runner in it; whatever the last runner left behind is ended first."""

    loop: str


@dataclass(frozen=True, kw_only=True)
class Pause:
    """Let the session end (or end it ``now``) and hold the loop."""

    loop: str
    now: bool = False


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Let a held loop go on; a wait is cut short, with ``now`` also one of the CLI's own."""

    loop: str
    now: bool = False


@dataclass(frozen=True, kw_only=True)
class StopLoop:
    """End the loop for good (for this night)."""

    loop: str
    now: bool = False


@dataclass(frozen=True, kw_only=True)
class RestartLoop:
    """A new generation. ``reset_to`` (a commit) makes it clean: rescue ref first, then the reset."""

    loop: str
    reset_to: str = ""


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Judge a candidate."""

    candidate: Candidate


@dataclass(frozen=True, kw_only=True)
class Tell:
    """Tell the loop a note from a fixed template: its running session if the CLI takes input then, else the next one.

    ``slots`` fill the template. ``now``: a session that takes no input is interrupted for it and taken up again.
    """

    loop: str
    template: str
    slots: dict[str, str]
    now: bool = False


@dataclass(frozen=True, kw_only=True)
class Withdraw:
    """Take back a note, named by its file, that no session has been given yet."""

    loop: str
    note: str


@dataclass(frozen=True, kw_only=True)
class EndNight:
    """Stop every loop, bring the results over, close the night."""

    now: bool = False


@dataclass(frozen=True, kw_only=True)
class ReturnBranch:
    """Set the loop's branch to ``to`` again, from where somebody else put it; ``found`` is kept in a rescue ref."""

    loop: str
    found: str
    to: str


@dataclass(frozen=True, kw_only=True)
class Notify:
    """Tell the person what waits for them. ``key`` names the need; ``told`` is what leaves this machine."""

    key: str
    title: str
    body: str
    told: str = "`ralphd status` says more."


@dataclass(frozen=True, kw_only=True)
class Park:
    """Hold a loop back for a while, from its session's end on; ``now`` when the machine itself is in danger.

    ``because`` says to whom it belongs to let it go on: ``trouble``, ``width`` or ``shared cause``.
    """

    loop: str
    because: str
    now: bool = False


@dataclass(frozen=True, kw_only=True)
class Unpark:
    """Let a loop that was held back go on."""

    loop: str


@dataclass(frozen=True, kw_only=True)
class Restore:
    """Put protected files (``paths``), which ``commit`` changed, back as they were, before the loop's next session."""

    loop: str
    paths: tuple[str, ...]
    commit: str


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Run ``width`` loops at once. Loops that are too many are held back, some that are held back go on."""

    width: int


@dataclass(frozen=True, kw_only=True)
class FreeDisk:
    """Remove what ralphd itself can make again or needs no more. Never anybody's work."""


Action = (
    SpawnRunner
    | Pause
    | Resume
    | StopLoop
    | RestartLoop
    | Verify
    | Tell
    | Withdraw
    | ReturnBranch
    | EndNight
    | Park
    | Unpark
    | Restore
    | Scale
    | FreeDisk
    | Notify
)


def key(action: Action) -> str:
    """Name what an action is about: two with one key are one."""
    match action:
        case Verify(candidate=candidate):
            return f"Verify {candidate.task} {candidate.commit}"
        case EndNight() | Scale() | FreeDisk():
            return type(action).__name__
        case Notify(key=name):
            return f"Notify {name}"
        case Tell(loop=loop, template=template, slots=slots):
            return f"Tell {loop} {template} {sorted(slots.items())}"
        case Withdraw(loop=loop, note=note):
            return f"Withdraw {loop} {note}"
        case _:
            return f"{type(action).__name__} {action.loop}"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """An action with who wants it and why: ``by`` is ``policy``, ``model``, ``operator`` or ``runner``.

    ``cause`` names the trouble that it shall cure, if any (core/policy/troubles.py).
    """

    action: Action
    why: str
    by: str = "policy"
    cause: str = ""
