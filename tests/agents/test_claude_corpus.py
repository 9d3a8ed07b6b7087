"""Recordings of the real Claude Code: each ends in the kind, tokens and compactions that a person reviewed."""

from __future__ import annotations

import glob
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.readings import reading

from ralphd.core.classify import classify
from ralphd.core.facts import Facts
from ralphd.core.outcomes import Kind

CORPUS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "corpus", "claude")
NAMES = sorted(os.path.basename(path)[: -len(".jsonl")] for path in glob.glob(f"{CORPUS}/*.jsonl"))
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


def stream(name: str) -> bytes:
    with open(f"{CORPUS}/{name}.jsonl", "rb") as file:
        return file.read()


def facts(name: str, data: bytes, expected: dict[str, object]) -> Facts:
    errors = f"{CORPUS}/{name}.stderr"
    tail = ""
    if os.path.exists(errors):
        with open(errors) as file:
            tail = file.read()
    return Facts(
        cli="claude",
        exit_code=expected["exit"],
        signal=expected["signal"],
        reading=reading("claude", data),
        stderr_tail=tail,
        log=f"{name}.jsonl",
    )


def expectation(name: str) -> dict[str, object]:
    with open(f"{CORPUS}/{name}.expect.json") as file:
        return json.load(file)


def told(name: str, data: bytes) -> tuple[object, ...]:
    """What must not change however the same events arrive."""
    expected = expectation(name)
    known = facts(name, data, expected)
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
        if evidence.file == known.log:
            told = data[evidence.start : evidence.end]
            assert known.reading.failed is None or b'"is_error":true' in told or b'"model":"<synthetic>"' in told


def test_there_are_recordings():
    assert len(NAMES) > 100


names = st.sampled_from(NAMES)


@settings(deadline=None, max_examples=60)
@given(names, st.data())
def test_a_stream_cut_anywhere_tells_no_failure_that_it_does_not_hold(name, data):
    whole = stream(name)
    head = data.draw(st.integers(0, len(whole)))
    tail = data.draw(st.integers(head, len(whole)))
    part = whole[head:tail]
    kind = classify(facts(name, part, {"exit": 0, "signal": None})).kind
    if kind.family == "inference":
        assert b'"error"' in part or b'"is_error":true' in part or name == "text-output-err"


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
    assert reading("claude", data, chunk) == reading("claude", data)
    assert told(name, data.replace(b"\n", end))[:4] == tuple(
        known[key] for key in ("kind", "tokens_in", "tokens_out", "compactions")
    )


@settings(deadline=None, max_examples=40)
@given(names.filter(lambda name: name != "text-output-err"), st.data())
def test_glued_objects_change_nothing(name, data):
    lines = [line for line in stream(name).split(b"\n") if line]
    glue = [data.draw(st.sampled_from([b"", b" ", b"\n"])) for _ in lines]
    assert told(name, b"".join(line + end for line, end in zip(lines, glue, strict=True))) == told(
        name, b"\n".join(lines)
    )


@pytest.mark.parametrize("name", [name for name in NAMES if expectation(name)["kind"] == "done.next"])
@pytest.mark.parametrize("sentence", LIMIT_SENTENCES)
def test_limit_sentences_in_tool_results_and_in_the_models_words_tell_nothing(name, sentence):
    lines = stream(name).split(b"\n")
    spoiled = [json.dumps(spoil(json.loads(line), sentence)).encode() if line else line for line in lines]
    known = facts(name, b"\n".join(spoiled), expectation(name))
    outcome = classify(Facts(**{**vars(known), "head_moved": True}))
    assert outcome.kind is Kind.NEXT
    assert known.reading.failed is None


def spoil(event, sentence):
    """Put the sentence wherever a model, a tool or a file can put words."""
    if event.get("type") in ("user", "assistant") and isinstance(event.get("message", {}).get("content"), list):
        for block in event["message"]["content"]:
            for key in ("text", "content"):
                if key in block:
                    block[key] = sentence
            if "input" in block:
                block["input"] = {"command": sentence, "type": "result", "is_error": True}
    if "tool_use_result" in event:
        event["tool_use_result"] = f"Error: {sentence}"
    return event


def test_a_five_megabyte_tool_result_changes_nothing():
    data = stream("success-bash")
    assert data.count(b'"content":"hello') or data.count(b'"type":"tool_result"')
    events = [json.loads(line) for line in data.split(b"\n") if line]
    for event in events:
        if event["type"] == "user":
            event["message"]["content"][0]["content"] = "You've hit your session limit\n" * 180_000
    big = b"\n".join(json.dumps(event).encode() for event in events)
    assert len(big) > 5_000_000
    assert told("success-bash", big) == told("success-bash", data)
