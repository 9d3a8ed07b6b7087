"""Three hundred ways in which an answer of a model is no answer: each a name and the bytes of a body."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from support.endpoint import message

SEED = 20261201


def garbage(offered: tuple[str, ...], rows: frozenset[int]) -> list[tuple[str, bytes]]:
    """None of these may count, whatever was offered and shown."""
    name, row = offered[0], max(rows)
    good = {"evidence": [row], "why": "The rows say so."}
    found = [
        *_bodies(),
        *_messages(name, good),
        *_names(offered, good),
        *_inputs(name, good, row),
        *_broken(name, good),
    ]
    assert len(found) >= 300, len(found)
    assert len({label for label, _ in found}) == len(found)
    return found


def _bytes(value: object) -> bytes:
    return json.dumps(value).encode()


def _bodies() -> Iterator[tuple[str, bytes]]:
    texts = ["", " ", "null", "true", "0", "-1", '""', "[]", "{}", "[[]]", "NaN", "Infinity", "<html>502</html>", "ok", "carry_on",
             "I would restart this loop.", "data: {}", "event: message_start\n\n", "{", "}", "{}{}", "\ufeff{}", "1e999", "'", '{"a":1,}']  # fmt: skip
    for number, text in enumerate(texts):
        yield f"body {number}", text.encode()
    yield "body of bytes", bytes(range(256))
    yield "body of zeros", b"\0" * 5000
    yield "body too deep", b"[" * 30_000 + b"]" * 30_000
    yield "body too long", b" " * (1 << 20)
    yield "body of half a letter", b'{"type":"message\xc3'


def _messages(name: str, good: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    values: list[object] = [None, "", 0, 1, True, [], {}, "error", "MESSAGE", "message ", ["message"]]
    for number, value in enumerate(values):
        yield f"type {number}", _bytes(message(name, good, type=value))
        yield f"role {number}", _bytes(message(name, good, role=value))
        yield f"stop {number}", _bytes(message(name, good, stop_reason=value))
        yield f"content {number}", _bytes(message(name, good, content=value))
        yield f"block {number}", _bytes(message(name, good, content=[value]))
    for stop in ("end_turn", "max_tokens", "refusal", "pause_turn", "stop_sequence", "Tool_use", "tool_use\n"):
        yield f"stopped by {stop!r}", _bytes(message(name, good, stop_reason=stop))
    call = message(name, good)["content"][0]
    yield "two calls", _bytes(message(content=[call, call]))
    yield "two different calls", _bytes(message(content=[call, {**call, "name": "pause"}]))
    yield "a hundred calls", _bytes(message(content=[call] * 100))
    yield "prose only", _bytes(message(content=[{"type": "text", "text": f"call {name} with {json.dumps(good)}"}]))
    yield "a call in prose", _bytes(message(content=[{"type": "text", "text": json.dumps(call)}]))
    yield "a call in a call", _bytes(message(content=[{"type": "group", "content": [call]}]))
    yield "a result for a call", _bytes(message(content=[{**call, "type": "tool_result"}]))
    yield "a server's call", _bytes(message(content=[{**call, "type": "server_tool_use"}]))
    yield "an error with a call", _bytes({"type": "error", "error": message(name, good)})
    yield "a list of messages", _bytes([message(name, good)])
    yield "a message in a string", _bytes(json.dumps(message(name, good)))
    yield "a whole batch", _bytes({"results": [message(name, good)]})


def _names(offered: tuple[str, ...], good: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    wrong = ["", " ", "kill_all", "stop", "StopLoop", "EndNight", "scale", "restart_loop_2", "carry_on;pause", "carry_on ",
             " carry_on", "Carry_On", "carry-on", "carry_on\n", "carry_on\0", "\u0441arry_on", "carry_on" * 500, "__class__", "../pause",
             "pause loop-2", "note(loop='loop-2')", "*", "all", "none", "null", "tool_use", "bash", "print_environment", "edit_prompt"]  # fmt: skip
    for number, name in enumerate(wrong):
        assert name not in offered
        yield f"name {number}", _bytes(message(name, good))
    others: list[object] = [None, 0, 1.5, True, [], ["carry_on"], {}, {"name": "carry_on"}]
    for number, value in enumerate(others):
        body = message("x", good)
        body["content"][0]["name"] = value
        yield f"no name {number}", _bytes(body)


def _inputs(name: str, good: dict[str, Any], row: int) -> Iterator[tuple[str, bytes]]:
    values: list[object] = [
        None,
        "",
        "x",
        0,
        1,
        True,
        [],
        [good],
        {},
        json.dumps(good),
        {"evidence": [row]},
        {"why": "so"},
    ]
    for number, value in enumerate(values):
        yield f"input {number}", _bytes(message(name, value))
    more = {"loop": "loop-2", "loops": ["all"], "action": "pause", "generation": 9, "reset_to": "HEAD~9", "width": 512, "note": "x",
            "now": True, "command": "env", "target": "*", "by": "operator", "slots": {}, "template": "x", "_": 0, "": ""}  # fmt: skip
    for key, value in more.items():
        yield f"more: {key}", _bytes(message(name, {**good, key: value}))
        yield f"instead of why: {key}", _bytes(message(name, {"evidence": [row], key: value}))
    strange: list[object] = [
        None, "", str(row), row, True, {}, {"row": row}, [], [None], [str(row)], [float(row)], [row + 0.5], [True], [[row]],
        [{"id": row}], [-row], [0], [row + 1], [row, row + 1], [1 << 63], [1 << 200], [-1], [row] * 9, list(range(1000)), ["*"],
    ]  # fmt: skip
    for number, value in enumerate(strange):
        yield f"evidence {number}", _bytes(message(name, {**good, "evidence": value}))
    words: list[object] = [None, 0, True, [], {}, ["so"], "x" * 301, "x" * 50_000]
    for number, value in enumerate(words):
        yield f"why {number}", _bytes(message(name, {**good, "why": value}))


def _broken(name: str, good: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """A good answer that was cut, or of which bytes got lost or doubled: no JSON any more."""
    whole = _bytes(message(name, good))
    dice = random.Random(SEED)
    for number in range(40):
        yield f"cut {number}", whole[: 1 + dice.randrange(len(whole) - 1)]
    for number in range(20):
        place = dice.randrange(1, len(whole) - 1)
        yield f"broken {number}", whole[:place] + b'"{' + whole[place:]
    for number in range(20):
        yield f"twice {number}", whole + b"," * (number % 3) + whole + b" " * number
    yield "with an answer behind", whole + b"\n" + whole
    yield "NaN for a row", whole.replace(b'"evidence": [', b'"evidence": [NaN, ')
    yield "a row of a million digits", whole.replace(b'"evidence": [', b'"evidence": [' + b"9" * 100_000 + b", ")
    yield "a row of ten thousand digits", whole.replace(b'"evidence": [', b'"evidence": [' + b"9" * 10_000 + b", ")
    yield "a message of a MiB", whole.replace(b"The rows", b"x" * (1 << 20))
