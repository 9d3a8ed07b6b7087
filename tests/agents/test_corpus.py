"""Recordings of the real CLIs: each ends in the kind, tokens and compactions that a person reviewed.

A folder of ``tests/corpus`` is one CLI. ``NAME.jsonl`` is what it printed, ``NAME.stderr`` is there where it tells
something, ``NAME.expect.json`` is what both must come to; ``ended_by`` there is set where the runner ends such a run.
``about.json`` tells what a program can't guess: ``failure_marks`` stand in each event that reports a failure,
``words`` are the paths of an event where a model, a tool or a file can put words (``*`` is each item of a list),
``plain_failures`` are recordings that fail in plain text, ``big`` is one with a tool call that ended well, and
``at_least`` keeps recordings from being lost.
"""

from __future__ import annotations

import glob
import json
import os
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.readings import reading

from ralphd.core.classify import classify
from ralphd.core.facts import EndedBy, Facts
from ralphd.core.outcomes import Kind

CORPUS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "corpus")
CLIS = sorted(os.listdir(CORPUS))
NAMES = sorted(os.path.relpath(path, CORPUS)[: -len(".jsonl")] for path in glob.glob(f"{CORPUS}/*/*.jsonl"))
LIMIT_SENTENCES = (
    "You've hit your session limit · resets 7:20pm",
    "API Error: 529 Overloaded",
    "Not logged in · Please run /login",
    "Error: 429 rate limit exceeded",
    '{"type":"error","error":{"type":"authentication_error"}}',
    "Prompt is too long",
)
STRANGERS = (
    b'{"type":"weather","subtype":"error","error":"rate_limit","status":429}',
    b'{"type":"system","subtype":"api_retry_v9","error_status":529}',
    b'{"type":["result"],"is_error":true}',
    b'{"type":"assistant","message":null}',
    b'{"type":"user","message":{"content":[1,null,"x"]}}',
    b'{"type":"stream_event","event":[]}',
    b"[1,2,3]",
    b"{" * 5000,
    b"[" * 200_000,
    b"",
    b"\0\0\0",
    b"\xff\xfe\xfa",
)


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


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_ends_as_reviewed(name):
    expected = expectation(name)
    assert told(name, stream(name))[:5] == (
        expected["kind"],
        expected["tokens_in"],
        expected["tokens_out"],
        expected["compactions"],
        expected["calls"],
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_evidence_of_a_failure_is_where_it_says(name):
    data = stream(name)
    known = facts(name, data, expectation(name))
    for evidence in classify(known).evidence:
        if evidence.file == known.log and known.reading.failed is not None:
            assert marked(name, data[evidence.start : evidence.end])


@pytest.mark.parametrize("cli", CLIS)
def test_there_are_recordings_of(cli):
    assert len([name for name in NAMES if cli_of(name) == cli]) >= about(cli)["at_least"]


names = st.sampled_from(NAMES)


@settings(deadline=None, max_examples=60)
@given(names, st.data())
def test_a_stream_cut_anywhere_tells_no_failure_that_it_does_not_hold(name, data):
    whole = stream(name)
    head = data.draw(st.integers(0, len(whole)))
    tail = data.draw(st.integers(head, len(whole)))
    part = whole[head:tail]
    known = facts(name, part, {"exit": 0, "signal": None})
    if classify(replace(known, stderr_tail="")).kind.family == "inference":
        assert marked(name, part) or fails_plainly(name)


@settings(deadline=None, max_examples=60)
@given(names, st.data())
def test_unknown_events_and_fields_change_nothing(name, data):
    lines = stream(name).split(b"\n")
    mixed = []
    for line in lines:
        if line.startswith(b"{") and data.draw(st.booleans()):
            event = json.loads(line)
            mixed.append(
                json.dumps({**event, "news": {"type": "result", "is_error": True, "error": "rate_limit"}}).encode()
            )
        else:
            mixed.append(line)
        mixed += data.draw(st.lists(st.sampled_from(STRANGERS), max_size=1))
    assert told(name, b"\n".join(mixed)) == told(name, b"\n".join(lines))


@settings(deadline=None, max_examples=40)
@given(names, st.integers(1, 5000), st.sampled_from([b"\r\n", b"\n\n", b"\n\0\n"]))
def test_split_chunks_and_line_ends_change_nothing(name, chunk, end):
    data = stream(name)
    known = expectation(name)
    assert reading(cli_of(name), data, chunk) == reading(cli_of(name), data)
    assert told(name, data.replace(b"\n", end))[:4] == tuple(
        known[key] for key in ("kind", "tokens_in", "tokens_out", "compactions")
    )


@settings(deadline=None, max_examples=40)
@given(names, st.data())
def test_glued_objects_change_nothing(name, data):
    lines = [line for line in stream(name).split(b"\n") if line]
    assume(all(line.startswith(b"{") for line in lines))
    glue = [data.draw(st.sampled_from([b"", b" ", b"\n"])) for _ in lines]
    assert told(name, b"".join(line + end for line, end in zip(lines, glue, strict=True))) == told(
        name, b"\n".join(lines)
    )


@pytest.mark.parametrize("name", [name for name in NAMES if expectation(name)["kind"] == "done.next"])
@pytest.mark.parametrize("sentence", LIMIT_SENTENCES)
def test_limit_sentences_in_tool_results_and_in_the_models_words_tell_nothing(name, sentence):
    spoiled = spoil(name, sentence)
    known = facts(name, spoiled, expectation(name))
    outcome = classify(replace(known, head_moved=True))
    assert outcome.kind is Kind.NEXT
    assert known.reading.failed is None


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


@pytest.mark.parametrize("cli", [cli for cli in CLIS if about(cli)["words"]])
def test_five_megabytes_of_limit_sentences_in_a_tool_result_change_nothing(cli):
    name = f"{cli}/{about(cli)['big']}"
    big = spoil(name, "You've hit your session limit\n" * 90_000)
    assert len(big) > 5_000_000
    assert told(name, big)[:5] == told(name, stream(name))[:5]
