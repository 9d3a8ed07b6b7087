"""How opencode is started without a person, and how it is made to say what it leaves out by itself.

Recorded with 1.18.33. The choices that are not obvious:

* The prompt comes on stdin, the person's login and configuration stay where they are. What ralphd sets comes on top by
  OPENCODE_CONFIG_CONTENT, which opencode merges into what the person has; a person who sets that variable in
  ``agent.env`` has the last word, and loses what the plugin tells.
* ``--format json`` is silent while an answer streams, while it waits to ask again, and until a call has ended. So a
  plugin of a few lines, laid into the loop's own folder, tells these on the same stdout.
* A title spares the extra request with which it would find one. Snapshots are a second copy of the worktree at every
  step, for an undo that nobody will ask for.
* Of several that make or migrate its database at once, at the first start in a home or after an update, all but one may
  exit with 1 and "Failed query", before they say anything in JSON. So one loop goes first (``trips_at_first``). A
  database for each loop (OPENCODE_DB) would be the other way, but logins lie in it too.
* The shell that it runs is ``$SHELL``. It hangs when that one is killed, so the guard, which survives, is that shell,
  and opencode's own limit lies behind the guard's.
"""

from __future__ import annotations

import json

from ralphd.agents.base import File, Launch, Tells
from ralphd.agents.opencode_stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Reader, Turn
    from ralphd.core.exchange import Assignment

TELLS = Tells(
    tokens=True,
    compactions=True,
    partial=True,
    resume=True,
    trips_at_first=True,
    idle_share=0.05,  # measured over 15 s: 0.9 to 1.2 %, and 3.7 % now and then
    idle_bytes=256 << 10,  # measured: 1 kB, and 57 kB now and then
)
guarded_lines = ""

GUARD_HEAD_START_S = 30  # so that the guard, which explains itself, ends a call before the CLI does
PLUGIN = "opencode/ralphd.js"  # below Turn.home
# opencode waits for its npm install before it loads a plugin, even one that needs nothing: 71 s at every start where
# npm can't be reached, which these make one try. The plugin takes them back, so that no call of the agent has them.
NPM_PATIENCE = {"npm_config_fetch_retries": "0", "npm_config_fetch_timeout": "10000"}
# Written through process.stdout, as opencode's own events are, so that lines never mix.
PLUGIN_TEXT = """\
// Tells ralphd what `opencode run --format json` leaves out. Laid here anew at every start.
const patience = PATIENCE
for (const name in patience) if (process.env[name] === patience[name]) delete process.env[name]
const seen = new Set()
let piece = 0
const tell = (event, more) => process.stdout.write(JSON.stringify({ type: "ralphd", event, ...more }) + "\\n")
const once = (id) => !seen.has(id) && !!seen.add(id)
const short = (input) => {
  const found = ["command", "filePath", "path", "pattern", "url", "query", "description", "prompt"]
    .map((name) => input?.[name])
    .find((value) => typeof value === "string" && value)
  return (found ?? "").slice(0, 4096)
}
const hear = ({ type, properties: told }) => {
  const session = told.sessionID
  if (type === "session.status")
    tell("status", {
      session,
      state: told.status.type,
      attempt: told.status.attempt,
      message: told.status.message,
      wait_ms: told.status.next && told.status.next - Date.now(),
    })
  else if (type === "message.part.delta" && Date.now() - piece >= 1000) {
    piece = Date.now()
    tell("piece", { session })
  } else if (type === "session.compacted") tell("compacted", { session })
  else if (type === "message.part.updated") {
    const { part } = told
    if (part.type === "tool" && part.state?.status === "running" && once(part.id))
      tell("call", { session, id: part.callID, tool: part.tool, command: short(part.state.input) })
  } else if (type === "message.updated") {
    const { info } = told
    if (info.role !== "assistant") return
    if (once(info.id + "?")) tell("model", { session, model: `${info.providerID}/${info.modelID}` })
    if (info.time?.completed && info.tokens && once(info.id))
      tell("usage", { session, tokens: info.tokens, cost: info.cost })
  }
}
export const ralphd = async () => ({
  event: async ({ event }) => {
    try {
      hear(event)
    } catch {} // a newer opencode's events are no reason to disturb it
  },
})
""".replace("PATIENCE", json.dumps(NPM_PATIENCE))


def launch(assignment: Assignment, turn: Turn) -> Launch:
    """Return the command line, the environment and the plugin, but for TMPDIR and the RALPHD_* variables."""
    return Launch(
        argv=(assignment.program, *_options(assignment, turn), *assignment.args),
        env={**_defaults(assignment, turn), **assignment.env, **_musts(assignment, turn)},
        files=(File(path=PLUGIN, text=PLUGIN_TEXT),) if turn.home else (),
    )


def reader() -> Reader:
    return Stream()


def _options(assignment: Assignment, turn: Turn) -> tuple[str, ...]:
    return (
        "run",
        "--format",
        "json",
        "--thinking",
        "--print-logs",  # on stderr, since on stdout many an error is only "Check server logs for details"
        "--log-level",
        "ERROR",
        "--auto",  # nobody is there to be asked; what the person's configuration denies stays denied
        "--title",
        f"ralphd {assignment.night} {assignment.loop}",
        *(("--session", turn.session) if turn.resume else ()),
        *(("--model", assignment.model) if assignment.model else ()),
    )


def _defaults(assignment: Assignment, turn: Turn) -> dict[str, str]:
    """Return what the person's own ``agent.env`` may change."""
    told = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
    if not turn.home or "OPENCODE_CONFIG_CONTENT" in assignment.env:
        return told
    config = {"snapshot": False, "plugin": [f"file://{turn.home}/{PLUGIN}"]}
    return {**told, **NPM_PATIENCE, "OPENCODE_CONFIG_CONTENT": json.dumps(config)}


def _musts(assignment: Assignment, turn: Turn) -> dict[str, str]:
    """Return what the limits rest on."""
    timeout_ms = str(round((assignment.limits.tool_seconds + GUARD_HEAD_START_S) * 1000))
    return {
        **({"SHELL": turn.guard} if turn.guard else {}),
        "OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS": timeout_ms,
    }
