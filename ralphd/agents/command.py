"""How any program at all becomes an agent.

The program gets the prompt on stdin and is judged by its exit status. Every line it prints is plain text for the pane,
unless it is a JSON object of this protocol, one a line; all fields but ``type`` may be left out, unknown ones are
ignored:

    {"type": "begin", "session": "…", "model": "…"}
    {"type": "text", "text": "what the agent says"}
    {"type": "call", "id": "1", "tool": "shell", "command": "pytest -q"}
    {"type": "return", "id": "1", "text": "3 failed", "error": false, "exit": 1}
    {"type": "usage", "input": 1200, "output": 80, "cache_read": 0, "cost_usd": 0.01}     (adds up)
    {"type": "compaction"}
    {"type": "error", "status": 529, "error": "overloaded", "message": "…", "retry_after_s": 30}
    {"type": "result", "ok": true, "text": "the last answer", "done": false}

``error`` says that inference failed, so ralphd waits and asks again; ``status`` is the HTTP status. ``return`` with an
error, or any other text, never says so. ``done`` is a claim that the whole task is done; the verifier decides.
Run each shell command of the agent as ``$RALPHD_GUARD 'COMMAND'``, and the limits of tool calls hold for it.
"""

from __future__ import annotations

from ralphd.agents.base import Launch, Tells
from ralphd.agents.jsonl import RESULT_CHARS, TEXT_CHARS, count, error_object, objects, plain, real, text, whole
from ralphd.core.signals import Began, Called, Compacted, Resulted, Returned, Said, Signal, Unread, Used, claims_done

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Reader, Turn
    from ralphd.core.exchange import Assignment

    Event = dict[str, object]

TELLS = Tells(tokens=False, compactions=False, partial=False, resume=False)
guarded_lines = ""


def launch(assignment: Assignment, turn: Turn) -> Launch:  # noqa: ARG001 -- the contract; a program has no sessions
    return Launch(argv=(assignment.program, *assignment.args), env=dict(assignment.env))


def reader() -> Reader:
    return Stream()


class Stream:
    """Reads one process of any program."""

    def read(self, line: bytes, start: int, end: int) -> tuple[Signal, ...]:
        found, rest = objects(line)
        signals = [_event(event, start, end) for event in found]
        if rest or not found:
            signals.append(Unread(start=start, end=end, text=plain(rest)))
        return tuple(signals)


def _event(event: Event, start: int, end: int) -> Signal:
    match event.get("type"):
        case "begin":
            name, model = text(event.get("session"))[:200], text(event.get("model"))[:200]
            return Began(start=start, end=end, session=name, model=model, version=text(event.get("version"))[:200])
        case "text":
            return Said(start=start, end=end, text=text(event.get("text")))
        case "call":
            return _called(event, start, end)
        case "return":
            return _returned(event, start, end)
        case "usage":
            return _used(event, start, end)
        case "compaction":
            return Compacted(start=start, end=end)
        case "result":
            return _resulted(event, start, end)
        case _:
            return error_object(event, start, end) or Unread(start=start, end=end)


def _name(event: Event) -> str:
    name = event.get("id", "")
    return str(name)[:200] if isinstance(name, (str, int)) else ""


def _called(event: Event, start: int, end: int) -> Called:
    tool, command = text(event.get("tool"))[:200], text(event.get("command"))[:TEXT_CHARS]
    return Called(start=start, end=end, id=_name(event), tool=tool, command=command)


def _returned(event: Event, start: int, end: int) -> Returned:
    is_error = event.get("error") not in (None, False, "") or whole(event.get("exit")) != 0
    words = text(event.get("text"))[:TEXT_CHARS]
    return Returned(start=start, end=end, id=_name(event), text=words, is_error=is_error)


def _used(event: Event, start: int, end: int) -> Used:
    tokens_in = count(event.get("input"))
    cached = count if tokens_in is None else whole  # who tells what went in, and nothing of a cache, has used none
    return Used(
        start=start,
        end=end,
        tokens_in=tokens_in,
        tokens_out=count(event.get("output")),
        cache_read=cached(event.get("cache_read")),
        cache_write=cached(event.get("cache_write")),
        cost_usd=real(event.get("cost_usd")),
    )


def _resulted(event: Event, start: int, end: int) -> Resulted:
    ok, words = event.get("ok", True) is True, text(event.get("text"))
    told = event.get("done")
    done = told if isinstance(told, bool) else claims_done(words)  # what is told outright outweighs any words
    return Resulted(start=start, end=end, ok=ok, text=words[:RESULT_CHARS], claims_done=ok and done)
