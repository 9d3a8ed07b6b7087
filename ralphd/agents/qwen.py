"""How Qwen Code is started without a person.

Recorded with 0.15.10. The choices that are not obvious:

* Its shell tool takes the first ``bash`` of PATH: that is the guard. It runs the model's line as it is, so every
  line is guarded. Where the model asks for no time it ends a call after two minutes, which no setting changes.
* Partial messages are asked for, because only they separate the CLI's own words from the model's: see ``qwen_stream``.
* 429 and 529 are retried by the CLI itself without end (UNATTENDED_RETRY), since it keeps the context while it waits,
  and stderr tells of each long wait. Without that it asks in rounds for three quarters of an hour, and tells nothing.
* It starts itself a second time; that second process and its tools outlive a SIGTERM to the first. One is enough.
* How it logs in is the person's own setting or environment; ``--auth-type`` can be given in ``agent.args``.
"""

from __future__ import annotations

import json

from ralphd.agents.base import File, Launch, Tells
from ralphd.agents.first_bash import guarded_bash, path_with
from ralphd.agents.qwen_stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Reader, Turn
    from ralphd.core.exchange import Assignment

# The input of a call comes all at once, however long it took to write: silence tells nothing.
TELLS = Tells(tokens=True, compactions=False, partial=False, resume=True)
guarded_lines = ""

SETTINGS = "qwen/system-defaults.json"  # below the loop's own folder; every setting of the person outweighs it


def launch(assignment: Assignment, turn: Turn) -> Launch:
    """Return the command line, the environment and the files that the CLI looks for."""
    musts = {"QWEN_CODE_NO_RELAUNCH": "true", **path_with(assignment, turn)}
    if turn.home:
        musts["QWEN_CODE_SYSTEM_DEFAULTS_PATH"] = f"{turn.home}/{SETTINGS}"
    return Launch(
        argv=(assignment.program, *_options(assignment, turn), *assignment.args),
        env={"QWEN_CODE_UNATTENDED_RETRY": "1", **assignment.env, **musts},
        files=(*guarded_bash(turn), File(path=SETTINGS, text=json.dumps({"general": {"enableAutoUpdate": False}}))),
    )


def reader() -> Reader:
    return Stream()


def _options(assignment: Assignment, turn: Turn) -> tuple[str, ...]:
    return (
        "--output-format",
        "stream-json",
        "--include-partial-messages",
        "--yolo",
        "--resume" if turn.resume else "--session-id",
        turn.session,
        *(("--model", assignment.model) if assignment.model else ()),
    )
