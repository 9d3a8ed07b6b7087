"""The recordings of the real CLIs in ``tests/corpus``, and what is known of each.

A folder is one CLI. ``NAME.jsonl`` is what it printed, ``NAME.stderr`` is there where it tells something,
``NAME.expect.json`` is what both must come to; ``ended_by`` there tells why the runner ends such a run.
``about.json`` tells what a program can't guess: ``failure_marks`` stand in each event that reports a failure,
``words`` are the paths of an event where a model, a tool or a file can put words (``*`` is each item of a list),
``plain_failures`` are recordings that fail in plain text, ``big`` is one with a tool call that ended well, and
``at_least`` keeps recordings from being lost.
"""

from __future__ import annotations

import glob
import json
import os

from support.readings import reading

from ralphd.core.classify import classify
from ralphd.core.facts import EndedBy, Facts

CORPUS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "corpus")
CLIS = sorted(os.listdir(CORPUS))
NAMES = sorted(os.path.relpath(path, CORPUS)[: -len(".jsonl")] for path in glob.glob(f"{CORPUS}/*/*.jsonl"))


def content(name: str) -> bytes:
    try:
        with open(f"{CORPUS}/{name}", "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def stream(name: str) -> bytes:
    return content(f"{name}.jsonl")


def expectation(name: str) -> dict[str, object]:
    return json.loads(content(f"{name}.expect.json"))


def about(cli: str) -> dict[str, object]:
    return json.loads(content(f"{cli}/about.json"))


def cli_of(name: str) -> str:
    return name.partition("/")[0]


def marked(name: str, data: bytes) -> bool:
    """Say whether ``data`` holds a report of a failure at all."""
    return any(mark.encode() in data for mark in about(cli_of(name))["failure_marks"])


def fails_plainly(name: str) -> bool:
    return os.path.basename(name) in about(cli_of(name)).get("plain_failures", [])


def facts(name: str, data: bytes, expected: dict[str, object]) -> Facts:
    cli = cli_of(name)
    return Facts(
        cli=cli,
        exit_code=expected["exit"],
        signal=expected["signal"],
        ended_by=EndedBy(expected.get("ended_by", "")),
        reading=reading(cli, data),
        stderr_tail=content(f"{name}.stderr").decode()[-8192:],
        log=f"{name}.jsonl",
    )


def told(name: str, data: bytes) -> tuple[object, ...]:
    """What must not change however the same events arrive."""
    known = facts(name, data, expectation(name))
    fold = known.reading
    return (
        classify(known).kind.value,
        fold.tokens_in,
        fold.tokens_out,
        fold.compactions,
        fold.calls,
        fold.cost_usd,
        fold.session,
        fold.model,
        fold.result and (fold.result.ok, fold.result.text, fold.result.terminal),
    )


def spoil(name: str, sentence: str) -> bytes:
    """Put the sentence wherever a model, a tool or a file can put words."""
    paths = [path.split(".") for path in about(cli_of(name))["words"]]
    lines = stream(name).split(b"\n")
    if not paths:  # a CLI that prints no events: all of it is words
        return b"\n".join(sentence.encode() for _ in lines)
    events = [json.loads(line) for line in lines if line.startswith(b"{")]
    for event in events:
        for path in paths:
            put(event, path, sentence)
    return b"\n".join(json.dumps(event).encode() for event in events)


def put(value: object, path: list[str], sentence: str) -> None:
    if path[0] == "*" and isinstance(value, list):
        for item in value:
            put(item, path[1:], sentence)
    elif isinstance(value, dict) and path[0] in value:
        if path[1:]:
            put(value[path[0]], path[1:], sentence)
        elif isinstance(value[path[0]], dict):
            value[path[0]] = {"command": sentence, "type": "result", "is_error": True}
        else:
            value[path[0]] = sentence
