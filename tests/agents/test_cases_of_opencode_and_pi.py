"""What went wrong for people who left such programs alone, told in the streams of opencode and of pi."""

from __future__ import annotations

import json

import pytest
from support.readings import facts, reading, signals

from ralphd.core.classify import classify
from ralphd.core.exchange import Limits
from ralphd.core.facts import EndedBy
from ralphd.core.outcomes import Charge, Kind
from ralphd.core.patience import Patience
from ralphd.core.reading import Reading

DONE = "RALPHD: DONE"
LIMIT = "You've hit your session limit · resets 7:20pm"
USAGE = {"input": 100, "output": 20, "totalTokens": 120}


def lines(*events):
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


def opencode(words, reason="stop"):
    """One answer of opencode."""
    return lines(
        {"type": "step_start", "sessionID": "s", "part": {}},
        {"type": "text", "part": {"text": words}},
        {"type": "step_finish", "part": {"reason": reason, "tokens": USAGE}},
    )


def message(role, words, **more):
    told = {"role": role, "content": [{"type": "text", "text": words}], **more}
    return {"type": "message_start", "message": told}, {"type": "message_end", "message": told}


def pi(words, reason="stop", **more):
    """One answer of pi, and the end of its run."""
    answer = message("assistant", words, stopReason=reason, usage=USAGE, **more)
    return lines({"type": "session", "id": "s"}, {"type": "turn_start"}, *answer, {"type": "agent_end"})


def call(cli, output):
    """A tool call that printed ``output``, as each of them tells it."""
    if cli == "opencode":
        state = {"status": "completed", "input": {"command": "cat notes"}, "output": output, "metadata": {"exit": 0}}
        return lines({"type": "tool_use", "part": {"tool": "bash", "callID": "c", "state": state}})
    result = {"content": [{"type": "text", "text": output}]}
    return lines(
        {"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {"command": "cat notes"}},
        {"type": "tool_execution_end", "toolCallId": "c", "result": result, "isError": False},
        *message("toolResult", output),
    )


ANSWERS = {"opencode": opencode, "pi": pi}
ASKED = {
    "opencode": lines({"type": "ralphd", "event": "status", "session": "s", "state": "busy"}),
    "pi": lines({"type": "turn_start"}),
}
each = pytest.mark.parametrize("cli", sorted(ANSWERS))


def ended(cli, data, **known):
    return classify(facts(cli, data, **known))


def clocks(cli, data, *, limits, after_s):
    """Why the process must be ended ``after_s`` seconds after all of ``data`` came at once."""
    patience, fold = Patience(limits=limits, last_byte=0.0, last_work=0.0), Reading()
    for signal in signals(cli, data):
        fold.add(signal)
        patience.note(signal, 0.0)
    return patience.over(after_s, fold, open_calls=0)


@each
def test_confident_words_are_not_the_claim(cli):
    words = f"All tests pass, feature complete. Next time I may say {DONE} on a line of its own.\nEXIT: false"
    assert reading(cli, ANSWERS[cli](words)).result.claims_done is False


def test_a_prompt_that_is_echoed_with_the_mark_in_it_claims_nothing():
    """pi prints the prompt as a message of the user, which quotes the words that end the work."""
    echoed = lines({"type": "session", "id": "s"}, *message("user", f"Do it. When all is done, say:\n{DONE}"))
    assert reading("pi", echoed).said == 0
    assert reading("pi", echoed + pi("I did the first part.")).result.claims_done is False
    outcome = ended("pi", echoed, exit_code=1)
    assert (outcome.kind, "claimed_done" in outcome.detail) == (Kind.EXITED, False)


@each
def test_a_session_that_says_and_does_nothing_is_no_progress(cli):
    assert ended(cli, b"", exit_code=0, files_changed=False).kind is Kind.NOOP
    assert ended(cli, ANSWERS[cli]("Well."), exit_code=0, files_changed=False).kind is Kind.NOOP


@each
def test_an_agent_that_does_not_exit_after_its_final_answer_is_ended_and_named_so(cli):
    limits, data = Limits(result_grace_s=20), ANSWERS[cli]("Did it.")
    assert clocks(cli, data, limits=limits, after_s=19.0) is EndedBy.ITSELF
    assert clocks(cli, data, limits=limits, after_s=20.0) is EndedBy.RESULT_GRACE
    outcome = ended(cli, data, exit_code=None, signal=15, ended_by=EndedBy.RESULT_GRACE, head_moved=True)
    assert (outcome.kind, outcome.detail["result"]) == (Kind.HUNG_AFTER_RESULT, "ok")


@each
def test_a_call_that_is_quiet_for_long_is_not_a_silent_stream(cli):
    limits = Limits(stream_s=300, quiet_s=900)
    asked = {
        "opencode": lines(
            {"type": "ralphd", "event": "status", "session": "s", "state": "busy"},
            {"type": "ralphd", "event": "call", "session": "s", "id": "c", "tool": "bash", "command": "make"},
            {"type": "step_start", "sessionID": "s", "part": {}},
        ),
        "pi": lines(
            {"type": "turn_start"},
            {"type": "tool_execution_start", "toolCallId": "c", "toolName": "bash", "args": {"command": "make"}},
        ),
    }
    assert clocks(cli, asked[cli], limits=limits, after_s=899.0) is EndedBy.ITSELF


@each
def test_a_request_that_says_nothing_is_stalled(cli):
    assert clocks(cli, ASKED[cli], limits=Limits(stream_s=300, quiet_s=900), after_s=300.0) is EndedBy.SILENT_STREAM


@each
def test_a_wait_of_its_own_is_alive(cli):
    waits = {
        "opencode": {"type": "ralphd", "event": "status", "state": "retry", "attempt": 3, "wait_ms": 600_000},
        "pi": {"type": "auto_retry_start", "attempt": 3, "delayMs": 600_000, "errorMessage": "529 Overloaded"},
    }
    limits = Limits(stream_s=300, quiet_s=900)
    assert clocks(cli, ASKED[cli] + lines(waits[cli]), limits=limits, after_s=899.0) is EndedBy.ITSELF
    assert clocks(cli, ASKED[cli] + lines(waits[cli]), limits=limits, after_s=900.0) is EndedBy.SILENT_STREAM


def test_without_its_plugin_opencode_may_think_for_as_long_as_its_tree_does_something():
    data, limits = opencode("I look", "tool-calls") + call("opencode", "ok"), Limits(stream_s=300, quiet_s=900)
    assert clocks("opencode", data, limits=limits, after_s=899.0) is EndedBy.ITSELF
    assert clocks("opencode", data, limits=limits, after_s=900.0) is EndedBy.QUIET


@each
def test_a_limit_in_a_file_that_it_reads_is_none(cli):
    data = ANSWERS[cli](LIMIT, "tool-calls" if cli == "opencode" else "toolUse") + call(cli, LIMIT)
    assert ended(cli, data + ANSWERS[cli]("Read it."), head_moved=True).kind is Kind.NEXT
    assert ended(cli, data, exit_code=1, head_moved=True).kind is Kind.EXITED


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (LIMIT, Kind.QUOTA),
        ('401 {"type":"error","error":{"type":"authentication_error","message":"expired"}}', Kind.AUTH),
        ("529 Overloaded", Kind.OVERLOADED),
        ("503 upstream is busy", Kind.OVERLOADED),
        ('{"error":{"type":"overloaded_error","message":"Overloaded"}}', Kind.OVERLOADED),
    ],
)
def test_a_failure_with_exit_status_zero_is_one_and_costs_the_loop_nothing(words, kind):
    outcome = ended("pi", pi("", "error", errorMessage=words), exit_code=0)
    assert outcome.kind is kind
    assert outcome.charge is not Charge.LOOP


def test_a_permission_that_it_refuses_to_itself_is_no_question_to_a_person():
    """opencode asks nobody in this mode: it says in plain text that it refused, and goes on."""
    refused = b"! permission requested: external_directory (/etc/*); auto-rejecting\n"
    data = opencode("I look", "tool-calls") + refused + opencode("Done without it.")
    assert ended("opencode", data, head_moved=True).kind is Kind.NEXT
