"""Which loop asks, in which session and turn, and for which time?

A night is many sessions of several loops on one server, so nothing is handed out from a queue: the answer depends on
the conversation. Recorded of the real CLIs, each request says

* its session, with Claude Code and codex; the others have conversations without a name;
* where it works: "Primary working directory: DIR" and the like in a message beside the prompt (mini-swe-agent doesn't:
  there the branch that ralphd's preamble names tells loops apart), and "Current branch: NAME" with Claude Code;
* the prompt: the last text block of the first user message, behind reminders of the client's own;
* a tool's result: a block or message of its own, with the very text that the tool call printed.

The loop is the working directory; sessions are numbered in it as they first appear. A request with as many
model answers in it as the one before is the same turn again (a retry); any other number is the next turn, and so
is whatever comes after a compaction, unless the request before it was refused (a prompt too long). Where conversations have
no name, a first turn that comes after an answered one is the next session; after a fault it's the same one, asked again.
Sub-agents share their session's id and are not told apart.
"""

from __future__ import annotations

import collections
import re
from dataclasses import dataclass, replace

from support.model_script import Answer, Kind, Refusal, Request
from support.wire.heard import Heard

COMPACTION_MARKS = (  # in the prompts by which a client asks for a summary of the conversation
    "create a detailed summary",  # Claude Code
    "CONTEXT CHECKPOINT COMPACTION",  # codex
    "<state_snapshot>",  # gemini, qwen
    "structured context checkpoint",  # pi
    "Provide a detailed prompt for continuing",  # opencode
    "anchored summary",  # opencode, from the second time on
)
DIRECTORY = re.compile(
    r"[Ww]orking directory: (\S.*)|<cwd>(.+?)</cwd>|\*\*Workspace Directories:\*\*\s+- (.+)|working in the directory: (.+)"
)
BRANCH = re.compile(r"Current branch: (\S+)|on the branch `(\S+)`")
FORGOTTEN = -1  # answers in a conversation whose earlier part was compacted away: whatever comes is the next turn


@dataclass(kw_only=True)
class Progress:
    """How far one session has come."""

    directory: str
    branch: str
    session: int
    answers: int
    turn: int
    attempt: int = -1
    refused: bool = False
    answered: bool = False  # the newest main request got an answer without a fault

    def is_over(self, request: Request, answers: int) -> bool:
        """Whether a conversation without a name begins anew with this request."""
        anew = request.kind == "main" and not request.session_id and answers == 0
        return anew and (self.answers > 0 or (self.answers == 0 and self.answered))


class Conversations:
    """Numbers sessions within their working directory, turns within their session, attempts within their turn."""

    def __init__(self) -> None:
        self._sessions: dict[str, Progress] = {}
        self._started: collections.Counter[str] = collections.Counter()

    def place(self, request: Request, answers: int) -> Request:
        """The request with its directory, branch, session, turn and attempt filled in."""
        asker = _asker(request)
        known = self._sessions.get(asker)
        if known is None or known.is_over(request, answers):
            known = self._sessions[asker] = self._start(request, answers)
        if request.kind == "main":
            _advance(known, answers)
        elif request.kind == "compact" and not known.refused:
            known.answers = FORGOTTEN
        return replace(
            request,
            directory=known.directory,
            branch=known.branch,
            session=known.session,
            turn=known.turn,
            attempt=max(known.attempt, 0),
        )

    def answered(self, request: Request, answer: Answer) -> None:
        """Remembers what became of a main request: a compaction after a refusal belongs to the same turn."""
        if request.kind == "main":
            known = self._sessions[_asker(request)]
            known.refused, known.answered = isinstance(answer.fault, Refusal), answer.fault is None

    def _start(self, request: Request, answers: int) -> Progress:
        place = request.directory or request.branch
        session = self._started[place]
        self._started[place] += 1
        return Progress(
            directory=request.directory, branch=request.branch, session=session, answers=answers, turn=answers
        )


def _asker(request: Request) -> str:
    return request.session_id or request.directory or request.branch


def _advance(session: Progress, answers: int) -> None:
    if answers == session.answers:
        session.attempt += 1
    else:
        session.turn, session.attempt, session.answers = session.turn + 1, 0, answers


def understand(number: int, path: str, heard: Heard) -> Request:
    """The request, but for its place among the conversations."""
    return Request(
        number=number,
        path=path,
        kind=_kind(heard),
        session_id=heard.session_id,
        directory=_first(DIRECTORY, heard.told),
        branch=_first(BRANCH, heard.told),
        stream=heard.stream,
        model=heard.model,
        tools=heard.tools,
        system=heard.system,
        prompt=heard.prompt,
        news=heard.news,
    )


def _kind(heard: Heard) -> Kind:
    if any(mark in heard.last_words or mark in heard.system for mark in COMPACTION_MARKS):
        return "compact"
    return "main" if heard.tools else "side"


def _first(pattern: re.Pattern[str], text: str) -> str:
    """What the first group that matched holds."""
    found = pattern.search(text)
    return next(filter(None, found.groups()), "").strip() if found else ""
