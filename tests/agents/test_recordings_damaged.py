"""Recordings of the real CLIs, cut, glued, split, padded and mixed up: what they tell is what they still hold."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.readings import reading
from support.recordings import (
    CLIS,
    NAMES,
    about,
    cli_of,
    content,
    expectation,
    facts,
    fails_plainly,
    marked,
    spoil,
    stream,
    told,
)

from ralphd.agents import adapter
from ralphd.agents.lines import LIMIT_BYTES
from ralphd.core.classify import ENDS_WITH_RESULT, classify
from ralphd.core.reading import Reading

SENTENCES = (
    "You've hit your session limit · resets 7:20pm",
    "API Error: 529 Overloaded",
    "[API Error: 401 Incorrect API key provided]",
    '[API Error: {"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED"}}]',
    "done.\n[API Error: Model stream ended without a finish reason.]",
    "Not logged in · Please run /login",
    "Error: 429 rate limit exceeded",
    '{"type":"error","error":{"type":"authentication_error"}}',
    '{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: quota]"}}',
    '{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized"}}',
    "litellm.RateLimitError: too many requests",
    "Attempt 1 failed with status 429. Retrying with backoff...",
    "Prompt is too long",
)
STRANGERS = (
    b'{"type":"weather","subtype":"error","error":"rate_limit","status":429}',
    b'{"type":"system","subtype":"api_retry_v9","error_status":529}',
    b'{"type":["result"],"is_error":true}',
    b'{"type":{"result":1},"status":"error"}',
    b'{"type":"assistant","message":null}',
    b'{"type":"user","message":{"content":[1,null,"x"]}}',
    b'{"type":"stream_event","event":[]}',
    b"[1,2,3]",
    b"{" * 5000,
    b"[" * 20_000,
    b"",
    b"\0\0\0",
    b"\xff\xfe\xfa",
)
NEWS = {"type": "result", "is_error": True, "status": "error", "error": "rate_limit"}
ENDED_WELL = [name for name in NAMES if expectation(name)["kind"] == "done.next"]


def all_events(name: str) -> bool:
    """Say whether each line is an object of its own: nothing else can be glued to another."""
    return all(line.startswith(b"{") for line in stream(name).split(b"\n") if line.strip())


EVENTS_ONLY = [name for name in NAMES if all_events(name)]


def parts(name: str) -> list[tuple[bytes, Reading]]:
    """Return what the recording holds up to the end of each of its lines, and what that tells."""
    fold, reader, lines = Reading(), adapter(cli_of(name)).reader(), stream(name).split(b"\n")
    found, end = [(b"", replace(fold))], 0
    for line in lines:
        start, end = end, end + len(line) + 1
        for signal in reader.read(line, start, end - 1) if line else ():
            fold.add(signal)
        found.append((stream(name)[: end - 1], replace(fold, running=dict(fold.running))))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_cut_at_any_line_a_recording_tells_no_more_than_is_left_of_it(name):
    """The process ended as it did. What is missing can only make the answer vaguer: a failure must stand in what is left
    (or in stderr, which is whole), a signal is one at any cut, and nothing is done that didn't say so."""
    expected = expectation(name)
    whole = expected["kind"]
    known = facts(name, b"", expected)
    blind = classify(known).kind.value  # by the process and its stderr alone
    for part, fold in parts(name):
        kind = classify(replace(known, reading=fold)).kind
        if kind.value in (whole, blind) and (kind.family != "done" or whole.startswith("done.")):
            continue
        if kind.family == "inference":
            assert marked(name, part) or fails_plainly(name), (part[-300:], kind)
        elif kind.family == "done":
            assert fold.settled or cli_of(name) not in ENDS_WITH_RESULT or not fold.begun, (part[-300:], kind)
        else:
            assert kind.value in ("agent.exited", "agent.unknown", "agent.config_error"), (part[-300:], kind)


@pytest.mark.parametrize("name", [name for name in NAMES if cli_of(name) in ENDS_WITH_RESULT])
def test_cut_before_its_result_a_run_that_exited_well_is_not_done(name):
    known = facts(name, b"", {"exit": 0, "signal": None})
    for part, fold in parts(name):
        if fold.begun and not fold.settled:
            assert classify(replace(known, reading=fold, head_moved=True)).kind.family != "done", part[-300:]


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(EVENTS_ONLY), st.data())
def test_a_half_written_line_tells_nothing(name, data):
    whole = stream(name)
    cut = data.draw(st.integers(0, len(whole)))
    line = whole[:cut].rpartition(b"\n")[0]
    half = whole[len(line) : cut].strip()
    if half.endswith(b"}") and whole[cut : cut + 1] in (b"\n", b""):
        return  # it is whole, and only its newline is missing
    assert told(name, whole[:cut]) == told(name, line)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(NAMES), st.data())
def test_any_piece_from_the_middle_tells_no_failure_that_it_does_not_hold(name, data):
    whole = stream(name)
    head = data.draw(st.integers(0, len(whole)))
    part = whole[head : data.draw(st.integers(head, len(whole)))]
    known = replace(facts(name, part, {"exit": 0, "signal": None}), stderr_tail="")
    if classify(known).kind.family == "inference":
        assert marked(name, part) or fails_plainly(name)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_events_and_fields_change_nothing(name):
    mixed = []
    for number, line in enumerate(stream(name).split(b"\n")):
        mixed.append(STRANGERS[number % len(STRANGERS)])
        event = json.loads(line) if line.startswith(b"{") and line.endswith(b"}") else None
        mixed.append(line if event is None else json.dumps({"news": NEWS, **event, "more": [NEWS]}).encode())
    if all_events(name):
        assert told(name, b"\n".join(mixed)) == told(name, stream(name))


@pytest.mark.parametrize("name", EVENTS_ONLY)
@pytest.mark.parametrize("glue", [b"", b" ", b"\0"])
def test_glued_events_change_nothing(name, glue):
    lines = [line for line in stream(name).split(b"\n") if line]
    pairs = [glue.join(lines[at : at + 3]) for at in range(0, len(lines), 3)]
    assert told(name, b"\n".join(pairs)) == told(name, stream(name))


@pytest.mark.parametrize("name", NAMES)
def test_line_ends_and_marks_change_nothing(name):
    whole, plain = stream(name), told(name, stream(name))
    assert told(name, whole.replace(b"\n", b"\r\n")) == plain
    assert told(name, whole.replace(b"\n", b"\n\0\n")) == plain
    assert told(name, b"\xef\xbb\xbf" + whole) == plain
    assert told(name, whole.replace(b"\n", b"\0\n")) == plain


@pytest.mark.parametrize("name", NAMES)
def test_pieces_of_any_length_change_nothing(name):
    whole = stream(name)
    length = 1 if len(whole) < 3000 else 7 + len(whole) % 97
    assert reading(cli_of(name), whole, length) == reading(cli_of(name), whole)


@pytest.mark.parametrize("cli", [cli for cli in CLIS if about(cli)["words"]])
def test_lines_of_five_megabytes_change_nothing(cli):
    name = f"{cli}/{about(cli)['big']}"
    padding = "You've hit your session limit. " * (5_000_000 // 31)
    for number, line in enumerate(stream(name).split(b"\n")[:12]):
        if line.startswith(b"{"):
            long = json.dumps({"padding": padding, **json.loads(line)}).encode()
            assert len(long) > 5_000_000
            lines = stream(name).split(b"\n")
            lines[number] = long
            assert told(name, b"\n".join(lines)) == told(name, stream(name))


@pytest.mark.parametrize("cli", [cli for cli in CLIS if about(cli)["words"]])
def test_a_line_past_all_limits_costs_only_itself(cli):
    name = f"{cli}/{about(cli)['big']}"
    flood = b'{"type":"result","status":"error","is_error":true,"padding":"' + b"x" * LIMIT_BYTES + b'"}'
    lines = stream(name).split(b"\n")
    assert told(name, b"\n".join([*lines[:1], flood, *lines[1:]])) == told(name, stream(name))


@pytest.mark.parametrize("cli", [cli for cli in CLIS if about(cli)["words"]])
def test_five_megabytes_of_limit_sentences_in_a_tool_result_change_nothing(cli):
    name = f"{cli}/{about(cli)['big']}"
    big = spoil(name, "You've hit your session limit\n" * 90_000)
    assert len(big) > 5_000_000
    assert told(name, big)[:5] == told(name, stream(name))[:5]


@pytest.mark.parametrize("name", ENDED_WELL)
def test_failure_sentences_of_tools_files_and_the_model_are_no_evidence(name):
    for sentence in SENTENCES:
        known = facts(name, spoil(name, sentence), expectation(name))
        assert known.reading.failed is None, sentence
        assert classify(replace(known, head_moved=True)).kind.value == "done.next", sentence
        if known.reading.tokens_out and all_events(name):  # it said them, did nothing else, and they cost output
            assert classify(known).kind.family == "done", sentence


def test_what_is_left_of_a_recording_is_looked_at():
    """The properties hold of something: recordings that fail, that end well, that a signal ended."""
    kinds = {expectation(name)["kind"] for name in NAMES}
    assert {"done.next", "agent.signalled", "inference.auth", "inference.truncated"} <= kinds
    assert len(ENDED_WELL) > 50
    assert sum(bool(content(f"{name}.stderr")) for name in NAMES) > 5
