"""What the page of a loop says of it: facts in words, what matters to a person first, what helps to find it last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ralphd.views import status as words
from ralphd.views.kinds import plainly
from ralphd.views.phrases import big, short

if TYPE_CHECKING:
    from collections.abc import Callable


def facts(loop: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the names and values of all that is known of a loop; a field that has no place here is left out."""
    return tuple((name, told(loop) or "-") for name, told in FACTS)


def tokens(loop: dict[str, Any]) -> str:
    return f"{_big(loop.get('tokens_in'))}/{_big(loop.get('tokens_out'))}"


def _big(count: object) -> str:
    return big(count) if isinstance(count, int) else "?" if count is None else str(count)


def _field(name: str, unit: str = "") -> Callable[[dict[str, Any]], str]:
    return lambda loop: "" if loop.get(name) is None else f"{words.figure(loop.get(name))}{unit}"


def _session(loop: dict[str, Any]) -> str:
    return f"{words.figure(loop.get('trajectory'))}, of generation {words.figure(loop.get('generation'))}"


def _outcome(loop: dict[str, Any]) -> str:
    name = str(loop.get("last_outcome") or "")
    return f"{told} ({name})" if (told := plainly(name)) != name else name


def _quiet(loop: dict[str, Any]) -> str:
    seconds = loop.get("quiet_for_s")
    return "no session runs" if seconds is None else words.span(seconds)


FACTS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("state", _field("state")),
    ("needs you", lambda loop: "yes" if loop.get("needs_person") is True else "no"),
    ("note", words.note),
    ("task", _field("task")),
    ("score of its newest commit", _field("score")),
    ("best score", _field("best_score")),
    ("gain an hour", _field("gain_per_h")),
    ("session", _session),
    ("how the last one ended", _outcome),
    ("silent for", _quiet),
    ("compactions in this session", _field("compactions")),
    ("tokens in/out", tokens),
    ("commit", lambda loop: short(str(loop.get("head") or ""))),
    ("branch", _field("branch")),
    ("worktree", _field("worktree")),
    ("shares notes in", _field("pod")),
    ("agent's process", _field("pid")),
    ("tmux pane", _field("pane")),
)
