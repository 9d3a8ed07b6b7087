"""How Claude Code is started without a person, and where its context is compacted.

Recorded with 2.1.332 and 2.1.197. The choices that are not obvious:

* 429 and 529 are retried by the CLI itself without end (RETRY_WATCHDOG): without that it gives up on a long
  retry-after and doesn't tell it, with it it announces each wait. Where loops share an account, the runner ends it at
  such a wait, and takes the session up again when inference answers. Everything else is tried again only a few times,
  because the runner waits better: it tells the journal, and a 401 shows after four seconds instead of three minutes.
* It is told everything as JSON lines on stdin, which stays open until its final result: what comes while a tool call
  runs is read beside that call's result, what comes with the last answer begins another turn. It ends at the end of
  stdin, as it does with a prompt in plain text (recorded with 2.1.332).
* Shell commands go through the guard (SHELL_PREFIX). The CLI's own limit lies behind the guard's, and it doesn't move
  slow commands to the background, where nobody would see them end.
"""

from __future__ import annotations

import json
import os

from ralphd.agents.base import Launch, Tells
from ralphd.agents.claude_stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Reader, Turn
    from ralphd.core.exchange import Assignment


def tell(text: str) -> bytes:
    """Return a text as the CLI reads it on stdin, at its start and while it runs."""
    content = [{"type": "text", "text": text}]
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}).encode() + b"\n"


TELLS = Tells(tokens=True, compactions=True, partial=True, resume=True, input=tell)
guarded_lines = "/shell-snapshots/"  # the shell prefix wraps hooks and MCP servers too; those have no such line

COMPACT_AT = 0.70  # of the context window
RESERVED_TOKENS = 20_000  # what the CLI keeps free of the window for an answer before it takes its percentage
WINDOW_TOKENS = 1_000_000  # of a model we don't know: the percentage for it is below 70 % of every smaller window
SMALL_WINDOW_TOKENS = 200_000
SMALL_WINDOW_MODELS = ("claude-haiku-4", "claude-sonnet-4-5", "claude-sonnet-4-6", "claude-3", "claude-opus-4-1")
GUARD_HEAD_START_S = 30  # so that the guard, which explains itself, ends a call before the CLI does
CLIENT_RETRIES = "3"  # 0.5 + 1 + 2 s: a hiccup costs no restart of the process


def launch(assignment: Assignment, turn: Turn) -> Launch:
    """Return the command line and the whole environment, but for TMPDIR and the RALPHD_* variables."""
    return Launch(
        argv=(assignment.program, *_options(assignment, turn), *assignment.args),
        env={**_defaults(assignment), **assignment.env, **_musts(assignment, turn)},
    )


def reader() -> Reader:
    return Stream()


def _options(assignment: Assignment, turn: Turn) -> tuple[str, ...]:
    return (
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--dangerously-skip-permissions",
        "--resume" if turn.resume else "--session-id",
        turn.session,
        *(("--model", assignment.model) if assignment.model else ()),
    )


def _defaults(assignment: Assignment) -> dict[str, str]:
    """Return what the person's own ``agent.env`` may change."""
    return {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_RETRY_WATCHDOG": "1",
        "CLAUDE_CODE_MAX_RETRIES": CLIENT_RETRIES,
        "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": compact_percent(assignment.model, assignment.env),
    }


def _musts(assignment: Assignment, turn: Turn) -> dict[str, str]:
    """Return what the limits rest on."""
    timeout_ms = str(round((assignment.limits.tool_seconds + GUARD_HEAD_START_S) * 1000))
    return {
        **({"IS_SANDBOX": "1"} if os.geteuid() == 0 else {}),  # as root it refuses to run without
        **({"CLAUDE_CODE_SHELL_PREFIX": turn.guard} if turn.guard else {}),
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "BASH_DEFAULT_TIMEOUT_MS": timeout_ms,
        "BASH_MAX_TIMEOUT_MS": timeout_ms,
    }


def compact_percent(model: str, env: dict[str, str]) -> str:
    """Return the override at which the CLI compacts at 70 % of the window. It takes it of the window less a reserve."""
    window = _window_tokens(model, env)
    return f"{min(100.0, 100 * COMPACT_AT * window / max(1, window - RESERVED_TOKENS)):.2f}"


def _window_tokens(model: str, env: dict[str, str]) -> int:
    small = model.startswith(SMALL_WINDOW_MODELS) and not model.endswith("[1m]")
    if small or env.get("CLAUDE_CODE_DISABLE_1M_CONTEXT", "0") not in ("", "0"):
        window = SMALL_WINDOW_TOKENS
    else:
        window = WINDOW_TOKENS
    for name in ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "CLAUDE_CODE_MAX_CONTEXT_TOKENS"):
        value = env.get(name, "")
        if value.isascii() and value.isdigit() and int(value[:9]) > 0:
            window = min(window, int(value[:9]))
    return window
