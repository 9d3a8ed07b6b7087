"""How the Gemini CLI is started without a person.

Recorded with 0.61.0. The choices that are not obvious:

* Its shell tool takes the first ``bash`` of PATH: that is the guard. The tool's lines name the file in which it wants
  the pids of background jobs; hooks and MCP servers, which may be started by ``bash`` too, have no such line.
* It starts itself a second time for a larger heap; the first process then ignores SIGTERM. One process is enough.
* What it takes from a file lies in its *system defaults*, which every setting of the person outweighs. Its own limit of
  a silent command lies behind the guard's. It asks again a few times only: the runner waits better and tells of it.
"""

from __future__ import annotations

import json

from ralphd.agents.base import File, Launch, Tells
from ralphd.agents.first_bash import guarded_bash, path_with
from ralphd.agents.gemini_stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Reader, Turn
    from ralphd.core.exchange import Assignment

# A silent thought, or a long file in one call's input, streams nothing that it prints.
TELLS = Tells(tokens=True, compactions=False, partial=False, resume=True)
guarded_lines = "_bgpids_file="

COMPACT_AT = 0.70  # of the context window; its own default is 0.5
CLIENT_ATTEMPTS = 3  # 5 + 10 s between them
GUARD_HEAD_START_S = 30  # so that the guard, which explains itself, ends a call before the CLI does
SETTINGS = "gemini/system-defaults.json"  # below the loop's own folder


def launch(assignment: Assignment, turn: Turn) -> Launch:
    """Return the command line, the environment and the files that the CLI looks for."""
    musts = {"GEMINI_CLI_NO_RELAUNCH": "true", **path_with(assignment, turn)}
    if turn.home:
        musts["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"] = f"{turn.home}/{SETTINGS}"
    return Launch(
        argv=(assignment.program, *_options(assignment, turn), *assignment.args),
        env={**assignment.env, **musts},
        files=(*guarded_bash(turn), _settings(assignment)),
    )


def reader() -> Reader:
    return Stream()


def _options(assignment: Assignment, turn: Turn) -> tuple[str, ...]:
    return (
        "--output-format",
        "stream-json",
        "--yolo",
        "--skip-trust",
        "--resume" if turn.resume else "--session-id",
        turn.session,
        *(("--model", assignment.model) if assignment.model else ()),
    )


def _settings(assignment: Assignment) -> File:
    settings = {
        "general": {"enableAutoUpdate": False, "maxAttempts": CLIENT_ATTEMPTS},
        "model": {"compressionThreshold": COMPACT_AT},
        "tools": {"shell": {"inactivityTimeout": round(assignment.limits.tool_seconds + GUARD_HEAD_START_S)}},
    }
    return File(path=SETTINGS, text=json.dumps(settings))
