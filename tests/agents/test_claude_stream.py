"""What single events of Claude Code's stream mean."""

from __future__ import annotations

import json

import pytest
from support.readings import facts, reading, signals

from ralphd.core.classify import classify
from ralphd.core.facts import EndedBy
from ralphd.core.outcomes import Kind
from ralphd.core.signals import (
    Began,
    Called,
    Compacted,
    Failed,
    Requesting,
    Resulted,
    Retrying,
    Returned,
    Said,
    Streamed,
    Unread,
    Used,
)


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event, ensure_ascii=False).encode() + b"\n" for event in events)


def read(*events: object):
    return signals("claude", lines(*events))


def assistant(*blocks, message_id="m1", **more):
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2}
    return {
        "type": "assistant",
        "message": {"id": message_id, "model": "m", "content": list(blocks), "usage": usage},
        **more,
    }


def synthetic(text: str, **more):
    return {
        "type": "assistant",
        "message": {"model": "<synthetic>", "content": [{"type": "text", "text": text}]},
        **more,
    }


def result(**more):
    return {"type": "result", "subtype": "success", "is_error": False, "result": "ok", **more}


INIT = {"type": "system", "subtype": "init", "session_id": "s1", "model": "opus", "claude_code_version": "2.1.332"}
TEXT = {"type": "text", "text": "I look."}
CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
BACK = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a\nb"}]}}


def test_a_session_says_who_it_is():
    (began,) = read(INIT)
    assert (began.session, began.model, began.version) == ("s1", "opus", "2.1.332")
    assert isinstance(began, Began)


def test_words_and_calls_come_in_order_and_the_usage_of_a_message_counts_once():
    found = read(assistant(TEXT), assistant(CALL), BACK)
    assert [type(signal) for signal in found] == [Used, Said, Called, Returned]
    assert found[2].command == "ls"
    assert found[3].text == "a\nb"


def test_the_pieces_of_a_streamed_answer_tell_the_tokens_as_they_come():
    start = {"type": "message_start", "message": assistant()["message"]}
    pieces = [start, {"type": "content_block_delta"}, {"type": "message_delta", "usage": {"output_tokens": 40}}]
    events = [{"type": "stream_event", "event": piece} for piece in pieces]
    fold = reading("claude", lines(*events, assistant(TEXT)))
    assert (fold.tokens_in, fold.tokens_out, fold.cache_read, fold.cache_write) == (10, 40, 5, 2)


def test_a_request_begins_a_silence_and_a_ping_does_not_end_it():
    requesting = {"type": "system", "subtype": "status", "status": "requesting"}
    assert [type(s) for s in read(requesting)] == [Requesting]
    assert read({"type": "stream_event", "event": {"type": "ping"}}) == []
    assert [type(s) for s in read({"type": "stream_event", "event": {"type": "content_block_delta"}})] == [Streamed]


def test_a_retry_tells_how_long_it_waits():
    event = {"type": "system", "subtype": "api_retry", "attempt": 2, "retry_delay_ms": 1052.5, "error_status": 429}
    (retry,) = read({**event, "error": "rate_limit"})
    assert retry == Retrying(start=0, end=retry.end, status=429, error="rate_limit", attempt=2, delay_s=1.0525)
    (dropped,) = read({**event, "error_status": None, "error": "unknown"})
    assert dropped.status is None


def test_a_compaction_counts_when_it_is_done():
    failed = {"type": "system", "subtype": "status", "status": None, "compact_result": "failed", "compact_error": "x"}
    begun = {"type": "system", "subtype": "status", "status": "compacting"}
    done = {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"pre_tokens": 7, "post_tokens": 3}}
    (excused,) = read(begun, failed)
    assert isinstance(excused, Retrying)
    assert excused.delay_s > 300
    compacted = read(done)[0]
    assert isinstance(compacted, Compacted)
    assert (compacted.tokens_before, compacted.tokens_after) == (7, 3)
    assert reading("claude", lines(begun, done)).retries == 0


def test_the_second_result_of_a_run_adds_to_the_first():
    since = {"inputTokens": 100, "outputTokens": 20, "costUSD": 0.5}
    one = result(model_usage_since_last_result={"m": since}, modelUsage={"m": since})
    fold = reading("claude", lines(INIT, one, INIT, result(model_usage_since_last_result={"m": since, "n": since})))
    assert (fold.tokens_in, fold.tokens_out, fold.cost_usd) == (300, 60, 1.5)


def test_an_old_version_tells_its_cost_as_a_running_total():
    usage = {"input_tokens": 100, "output_tokens": 20}
    fold = reading("claude", lines(result(usage=usage, total_cost_usd=0.5), result(usage=usage, total_cost_usd=0.75)))
    assert (fold.tokens_in, fold.cost_usd) == (200, 0.75)


def test_a_result_that_is_an_error_is_one_whatever_its_subtype_says():
    for terminal in ("api_error", "completed"):
        event = result(
            is_error=True, result="API Error: 529 Overloaded", api_error_status=529, terminal_reason=terminal
        )
        _, failed, ended = read(event)
        assert isinstance(failed, Failed)
        assert failed.status == 529
        assert isinstance(ended, Resulted)
        assert not ended.ok


def test_a_result_without_is_error_is_no_success():
    assert not reading("claude", b'{"type":"result","subtype":"success"}').result.ok


@pytest.mark.parametrize(
    ("answer", "claims"),
    [
        ("All is well.\n\nRALPHD: DONE", True),
        ("I will say RALPHD: DONE when done", False),
        ("RALPHD: DONE\nnot yet", False),
    ],
)
def test_only_the_last_line_of_a_good_result_claims_the_end(answer, claims):
    assert reading("claude", lines(result(result=answer))).result.claims_done is claims
    assert not reading("claude", lines(result(result=answer, is_error=True))).result.claims_done


def test_a_failure_that_a_later_turn_overcame_is_forgotten():
    bad = [synthetic("API Error: 529", error="server_error", is_api_error_message=True), result(is_error=True)]
    fold = reading("claude", lines(INIT, *bad, INIT, assistant(TEXT), result()))
    assert fold.failed is None
    assert fold.result.ok


def test_a_sub_agents_trouble_is_not_the_runs():
    trouble = synthetic(
        "API Error: 401", error="authentication_failed", parent_tool_use_id="t1", is_api_error_message=True
    )
    assert read(trouble) == []


def test_the_clis_own_words_without_an_error_are_no_failure():
    assert [type(s) for s in read(synthetic("No response requested."))] == [Said]


@pytest.mark.parametrize(
    ("state", "resets", "known"),
    [
        ("rejected", 1_800_000_000, 1_800_000_000.0),
        ("rejected", 1_800_000_000_000, 1_800_000_000.0),
        ("rejected", "soon", None),
        ("allowed_warning", 1_800_000_000, None),
        ("allowed", 1_800_000_000, None),
    ],
)
def test_the_reset_of_a_limit_that_was_hit_is_kept(state, resets, known):
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": state, "resetsAt": resets}}
    wall = result(is_error=True, result="You've hit your session limit · resets 7:20pm")
    told = facts("claude", lines(INIT, limit, wall), exit_code=1)
    outcome = classify(told)
    assert outcome.kind is Kind.QUOTA
    assert outcome.detail.get("resets_at") == known
    assert outcome.detail["message"] == "You've hit your session limit · resets 7:20pm"


@pytest.mark.parametrize(("code", "known"), [(429, 1_800_000_000.0), (529, None)])
def test_what_it_would_wait_for_is_told_as_the_server_told_it(code, known):
    """As recorded with a login; with a key the client tells of its own wait alone."""
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_800_000_000}}
    wait = {"type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": 700_000, "error_status": code}
    outcome = classify(facts("claude", lines(INIT, limit, wait), exit_code=None, signal=15, ended_by=EndedBy.GATE))
    assert (outcome.detail["client_wait_s"], outcome.detail.get("resets_at")) == (700.0, known)


def test_a_refusal_is_one():
    words = "API Error: Claude Code is unable to respond: the safeguards flagged this message."
    events = [
        synthetic(words, error="invalid_request", is_api_error_message=True),
        result(is_error=True, stop_reason="refusal"),
    ]
    assert classify(facts("claude", lines(INIT, *events), exit_code=1)).kind is Kind.REFUSED


@pytest.mark.parametrize(
    "junk", [b"plain words", b'{"type":"result","is_err', b'"}]}}', b"\xff\xfe", b"[1]", b"{}", b"\0"]
)
def test_what_is_no_event_is_passed_on_unread(junk):
    (signal,) = signals("claude", junk)
    assert isinstance(signal, Unread)
    assert (signal.start, signal.end) == (0, len(junk))


def test_a_cut_head_before_a_glued_event_makes_both_unread():
    """Inside a cut string anything may look like an event."""
    inner = json.dumps(result(is_error=True, api_error_status=401))
    found = signals("claude", b'lude-code"}' + inner.encode())
    assert [type(s) for s in found] == [Unread]


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-5", "1e999", "true", '"12"', "null", "[]", "9" * 4000, "9" * 5000]
)
def test_impossible_figures_are_no_figures(number):
    event = json.dumps(assistant(TEXT)).replace('"input_tokens": 10', f'"input_tokens": {number}')
    assert number in event
    fold = reading("claude", event.encode())
    assert fold.tokens_in in (0, None)


def test_deeply_nested_json_is_no_event():
    assert [type(s) for s in signals("claude", b'{"a":' * 100_000)] == [Unread]


def test_a_tool_result_in_blocks_is_read_and_kept_short():
    content = [{"type": "text", "text": "x" * 10_000}, {"type": "image"}]
    (back,) = read(
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": True}]},
        }
    )
    assert isinstance(back, Returned)
    assert back.is_error
    assert len(back.text) == 4096


def test_an_events_range_is_its_lines_range():
    data = lines(INIT, result())
    assert [data[s.start : s.end] for s in signals("claude", data)] == [
        data.split(b"\n")[0],
        *[data.split(b"\n")[1]] * 2,
    ]


def test_a_line_of_countless_objects_costs_little():
    found = signals("claude", b"{}" * 1_000_000)
    assert len(found) < 2000


def test_a_final_answer_is_held_short_and_its_claim_is_not_lost():
    answer = "x" * 1_000_000 + "\nRALPHD: DONE"
    known = reading("claude", lines(result(result=answer))).result
    assert known.claims_done
    assert len(known.text) == 16384


def test_a_session_that_is_gone_asks_for_a_fresh_one():
    event = {"type": "result", "subtype": "error_during_execution", "is_error": True}
    gone = facts("claude", lines({**event, "errors": ["No conversation found with session ID: 9"]}), exit_code=1)
    assert classify(gone).detail["fresh"] is True


def test_a_call_that_takes_its_time_is_no_silent_stream():
    """The block and the message that hold a call end after it began."""
    ends = [
        {"type": "stream_event", "event": {"type": kind}}
        for kind in ("content_block_stop", "message_delta", "message_stop")
    ]
    assert type(read(assistant(CALL), *ends)[-1]) is Called


def test_one_failure_is_told_once_unless_its_result_tells_more_or_answers_came_between():
    trouble = synthetic("API Error: 529", error="server_error", api_error_status=529, is_api_error_message=True)
    wall = result(is_error=True, result="API Error: 529", api_error_status=529, terminal_reason="api_error")

    def failures(*events):
        return [s for s in read(*events) if isinstance(s, Failed)]

    assert len(failures(trouble, wall)) == 1
    assert len(failures(wall)) == 1
    assert len(failures(trouble, {**wall, "terminal_reason": "prompt_too_long"})) == 2
    late = assistant(TEXT, parent_tool_use_id="t1")
    assert len(failures(trouble, late, wall)) == 2
    assert reading("claude", lines(trouble, late, wall)).failed.status == 529


def test_a_refusal_without_words_is_one():
    event = result(is_error=True, stop_reason="refusal", result="")
    assert classify(facts("claude", lines(INIT, event), exit_code=1)).kind is Kind.REFUSED


def test_an_error_beside_a_message_is_the_clis():
    trouble = assistant({"type": "text", "text": "API Error"}, error="rate_limit")
    assert classify(facts("claude", lines(INIT, trouble), exit_code=1)).kind is Kind.RATE_LIMITED


def test_raw_control_characters_in_a_string_lose_no_event():
    data = json.dumps(assistant({"type": "text", "text": "a_b"})).replace("a_b", "a\0\tb").encode()
    assert [s.text for s in signals("claude", data) if isinstance(s, Said)] == ["a\0\tb"]


@pytest.mark.parametrize("piece", ['{"type":"user","text":"Not logged in', 'Not logged in"}]}'])
def test_a_piece_of_an_event_is_nobodys_last_word(piece):
    assert [s.text for s in signals("claude", piece.encode())] == [""]
    assert classify(facts("claude", piece.encode())).kind is Kind.NEXT
