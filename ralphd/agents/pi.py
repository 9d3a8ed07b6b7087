"""How pi is started without a person, and how its shell comes under the guard.

Recorded with 0.73.1. The choices that are not obvious:

* The prompt comes on stdin. The person's folder ``~/.pi/agent`` (login, models, settings, extensions) stays where it is
  and is used as it is: another one with links into it would have locks of its own, and two processes could then refresh
  one login at the same time. What ralphd needs comes with an extension, laid into the loop's own folder.
* The extension gives the ``bash`` tool the guard as its shell. It also calls an answer that broke off a failure, as pi
  takes it for a good one: pi then asks again by itself, and says so. And it has pi's HTTP library, which would wait for
  hours without a word where a server names so long a wait, give up at once instead, and tells ralphd of that wait: the
  runner waits better, since all loops of one login wait together.
* pi compacts only between runs, so in one session without a person never; a context that overflows ends the session.
"""

from __future__ import annotations

from ralphd.agents.base import File, Launch, Tells
from ralphd.agents.pi_stream import BROKE_OFF, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Reader, Turn
    from ralphd.core.exchange import Assignment

TELLS = Tells(
    tokens=True,
    compactions=True,
    partial=True,
    resume=True,
    idle_share=0.02,  # measured over 15 s: nothing, and 0.8 % now and then
    idle_bytes=256 << 10,  # measured: nothing, and 38 kB now and then
)
guarded_lines = ""

EXTENSION = "pi/ralphd.js"  # below Turn.home
# pi asks servers of OpenAI's kind for a last piece with the usage. An answer without one is cut, unless the person told
# pi that this server has none, and then pi doesn't ask.
EXTENSION_TEXT = """\
// Puts pi's shell under ralphd's guard. Laid here anew at every start.
import { createBashToolDefinition, getAgentDir, SettingsManager } from "@mariozechner/pi-coding-agent"
const LONG_S = 60 // what pi itself calls too long to wait for
// Returns what tells the wait in seconds that the newest failed answer named, once.
function watchWaits() {
  const ask = globalThis.fetch
  let seconds = 0
  globalThis.fetch = async (...given) => {
    const answer = await ask(...given)
    const named = Number(answer.headers.get("retry-after"))
    seconds = answer.status >= 400 && named > 0 ? named : 0
    if (seconds <= LONG_S) return answer
    const headers = new Headers(answer.headers)
    headers.set("x-should-retry", "false") // which the libraries of OpenAI and Anthropic heed
    return new Response(answer.body, { status: answer.status, statusText: answer.statusText, headers })
  }
  return () => {
    const told = seconds
    seconds = 0
    return told
  }
}
export default function (pi) {
  const guard = process.env.RALPHD_GUARD
  if (guard) {
    const settings = SettingsManager.create(process.cwd(), getAgentDir())
    const commandPrefix = settings.getShellCommandPrefix()
    pi.registerTool(createBashToolDefinition(process.cwd(), { shellPath: guard, commandPrefix }))
  }
  const retryAfter = watchWaits()
  let usageAsked = false
  pi.on("before_provider_request", ({ payload }) => {
    usageAsked = payload?.stream_options?.include_usage === true
  })
  pi.on("message_end", ({ message }) => {
    if (message.role === "assistant" && message.stopReason === "error") {
      const ralphd = { error: message.errorMessage, retryAfter: retryAfter() }
      if (!ralphd.retryAfter) return
      // These words are none after which pi asks again, which it would three times within the wait.
      const errorMessage = ralphd.retryAfter > LONG_S ? "the server names a long wait" : ralphd.error
      return { message: { ...message, errorMessage, ralphd } }
    }
    if (!usageAsked || message.role !== "assistant" || message.stopReason !== "stop") return
    if (message.usage?.totalTokens) return
    return { message: { ...message, stopReason: "error", errorMessage: "BROKE_OFF" } }
  })
}
""".replace("BROKE_OFF", BROKE_OFF)


def launch(assignment: Assignment, turn: Turn) -> Launch:
    """Return the command line, the environment and the extension, but for TMPDIR and the RALPHD_* variables."""
    return Launch(
        argv=(assignment.program, *_options(assignment, turn), *assignment.args),
        env={"PI_SKIP_VERSION_CHECK": "1", **assignment.env},
        files=(File(path=EXTENSION, text=EXTENSION_TEXT),) if turn.home else (),
    )


def reader() -> Reader:
    return Stream()


def _options(assignment: Assignment, turn: Turn) -> tuple[str, ...]:
    return (
        "--print",
        "--mode",
        "json",
        *(("--extension", f"{turn.home}/{EXTENSION}") if turn.home else ()),
        *(("--session", turn.session) if turn.resume else ()),
        *(("--model", assignment.model) if assignment.model else ()),
    )
