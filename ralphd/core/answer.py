"""Which answers of a supervisor's model count: one call of what was offered, resting on rows that were shown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ralphd.core.advice import EVIDENCE_MOST, WHY_CHARS, Question, one_line
from ralphd.core.outcomes import Kind

# One call of a tool with a few numbers and a sentence takes some 300 bytes.
ANSWER_MOST_BYTES = 64 << 10


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A valid answer: one of what was offered, and the rows that it rests on."""

    choice: str
    evidence: tuple[int, ...]
    why: str


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """An answer that doesn't count. ``kind`` is supervisor.invalid or supervisor.forbidden."""

    kind: Kind
    why: str
    choice: str = ""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What an answer cost, as the endpoint tells it; None: it doesn't."""

    tokens_in: int | None = None
    tokens_out: int | None = None


def read(asked: Question, body: bytes) -> tuple[Advice | Faulty, Spent]:
    """Read the body of a Messages answer, strictly. Never raises, whatever it holds."""
    data, spent = message_of(body)
    return (data if isinstance(data, Faulty) else _judge(asked, data)), spent


def message_of(body: bytes) -> tuple[dict[str, object] | Faulty, Spent]:
    """Return what a body holds, if that is a message at all, and what it cost."""
    if len(body) > ANSWER_MOST_BYTES:
        return _invalid(f"an answer of {len(body)} bytes"), Spent()
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return _invalid("no JSON"), Spent()
    if not isinstance(data, dict):
        return _invalid("no message"), Spent()
    return data, _spent(data)


def _judge(asked: Question, data: dict[str, object]) -> Advice | Faulty:
    calls = calls_of(data)
    if isinstance(calls, Faulty):
        return calls
    if len(calls) != 1:
        return _invalid(f"{len(calls)} calls instead of one")
    return call_on(asked, calls[0])


def calls_of(data: dict[str, object]) -> list[dict[str, object]] | Faulty:
    if data.get("type") != "message" or data.get("role") != "assistant":
        return _invalid("no message of an assistant")
    if data.get("stop_reason") != "tool_use":
        return _invalid(f"it stopped with {_short(data.get('stop_reason'))}, not with a call")
    content = data.get("content")
    blocks = content if isinstance(content, list) else []
    if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
        return _invalid("a content that isn't made of blocks")
    return [block for block in blocks if block["type"] == "tool_use"]


def call_on(asked: Question, call: dict[str, object]) -> Advice | Faulty:
    name, given = call.get("name"), call.get("input")
    if not isinstance(name, str):
        return _invalid("a call without a name")
    if name not in asked.offered:
        return Faulty(kind=Kind.SUPERVISOR_FORBIDDEN, why=f"{_short(name)} was not offered", choice=_short(name))
    if not isinstance(given, dict) or given.keys() != {"evidence", "why"}:
        return _invalid("a call with other fields than evidence and why", name)
    evidence, why = given["evidence"], given["why"]
    if not isinstance(why, str) or len(why) > WHY_CHARS:
        return _invalid("no sentence that says why", name)
    if not isinstance(evidence, list) or not 1 <= len(evidence) <= EVIDENCE_MOST:
        return _invalid("no list of a few rows", name)
    if not all(type(row) is int and row in asked.rows for row in evidence):
        return _invalid("rows that were not shown", name)
    return Advice(choice=name, evidence=tuple(dict.fromkeys(evidence)), why=one_line(why))


def _invalid(why: str, choice: str = "") -> Faulty:
    return Faulty(kind=Kind.SUPERVISOR_INVALID, why=why, choice=choice)


def _short(value: object) -> str:
    return one_line(str(value)[:60])


def _spent(data: dict[str, object]) -> Spent:
    usage = data.get("usage")
    told: dict[str, object] = usage if isinstance(usage, dict) else {}
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Spent(tokens_in=_sum(told.get(name) for name in names), tokens_out=_sum([told.get("output_tokens")]))


def _sum(figures: Iterable[object]) -> int | None:
    known = [figure for figure in figures if type(figure) is int and 0 <= figure < 1 << 40]
    return sum(known) if known else None
