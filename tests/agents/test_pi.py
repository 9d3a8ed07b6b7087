"""How pi is started, and what its stream says beyond the recordings."""

from __future__ import annotations

import json

import pytest
from support.readings import facts, reading, signals

from ralphd.agents import Turn, adapter
from ralphd.agents.pi import EXTENSION
from ralphd.agents.pi_stream import BROKE_OFF, PIECE_BYTES
from ralphd.core.classify import classify
from ralphd.core.exchange import Assignment, Limits
from ralphd.core.facts import EndedBy
from ralphd.core.outcomes import Kind
from ralphd.core.patience import Patience
from ralphd.core.reading import Reading
from ralphd.core.signals import Began, Called, Requesting, Resulted, Retrying, Returned, Said, Streamed, Used

TURN = Turn(session="11111111-2222-4333-8444-555555555555", guard="/state/guard", tmp="/t", home="/state/agent")


def assignment(**known):
    places = dict.fromkeys(("night", "loop", "task", "folder", "worktree", "night_repository", "branch"), "x")
    given = {"cli": "pi", "program": "/opt/pi", "env": {"PATH": "/bin", "HOME": "/home/me"}, **known}
    return Assignment(generation=1, base="c", prompt="p", preamble="q", nonce="n", **places, **given)


def lines(*events):
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


def answer(words="well", reason="stop", tokens=120, **more):
    usage = {"input": tokens and 100, "output": tokens and 20, "totalTokens": tokens, "cost": {"total": 0}}
    content = [{"type": "text", "text": words}] if words else []
    message = {"role": "assistant", "model": "m", "content": content, "usage": usage, "stopReason": reason, **more}
    return (
        {"type": "turn_start"},
        {"type": "message_start", "message": {**message, "content": [], "stopReason": "stop"}},
        {"type": "message_update", "message": message},
        {"type": "message_end", "message": message},
    )


END = {"type": "agent_end", "messages": []}


def ended(*events, exit_code=0):
    return classify(facts("pi", lines(*events), exit_code=exit_code, head_moved=True))


def failing(message):
    return ended(*answer("", "error", 0, errorMessage=message), END)


def test_a_fresh_session_names_itself_and_is_taken_up_by_that_name():
    argv = adapter("pi").launch(assignment(model="anthropic/claude-opus-5-5"), TURN).argv
    assert argv[:4] == ("/opt/pi", "--print", "--mode", "json")  # what follows --print must be an option
    assert TURN.session not in argv
    assert argv[argv.index("--model") + 1] == "anthropic/claude-opus-5-5"
    argv = adapter("pi").launch(assignment(), Turn(session="01a2", attempt=2, resume=True)).argv
    assert argv[argv.index("--session") + 1] == "01a2"


def test_the_persons_own_folder_stays_and_the_extension_comes_beside_it():
    launch = adapter("pi").launch(assignment(), TURN)
    assert launch.argv[launch.argv.index("--extension") + 1] == f"/state/agent/{EXTENSION}"
    assert [file.path for file in launch.files] == [EXTENSION]
    assert launch.env == {"PATH": "/bin", "HOME": "/home/me", "PI_SKIP_VERSION_CHECK": "1"}
    assert BROKE_OFF in launch.files[0].text


def test_a_whole_turn_is_told():
    args = {"command": "make", "timeout": 5}
    result = {"content": [{"type": "text", "text": "made"}]}
    found = signals(
        "pi",
        lines(
            {"type": "session", "id": "01a2"},
            {"type": "agent_start"},
            *answer("I make it", "toolUse"),
            {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": args},
            {"type": "tool_execution_update", "toolCallId": "c1", "partialResult": result},
            {"type": "tool_execution_end", "toolCallId": "c1", "result": result, "isError": False},
            *answer("Did it.\nRALPHD: DONE"),
            END,
        ),
    )
    turn = [Requesting, Began, Streamed, Streamed, Used, Said]
    assert [type(s) for s in found[:9]] == [Began, *turn, Called, Returned]
    assert [type(s) for s in found[9:]] == [Requesting, Streamed, Streamed, Used, Said, Resulted]
    assert (found[0].session, found[7].command, found[8].text) == ("01a2", "make", "made")
    assert found[-1].claims_done


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("401 Incorrect API key provided", Kind.AUTH),
        ('529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', Kind.OVERLOADED),
        ("429 You exceeded your current quota, please check your plan and billing details.", Kind.QUOTA),
        ("Connection error.", Kind.CONNECTION),
        ("terminated", Kind.CONNECTION),
        (BROKE_OFF, Kind.TRUNCATED),
    ],
)
def test_a_failure_has_its_right_name_although_the_exit_status_is_zero(message, kind):
    assert failing(message).kind is kind


def test_an_error_that_a_later_answer_got_over_is_none():
    retry = {"type": "auto_retry_start", "attempt": 1, "delayMs": 2000, "errorMessage": "429 Rate limit reached"}
    events = (*answer("", "error", 0, errorMessage="429 Rate limit reached"), END, retry, *answer(), END)
    assert ended(*events).kind is Kind.NEXT
    (waits,) = [signal for signal in signals("pi", lines(*events)) if isinstance(signal, Retrying)]
    assert (waits.status, waits.attempt, waits.delay_s) == (429, 1, 2.0)


def test_an_answer_without_usage_was_cut_if_the_server_told_usage_before():
    assert ended(*answer("first", "toolUse"), *answer("half an ans", tokens=0), END).kind is Kind.TRUNCATED


def test_a_server_that_never_tells_usage_cuts_nothing():
    outcome = ended(*answer("first", "toolUse", 0), *answer("done", tokens=0), END)
    assert outcome.kind is Kind.NEXT
    assert reading("pi", lines(*answer(tokens=0))).tokens_in is None


def test_an_answer_that_reached_its_greatest_length_is_cut_unless_it_calls_a_tool():
    assert ended(*answer("half an ans", "length"), END).kind is Kind.TRUNCATED
    call = [{"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}]
    assert reading("pi", lines(*answer("", "length", content=call))).failed is None


def test_an_aborted_answer_is_no_final_one():
    assert reading("pi", lines(*answer("half", "aborted"), END)).result is None


def test_a_compaction_counts_once_it_has_ended_well():
    done = {"type": "compaction_end", "reason": "threshold", "result": {"tokensBefore": 90000}}
    assert reading("pi", lines({"type": "compaction_start", "reason": "threshold"})).compactions == 0
    assert reading("pi", lines(done)).compactions == 1
    vain = {"type": "compaction_end", "reason": "overflow", "errorMessage": "Context overflow recovery failed"}
    assert ended(*answer(), vain).kind is Kind.CONTEXT_OVERFLOW


def test_a_last_compaction_is_waited_for_although_the_run_is_over():
    """Nobody needs it, but an agent that would end by itself must not be told to have hung."""
    limits, fold = Limits(result_grace_s=20), Reading()
    patience = Patience(limits=limits, last_byte=0.0, last_work=0.0)
    for signal in signals("pi", lines(*answer(), END, {"type": "compaction_start", "reason": "threshold"})):
        fold.add(signal)
        patience.note(signal, 0.0)
    assert patience.over(60.0, fold, open_calls=0) is EndedBy.ITSELF
    assert patience.over(620.0, fold, open_calls=0) is EndedBy.RESULT_GRACE
    assert patience.next_look_s(60.0, fold) == pytest.approx(560.0)
    assert fold.settled


@pytest.mark.parametrize(
    ("told", "wait_s"), [({"error": "429 Rate limit reached", "retryAfter": 600}, 600.0), ([], None)]
)
def test_the_wait_that_a_server_named_comes_with_the_extension(told, wait_s):
    told = {"errorMessage": "the server names a long wait" if told else "429 Rate limit reached", "ralphd": told}
    outcome = ended(*answer("", "error", 0, **told), END)
    assert (outcome.kind, outcome.detail.get("retry_after_s")) == (Kind.RATE_LIMITED, wait_s)
    assert outcome.detail["message"] == "429 Rate limit reached"


def test_a_piece_of_a_long_answer_is_a_sign_of_life_and_is_not_looked_into():
    (start, begun, piece, end) = answer("x" * PIECE_BYTES)
    spoiled = lines(piece)[:-3] + b'"}\n'  # whoever reads it would find it broken
    assert [type(signal) for signal in signals("pi", spoiled)] == [Streamed]
    assert reading("pi", lines(start, begun) + spoiled + lines(end, END)).result.text == "x" * PIECE_BYTES


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_end", "message": {"role": "assistant", "content": [None, 5, {"type": "text"}], "usage": []}},
        {"type": "message_end", "message": {"role": "assistant", "stopReason": "error", "errorMessage": "5{[{"}},
        {"type": "message_end"},
        {"type": "message_start", "message": "assistant"},
        {"type": "tool_execution_start", "args": "make"},
        {"type": "tool_execution_end", "result": {"content": {"text": "x"}}},
        {"type": "auto_retry_start", "delayMs": "long"},
        {"type": "compaction_end", "result": 5},
        {"type": "agent_end"},
        {"type": ["session"]},
    ],
)
def test_an_event_of_any_shape_breaks_nothing(event):
    assert reading("pi", lines(event)).result is None


def test_colours_around_its_last_words_hide_nothing():
    words = '\x1b[31mError: Model "nope/none" not found. Use --list-models to see available models.\x1b[39m\n'
    assert classify(facts("pi", exit_code=1, stderr_tail=words)).kind is Kind.MODEL_MISSING
