"""What should the scripted model say to this request?"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

Point = Literal["accept", "headers", "start", "delta"]
"""Where in a response something may go wrong: before the status line, after the headers, after the first event,
in the middle of the first content block."""

Kind = Literal["main", "compact", "side"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One question a client asked.

    `session` numbers the sessions seen in one working directory from 0; `turn` numbers the answers of a session from 0;
    `attempt` counts how often this very turn was asked before (a client's retries, a resumed session).
    `tools` are the names of what the client offers. `news` is the text that came after the model's last answer: the prompt at first, tool results later.
    """

    number: int
    path: str
    kind: Kind = "main"
    session_id: str = ""
    directory: str = ""
    branch: str = ""
    session: int = 0
    turn: int = 0
    attempt: int = 0
    stream: bool = True
    model: str = "scripted"
    tools: tuple[str, ...] = ()
    system: str = ""
    prompt: str = ""
    news: str = ""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens an answer claims to have used."""

    tokens_in: int = 100
    cache_read: int = 0
    cache_write: int = 0
    tokens_out: int = 20


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """A tool call; `{cwd}` in its strings becomes the client's working directory."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An HTTP status instead of an answer."""

    status: int
    message: str = ""
    error: str = ""
    too_long: bool = False  # the conversation is: each protocol has its own words for it
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Breakage:
    """A response that goes wrong at a point; after a stall or garbage it goes on."""

    how: Literal["reset", "close", "truncate", "stall", "malformed", "error_event"]
    at: Point = "delta"
    seconds: float = 600
    ping_every_s: float = 0
    error: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the server sends back: text, tool calls, and what goes wrong on the way."""

    text: str = ""
    calls: tuple[ToolUse, ...] = ()
    fault: Refusal | Breakage | None = None
    stop: str = ""
    usage: Usage = field(default_factory=Usage)


Step = Answer | Callable[[Request], Answer]
Session = Sequence[Step]


class Script(Protocol):
    """Chooses the answer to each main request; the server calls it from many threads, so it must not remember."""

    def answer(self, request: Request) -> Answer: ...


def say(text: str, *, stop: str = "") -> Answer:
    """Plain words: the end of a session unless `stop` says otherwise (max_tokens, refusal, ...)."""
    return Answer(text=text, stop=stop)


def call(name: str, **arguments: Any) -> Answer:
    return Answer(calls=(ToolUse(name=name, arguments=arguments),))


def bash(command: str, **more: Any) -> Answer:
    return call("Bash", command=command, **more)


def overlong() -> Answer:
    """A tool call without end. Not `sleep`: Claude Code refuses commands that start with one."""
    return bash("tail -f /dev/null", timeout=600_000)


def hog(mib: int = 4096, python: str = sys.executable) -> Answer:
    """A tool call that fills memory MiB by MiB up to a bound, then waits for its end."""
    fill = f"a = [b'x' * 2**20 for _ in range({mib})]; print('filled', len(a), 'MiB', flush=True); time.sleep(3600)"
    return bash(f'{shlex.quote(python)} -c "import time; {fill}"', timeout=600_000)


def read(file: str) -> Answer:
    """Reads a file, named relative to the working directory; Claude Code wants this before an edit."""
    return call("Read", file_path=_absolute(file))


def edit(file: str, old: str, new: str) -> Answer:
    return call("Edit", file_path=_absolute(file), old_string=old, new_string=new)


def write(file: str, content: str) -> Answer:
    return call("Write", file_path=_absolute(file), content=content)


def together(*answers: Answer) -> Answer:
    """Several tool calls in one answer."""
    return replace(answers[0], calls=tuple(one for answer in answers for one in answer.calls))


def using(answer: Answer, **tokens: int) -> Answer:
    """The same answer with other usage figures (`tokens_in`, `cache_read`, `cache_write`, `tokens_out`)."""
    return replace(answer, usage=replace(answer.usage, **tokens))


def fault(status: int, message: str = "", *, error: str = "", retry_after_s: float | None = None) -> Answer:
    headers = {} if retry_after_s is None else {"retry-after": f"{retry_after_s:g}"}
    return Answer(fault=Refusal(status=status, message=message, error=error, headers=headers))


def too_long() -> Answer:
    """The conversation does not fit into the model's context."""
    return Answer(fault=Refusal(status=400, too_long=True))


def reset(at: Point = "delta") -> Answer:
    return Answer(text=BROKEN_OFF, fault=Breakage(how="reset", at=at))


def reset_mid_stream() -> Answer:
    return reset("delta")


def close(at: Point = "delta") -> Answer:
    return Answer(text=BROKEN_OFF, fault=Breakage(how="close", at=at))


def truncate(at: Point = "delta") -> Answer:
    """A well-formed end of the body with the message unfinished."""
    return Answer(text=BROKEN_OFF, fault=Breakage(how="truncate", at=at))


def stall(at: Point, seconds: float = 600, *, ping_every_s: float = 0, then: Answer | None = None) -> Answer:
    """Silence at a point, then the rest of `then`; with `ping_every_s` keep-alive events fill it."""
    return replace(
        then or Answer(text=BROKEN_OFF), fault=Breakage(how="stall", at=at, seconds=seconds, ping_every_s=ping_every_s)
    )


def malformed(at: Point = "delta", then: Answer | None = None) -> Answer:
    return replace(then or Answer(text=BROKEN_OFF), fault=Breakage(how="malformed", at=at))


def error_event(at: Point = "start", error: str = "overloaded_error", message: str = "Overloaded") -> Answer:
    return Answer(text=BROKEN_OFF, fault=Breakage(how="error_event", at=at, error=error, message=message))


def once(fault: Answer, then: Step) -> Step:
    return times(1, fault, then)


def times(count: int, fault: Answer, then: Step) -> Step:
    """The fault for the first `count` attempts at this turn, then the answer."""

    def choose(request: Request) -> Answer:
        return fault if request.attempt < count else resolve(then, request)

    return choose


def resolve(step: Step, request: Request) -> Answer:
    return step if isinstance(step, Answer) else step(request)


@dataclass(frozen=True, kw_only=True)
class Story:
    """The sessions of one loop in order; the last one repeats, and a session past its last step says it is done."""

    sessions: tuple[Session, ...]

    def answer(self, request: Request) -> Answer:
        steps = self.sessions[min(request.session, len(self.sessions) - 1)]
        return resolve(steps[request.turn], request) if request.turn < len(steps) else NOTHING_MORE


@dataclass(frozen=True, kw_only=True)
class Stories:
    """One story per loop, told apart by where the client works; strangers get `otherwise`.

    A story's key is the name of a folder in the client's working directory (the innermost that is a key), or the
    last part of its branch.
    """

    loops: Mapping[str, Script]
    otherwise: Script

    def answer(self, request: Request) -> Answer:
        here = (*reversed(request.directory.split("/")), request.branch.rpartition("/")[2])
        key = next((name for name in here if name in self.loops), None)
        return (self.otherwise if key is None else self.loops[key]).answer(request)


def story(*sessions: Session) -> Story:
    return Story(sessions=sessions or (session(),))


def session(*steps: Step) -> Session:
    return steps


def stories(loops: Mapping[str, Script] | None = None, otherwise: Script | None = None) -> Stories:
    return Stories(loops=loops or {}, otherwise=otherwise or story())


BUILDERS: Mapping[str, Callable[..., Step]] = {
    builder.__name__: builder
    for builder in (say, call, bash, overlong, hog, read, edit, write, together, fault, too_long, reset, close, truncate, stall, malformed,
                    error_event, once, times)
}  # fmt: skip


def from_json(text: str) -> Stories:
    """A scenario `{"loops": {NAME: [[STEP, ...], ...]}, "otherwise": [[STEP, ...]]}`.

    A step is `{"do": BUILDER, ...arguments of that builder}`; steps nest (`once`, `times`, `stall`, `malformed`).
    """
    scenario = json.loads(text)
    loops = {name: _story(sessions) for name, sessions in scenario.get("loops", {}).items()}
    return stories(loops, _story(scenario.get("otherwise", [])))


def _story(sessions: Sequence[Sequence[Mapping[str, Any]]]) -> Story:
    return story(*(session(*map(_step, steps)) for steps in sessions))


def _step(step: Mapping[str, Any]) -> Step:
    arguments = {name: _step(value) if _is_step(value) else value for name, value in step.items() if name != "do"}
    return BUILDERS[step["do"]](**arguments)


def _is_step(value: object) -> bool:
    return isinstance(value, dict) and value.get("do") in BUILDERS


def _absolute(file: str) -> str:
    return file if file.startswith("/") else "{cwd}/" + file


BROKEN_OFF = "This sentence is never heard to its end."
NOTHING_MORE = say("There is nothing more to do.")
SUMMARY = say(
    "<analysis>brief</analysis>\n<summary>\n1. Primary Request: the scripted task.\n2. Pending: carry on.\n</summary>"
)
SIDE = say("ok")
