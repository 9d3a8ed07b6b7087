"""What Gemini CLI and Qwen Code say, where their recordings leave something open."""

from __future__ import annotations

import json

import pytest
from support.readings import facts, reading, signals

from ralphd.agents import adapter
from ralphd.core.classify import classify
from ralphd.core.signals import Called, Failed, Resulted, Returned, Said

ZERO = {"input_tokens": 0, "output_tokens": 0}


def lines(*events: dict) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def qwen(*pieces: str, words: str = "", usage: dict | None = None) -> bytes:
    """A run of one message, whose text comes in these pieces; none: partial messages are off."""
    start = {"type": "message_start", "message": {"id": "m1", "content": []}}
    parts = [{"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}} for piece in pieces]
    content = [{"type": "text", "text": "".join(pieces) or words}]
    return lines(
        {"type": "system", "subtype": "init", "session_id": "s1", "model": "m", "qwen_code_version": "0.15.10"},
        *({"type": "stream_event", "event": event} for event in ([start, *parts] if pieces else [])),
        {"type": "assistant", "message": {"id": "m1", "content": content, "usage": ZERO if usage is None else usage}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "".join(pieces) or words, "usage": ZERO},
    )


@pytest.mark.parametrize(
    ("said", "status", "message", "kind"),
    [
        ("[API Error: 401 Incorrect API key provided]", 401, "Incorrect API key provided", "inference.auth"),
        (
            "[API Error: 429 Slow down]\nPossible quota limitations in place or slow response times detected.",
            429,
            "Slow down",
            "inference.rate_limited",
        ),
        ("[API Error: 429 status code (no body)]", 429, "status code (no body)", "inference.rate_limited"),
        ("[API Error: Connection error. (cause: fetch failed)]", None, None, "inference.connection"),
        ("[API Error: 500 <html>\n[x]\n</html>]", 500, "<html>\n[x]\n</html>", "inference.connection"),
        ("Qwen OAuth quota exceeded: Your free daily quota has been reached.", None, None, "inference.quota"),
        ("[API Error: 400 Range of input length should be [1, 129024]]", 400, None, "inference.context_overflow"),
    ],
)
@pytest.mark.parametrize("before", [(), ("half ", "an answer ")])
def test_qwens_own_words_at_the_end_of_an_answer_are_a_failure(said, status, message, kind, before):
    data = qwen(*before, said)
    (failed,) = [signal for signal in signals("qwen", data) if isinstance(signal, Failed)]
    assert failed.status == status
    assert failed.message == (
        said if message is None and status is None and said[0] != "[" else message or failed.message
    )
    outcome = classify(facts("qwen", data))
    assert outcome.kind.value == kind
    assert outcome.evidence[0].end > outcome.evidence[0].start > 0


@pytest.mark.parametrize(
    "pieces",
    [
        ("[API Error: 401 Incorrect", " API key provided]"),
        ("It printed [API Error: 401 Incorrect API key provided]", " and ended."),
        ("It printed [API Error: 401 Incorrect API key provided]",),
    ],
)
def test_a_model_that_writes_those_words_has_not_failed_even_where_the_server_tells_no_usage(pieces):
    known = facts("qwen", qwen(*pieces))
    assert known.reading.failed is None
    assert classify(known).kind.family == "done"


def test_a_model_that_writes_those_words_at_once_has_not_failed_where_the_server_tells_usage():
    words = "[API Error: 401 Incorrect API key provided]"
    told = {"input_tokens": 9, "output_tokens": 8, "cache_read_input_tokens": 4, "total_tokens": 17}
    for data in (qwen(words, usage=told), qwen(words=words, usage=told)):
        known = facts("qwen", data)
        assert classify(known).kind.family == "done"
        assert (known.reading.tokens_in, known.reading.tokens_out, known.reading.cache_read) == (5, 8, 4)


def test_what_a_sub_agent_of_qwen_says_is_nobodys_failure():
    event = json.loads(qwen(words="[API Error: 401 no]").split(b"\n")[1])
    known = facts("qwen", lines({**event, "parent_tool_use_id": "t1"}))
    assert (known.reading.failed, known.reading.said) == (None, 0)


def test_a_qwen_that_gives_up_says_so_for_once():
    told = {"type": "result", "subtype": "error_max_turns", "is_error": True, "error": {"message": "too many turns"}}
    outcome = classify(facts("qwen", lines(told), exit_code=53))
    assert (outcome.kind.value, outcome.detail["result"]) == ("agent.exited", "error_max_turns")


def gemini(*events: dict) -> bytes:
    return lines({"type": "init", "session_id": "s1", "model": "gemini-2.5-pro"}, *events)


def piece(text: str) -> dict:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


CALL = {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "1", "parameters": {"command": "ls"}}
BACK = {"type": "tool_result", "tool_id": "1", "status": "error", "error": {"type": "X", "message": "no such file"}}
DONE = {"type": "result", "status": "success", "stats": {"input_tokens": 900, "output_tokens": 20, "cached": 600}}


def test_an_answer_of_gemini_is_its_pieces_since_the_last_call():
    data = gemini(piece("I "), piece("look."), CALL, BACK, piece("All done.\n"), piece("RALPHD: DONE"), DONE)
    told = [signal for signal in signals("gemini", data) if isinstance(signal, (Said, Called, Returned, Resulted))]
    assert [type(signal).__name__ for signal in told] == ["Said", "Called", "Returned", "Said", "Resulted"]
    assert (told[0].text, told[1].command, told[2].text, told[2].is_error) == ("I look.", "ls", "no such file", True)
    assert (told[4].text, told[4].claims_done) == ("All done.\nRALPHD: DONE", True)
    assert data[told[3].start : told[3].end].count(b"\n") == 2  # from its first piece to the line that showed its end


def test_what_the_cache_gave_gemini_is_counted_apart():
    fold = reading("gemini", gemini(piece("x"), DONE))
    assert (fold.tokens_in, fold.cache_read, fold.tokens_out, fold.cost_usd) == (300, 600, 20, None)


@pytest.mark.parametrize(
    ("code", "kind"), [(145, "auth"), (173, "rate_limited"), (244, "connection"), (247, "overloaded")]
)
def test_the_exit_status_of_gemini_is_what_is_left_of_the_servers(code, kind):
    """A log that broke off tells nothing; the exit status still does."""
    assert classify(facts("gemini", gemini(), exit_code=code)).kind.value == f"inference.{kind}"
    assert classify(facts("codex", b"", exit_code=code)).kind.value == "agent.exited"


@pytest.mark.parametrize("code", [0, 1, 41, 124, 130, 137, 143])
def test_other_exit_statuses_of_gemini_are_no_servers(code):
    assert classify(facts("gemini", gemini(), exit_code=code)).kind.value == "agent.exited"


def test_a_warning_of_gemini_is_no_failure_but_explains_one():
    warning = {"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}
    assert classify(facts("gemini", gemini(warning, piece("x"), DONE))).kind.family == "done"
    outcome = classify(facts("gemini", gemini(warning, {"type": "result", "status": "error"})))
    assert (outcome.kind.value, outcome.detail["message"]) == ("agent.exited", "Loop detected, stopping execution")


def test_a_cancelled_gemini_was_interrupted():
    error = {"type": "FatalCancellationError", "message": "Operation cancelled."}
    outcome = classify(facts("gemini", gemini({"type": "result", "status": "error", "error": error}), exit_code=130))
    assert (outcome.kind.value, outcome.detail["name"]) == ("agent.signalled", "SIGINT")


def test_gemini_tells_of_its_own_waits_on_stderr_alone():
    reader = adapter("gemini").reader()
    (told,) = reader.read_error(b"Attempt 2 failed with status 429. Retrying with backoff... _ApiError: {")
    assert (told.status, told.attempt) == (429, 2)
    assert told.delay_s >= 39  # what it waits at the most
    (told,) = reader.read_error(b"Attempt 1 failed: quota. Retrying after 61500ms...")
    assert (told.status, told.delay_s) == (None, 61.5)
    assert reader.read_error(b"  the log says: Attempt 1 failed with status 429. Retrying with backoff...") == ()
    assert reader.read_error(b"Ripgrep is not available. Falling back to GrepTool.") == ()


def test_qwen_tells_of_its_own_waits_on_stderr_alone():
    reader = adapter("qwen").reader()
    (told,) = reader.read_error(b"[qwen-code] Waiting for API capacity... attempt 7, retry in 86s")
    assert (told.error, told.attempt, told.delay_s) == ("rate_limit", 7, 86.0)
    assert reader.read_error(b"it says [qwen-code] Waiting for API capacity... attempt 7, retry in 86s") == ()
    assert reader.read_error(b"Operation cancelled.") == ()


def test_a_cancelled_qwen_was_interrupted():
    """It exits so on SIGINT and on SIGTERM."""
    begun = lines({"type": "system", "subtype": "init", "session_id": "s1"})
    outcome = classify(facts("qwen", begun, exit_code=130, stderr_tail="Operation cancelled.\n"))
    assert (outcome.kind.value, outcome.detail["signal"]) == ("agent.signalled", 2)
