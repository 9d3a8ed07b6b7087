"""How the Gemini CLI is started without a person.

Recorded with 0.61.0. The choices that are not obvious:

* Its shell tool takes the first ``bash`` of PATH: that is the guard. The tool's lines name the file in which it wants
  the pids of background jobs; hooks and MCP servers, which may be started by ``bash`` too, have no such line.
* It starts itself a second time for a larger heap; the first process then ignores SIGTERM. One process is enough.
* It ends a call that printed nothing for five minutes by itself, and asks again ten times for three and a half minutes
  before it reports a failure. Settings could change both, but those it takes from nobody except root and the person:
  ``tools.shell.inactivityTimeout`` and ``general.maxAttempts`` in ``~/.gemini/settings.json``.
"""

from __future__ import annotations

from ralphd.agents.base import Launch, Tells
from ralphd.agents.first_bash import guarded_bash, path_with
from ralphd.agents.gemini_stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Reader, Turn
    from ralphd.core.exchange import Assignment

# A silent thought, or a long file in one call's input, streams nothing that it prints.
TELLS = Tells(tokens=True, compactions=False, partial=False, resume=True, kept_from_call=True)
guarded_lines = "_bgpids_file="


def launch(assignment: Assignment, turn: Turn) -> Launch:
    """Return the command line, the environment and the guard in place of ``bash``."""
    return Launch(
        argv=(assignment.program, *_options(assignment, turn), *assignment.args),
        env={**assignment.env, "GEMINI_CLI_NO_RELAUNCH": "true", **path_with(assignment, turn)},
        files=guarded_bash(turn),
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
