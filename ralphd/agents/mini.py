"""How mini-swe-agent is started without a person.

Recorded with 2.4.6. The choices that are not obvious:

* It takes its task from an option, which the kernel cuts at 128 KiB, and prints for eyes alone. So it is given an agent
  class of ours, as its documentation provides for: that one reads the task from stdin, prints JSON lines and asks
  nobody anything. The class is a file in the loop's own folder; PYTHONPATH leads there, for ``mini`` alone.
* It runs commands by ``/bin/sh``, whatever SHELL says; the class hands each to the guard, which answers before the
  CLI's own limit.
* It knows no resuming, but saves its messages after each step, in a file that we name: the class takes them up again.
* It asks for whole answers, so silence tells nothing: a long one is as silent as a dead server, which litellm gives up
  after ten minutes.
* Its limits of cost and steps are off: a night is not stopped for tokens. A price that it can't find is no error.
* Without ``agent.model`` it takes the one that ``mini-extra config`` set.
"""

from __future__ import annotations

from ralphd.agents.base import File, Launch, Tells
from ralphd.agents.jsonl import RESULT_CHARS, TEXT_CHARS, objects, plain, real, record, status, text, whole
from ralphd.core.signals import Began, Called, Failed, Resulted, Returned, Said, Signal, Unread, Used, claims_done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Reader, Turn
    from ralphd.core.exchange import Assignment

    Event = dict[str, object]

TELLS = Tells(tokens=True, compactions=False, partial=False, resume=True, streams=False, bare_calls=True)
guarded_lines = ""

FOLDER = "mini"  # below Turn.home
MODULE = "ralphd_mini"
GUARD_HEAD_START_S = 30  # so that the guard, which explains itself, ends a call before the CLI does
CLIENT_RETRIES = "3"  # 4 + 4 s: a hiccup costs no restart; then the runner waits better and tells the journal
MARK = "ralphd"  # each of our events has this key, so that nothing that a library prints is taken for one
INFERENCE_MODULES = ("litellm", "openai", "anthropic", "httpx", "httpcore", "requests", "aiohttp")
AGENT = '''\
"""What ralphd adds to mini-swe-agent: the task comes on stdin, each step is a JSON line, each command is guarded."""

import json
import os
import shlex
import sys

from minisweagent import __version__
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import FormatError


def tell(event, **known):
    sys.stdout.write(json.dumps({"ralphd": event, **known}, default=str) + "\\n")
    sys.stdout.flush()


class Environment(LocalEnvironment):
    def __init__(self, **settings):
        super().__init__(**settings)
        self._number = 0
        os.environ.pop("PYTHONPATH", None)  # it led here; what it was before is for the commands
        if path := os.environ.pop("RALPHD_PYTHONPATH", ""):
            os.environ["PYTHONPATH"] = path

    def execute(self, action, cwd="", **known):
        command = action.get("command", "")
        self._number += 1
        tell("call", id=self._number, command=command)
        guard = os.environ.get("RALPHD_GUARD")
        line = f"exec {shlex.quote(guard)} -c {shlex.quote(command)}" if guard else command
        output = {}
        try:
            output = super().execute({**action, "command": line}, cwd, **known)
            return output
        except Exception:
            output = {"output": "", "returncode": 0}  # the one that ends the run: its last command said so
            raise
        finally:
            tell("return", id=self._number, text=str(output.get("output", ""))[-4096:], exit=output.get("returncode"))


class Agent(DefaultAgent):
    _past = ()

    def run(self, task="", **known):
        if os.environ.pop("RALPHD_RESUME", ""):
            self._past = self._saved()
        model = getattr(self.model.config, "model_name", "")
        tell("begin", version=__version__, model=model)
        try:
            ended = super().run(sys.stdin.buffer.read().decode("utf-8", "replace"), **known)
        except BaseException as error:
            kind, status = type(error), getattr(error, "status_code", None)
            tell("error", error=kind.__name__, module=kind.__module__, status=status, message=str(error))
            raise
        said = [message.get("content") for message in self.messages if message.get("role") == "assistant"]
        answer = said[-1] if said and isinstance(said[-1], str) else ""
        status = ended.get("exit_status", "")
        tell("result", status=status, text=answer, submission=ended.get("submission", ""))
        return ended

    def _saved(self):
        """Return the messages of the run that failed, up to the last that was answered."""
        past = json.loads(self.config.output_path.read_bytes())["messages"]
        while past and past[-1].get("role") in ("exit", "assistant"):
            past.pop()
        return past

    def add_messages(self, *messages):
        if self._past:  # the first are those that begin a run: they stand in the past, and the task is a word to go on
            word = self.model.format_message(role="user", content=self.extra_template_vars["task"])
            messages, self._past = (*self._past, word), ()
        return super().add_messages(*messages)

    def query(self):
        try:
            message = super().query()
        except FormatError as error:
            self._used(error.messages[0])
            raise
        self._used(message)
        if isinstance(message.get("content"), str) and message["content"]:
            tell("text", text=message["content"])
        return message

    def _used(self, message):
        extra = message.get("extra") or {}
        response = extra.get("response")
        usage = response.get("usage") if isinstance(response, dict) else None
        tell("usage", usage=usage or {}, cost_usd=extra.get("cost") or None)
'''


def launch(assignment: Assignment, turn: Turn) -> Launch:
    """Return the command line and the whole environment, but for TMPDIR and the RALPHD_* variables."""
    path = assignment.env.get("PYTHONPATH", "")
    home = f"{turn.home}/{FOLDER}"
    return Launch(
        argv=(assignment.program, *_options(assignment, home), *assignment.args),
        env={
            **_defaults(),
            **assignment.env,
            **({"RALPHD_RESUME": "1"} if turn.resume else {}),
            "PYTHONPATH": f"{home}:{path}" if path else home,
            "RALPHD_PYTHONPATH": path,
        },
        files=(File(path=f"{FOLDER}/{MODULE}.py", text=AGENT),),
    )


def _options(assignment: Assignment, home: str) -> tuple[str, ...]:
    timeout_s = round(assignment.limits.tool_seconds + GUARD_HEAD_START_S)
    return (
        "--yolo",
        "--exit-immediately",
        *("--task", "-"),  # or it asks; the task itself is on stdin
        *("--output", f"{home}/last.traj.json"),  # its own place for that is one for all loops
        *("--cost-limit", "0"),
        *("--agent-class", f"{MODULE}.Agent"),
        *("--environment-class", f"{MODULE}.Environment"),
        *("--config", "mini.yaml"),
        *("--config", f"environment.timeout={timeout_s}"),
        *(("--model", assignment.model) if assignment.model else ()),
    )


def _defaults() -> dict[str, str]:
    """Return what the person's own ``agent.env`` may change."""
    return {
        "MSWEA_CONFIGURED": "true",  # or it begins with a dialog
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": CLIENT_RETRIES,
    }


def reader() -> Reader:
    return Stream()


class Stream:
    """Reads one process: our own events, and all else as plain text."""

    def read(self, line: bytes, start: int, end: int) -> tuple[Signal, ...]:
        found, rest = objects(line)
        signals = [signal for event in found for signal in _event(event, start, end)]
        if rest or not found:
            signals.append(Unread(start=start, end=end, text=plain(rest)))
        return tuple(signals)


def _event(event: Event, start: int, end: int) -> tuple[Signal, ...]:
    match event.get(MARK):
        case "begin":
            model, version = text(event.get("model"))[:200], text(event.get("version"))[:200]
            return (Began(start=start, end=end, model=model, version=version),)
        case "text":
            return (Said(start=start, end=end, text=text(event.get("text"))),)
        case "call":
            command = text(event.get("command"))[:TEXT_CHARS]
            return (Called(start=start, end=end, id=_name(event), tool="bash", command=command),)
        case "return":
            words, bad = text(event.get("text"))[:TEXT_CHARS], whole(event.get("exit")) != 0
            return (Returned(start=start, end=end, id=_name(event), text=words, is_error=bad),)
        case "usage":
            return _used(record(event.get("usage")), real(event.get("cost_usd")), start, end)
        case "error":
            return _failed(event, start, end)
        case "result":
            return (_resulted(event, start, end),)
        case _:
            return (Unread(start=start, end=end),)


def _name(event: Event) -> str:
    return str(whole(event.get("id")))


def _used(usage: Event, cost_usd: float | None, start: int, end: int) -> tuple[Signal, ...]:
    """Read usage in the form that litellm gives every provider's: what came from the cache is input too."""
    if not usage:
        return ()
    cached = whole(record(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return (
        Used(
            start=start,
            end=end,
            tokens_in=max(0, whole(usage.get("prompt_tokens")) - cached),
            tokens_out=whole(usage.get("completion_tokens")),
            cache_read=cached,
            cost_usd=cost_usd,
        ),
    )


def _failed(event: Event, start: int, end: int) -> tuple[Signal, ...]:
    """Read the exception that ended the run. Only those of the libraries that ask the model tell of inference."""
    words, error = text(event.get("message")), text(event.get("error"))[:200]
    result = Resulted(start=start, end=end, ok=False, text=f"{error}: {words}"[:RESULT_CHARS], terminal=error)
    if text(event.get("module")).partition(".")[0] not in INFERENCE_MODULES:
        return (result,)
    known = status(event.get("status"))
    return (Failed(start=start, end=end, status=known, error=error, message=words[:TEXT_CHARS]), result)


def _resulted(event: Event, start: int, end: int) -> Resulted:
    words, told = text(event.get("text")), text(event.get("submission"))
    ok = event.get("status") == "Submitted"
    return Resulted(
        start=start,
        end=end,
        ok=ok,
        text=(told.strip() or words)[:RESULT_CHARS],
        claims_done=ok and (claims_done(words) or claims_done(told)),
        terminal=text(event.get("status"))[:200],
    )
