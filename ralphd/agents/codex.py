"""How OpenAI's Codex CLI is started without a person.

Recorded with 0.171.0. The choices that are not obvious:

* It names its own sessions; ``codex exec resume`` takes that name up again.
* It runs the shell of the passwd entry, whatever SHELL and PATH say, and Bash reads BASH_ENV before each ``-c``
  command: ours hands the command over to the guard. It is set for shell tools alone (shell_environment_policy), so that
  hooks and MCP servers, which may be started by a shell too, run as long as they like.
* ``--json`` tells of no compaction, but a hook of ours is run after each and prints a line of its own. It is trusted by
  the hash of what it is, so that no other hook needs to be trusted for it. A version that takes that hash otherwise
  runs no hook of ours: no compaction told means that none is known.
* ``HOME`` and ``CODEX_HOME`` stay the person's: their login and their config.toml hold. What we need beside it goes on
  the command line, before ``agent.args``, which therefore have the last word.
"""

from __future__ import annotations

import json

from ralphd.agents.base import File, Launch, Tells
from ralphd.agents.codex_stream import COMPACTED, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Reader, Turn
    from ralphd.core.exchange import Assignment

TELLS = Tells(tokens=True, compactions=False, partial=False, resume=True, bare_calls=True)
guarded_lines = ""

COMPACT_AT = 0.70  # of the context window; the CLI itself waits for 90 %
WINDOWS_TOKENS = (("gpt-5", 272_000),)  # of the models whose window its own catalogue tells, by how their names begin
HOOK = f"""printf '{{"type":"{COMPACTED}"}}\\n' >/proc/$PPID/fd/1"""
HOOK_SECONDS = 5
# SHA-256 of {"event_name":"post_compact","hooks":[{"async":false,"command":HOOK,"timeout":5,"type":"command"}]}
HOOK_HASH = "sha256:9dc995ea4b05443443715d1cdbec38127b57311a96e9b902dd99fa06146915bb"
HOOK_KEY = "/<session-flags>/config.toml:post_compact:0:0"
BASH_ENV = "codex/bash_env"
# What is not a tool call: the CLI asks the shell for the person's settings first, and then, in front of each command,
# restores them and becomes the shell that runs it.
HAND_OVER = """\
# Read by Bash before each command that Codex runs: hands it over to the guard of ralphd.
case ${BASH_EXECUTION_STRING-} in
'' | *__codex_snapshot_command* | 'set -e; . '*/shell_snapshots/*) ;;
__CODEX_SNAPSHOT_*"
exec '"*"/bash' -c "*) ;;
*)
    if [ -z "${RALPHD_CALL-}" ] && [ -x "${RALPHD_GUARD-}" ]; then
        exec "$RALPHD_GUARD" -c "$BASH_EXECUTION_STRING"
    fi
    ;;
esac
"""


def launch(assignment: Assignment, turn: Turn) -> Launch:
    """Return the command line and the whole environment, but for TMPDIR and the RALPHD_* variables."""
    return Launch(
        argv=(
            assignment.program,
            "exec",
            *(("resume",) if turn.resume else ()),
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            *_settings(assignment, turn),
            *(("--model", assignment.model) if assignment.model else ()),
            *((turn.session,) if turn.resume else ()),
            "-",  # the prompt is on stdin
            *assignment.args,
        ),
        env=dict(assignment.env),
        files=(File(path=BASH_ENV, text=HAND_OVER),) if turn.guard else (),
    )


def reader() -> Reader:
    return Stream()


def _settings(assignment: Assignment, turn: Turn) -> tuple[str, ...]:
    handler = f'{{type = "command", timeout = {HOOK_SECONDS}, command = {json.dumps(HOOK)}}}'
    hook = (
        *("-c", f"hooks.PostCompact=[{{hooks = [{handler}]}}]"),
        *("-c", f'hooks.state={{"{HOOK_KEY}" = {{trusted_hash = "{HOOK_HASH}"}}}}'),
    )
    settings: dict[str, object] = {}
    if limit := compact_limit(assignment.model, assignment.args):
        settings["model_auto_compact_token_limit"] = limit
    if turn.guard:
        settings["shell_environment_policy.inherit"] = "all"  # the guard needs what the runner tells it there
        settings["shell_environment_policy.set.BASH_ENV"] = f"{turn.home}/{BASH_ENV}"
    # A JSON string is a TOML string too, but for U+007F, which no path of ours holds.
    return hook + tuple(part for name, value in settings.items() for part in ("-c", f"{name}={json.dumps(value)}"))


def compact_limit(model: str, args: tuple[str, ...]) -> int | None:
    """Return 70 % of the context window in tokens, or None where it isn't known. Past 90 % the CLI's own holds."""
    window = next((tokens for start, tokens in WINDOWS_TOKENS if model.startswith(start)), None)
    for arg in args:
        name, _, value = arg.removeprefix("--config=").partition("=")
        if name.strip() == "model_context_window" and value.strip().isascii() and value.strip().isdigit():
            window = int(value.strip()[:9])
    return None if window is None else round(COMPACT_AT * window)
