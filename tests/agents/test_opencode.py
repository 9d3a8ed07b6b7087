"""How opencode is started, and what its stream and our plugin's lines in it say beyond the recordings."""

from __future__ import annotations

import json

import pytest
from support.readings import facts, reading, signals

from ralphd.agents import Turn, adapter
from ralphd.agents.opencode import NPM_PATIENCE, PLUGIN
from ralphd.agents.opencode_stream import IN_VAIN
from ralphd.core.classify import classify
from ralphd.core.exchange import Assignment, Limits
from ralphd.core.facts import EndedBy
from ralphd.core.outcomes import Kind
from ralphd.core.signals import Began, Called, Compacted, Requesting, Resulted, Retrying, Returned, Streamed, Used

TURN = Turn(session="11111111-2222-4333-8444-555555555555", guard="/state/guard", tmp="/t", home="/state/agent")
SESSION = "ses_one"


def assignment(**known):
    places = dict.fromkeys(("task", "folder", "worktree", "night_repository", "branch"), "x")
    given = {"cli": "opencode", "program": "/opt/opencode", "env": {"PATH": "/bin", "HOME": "/home/me"}, **known}
    return Assignment(
        night="n1", loop="one", generation=1, base="c", prompt="p", preamble="q", nonce="n", **places, **given
    )


def lines(*events):
    return b"".join(json.dumps({"sessionID": SESSION, **event}).encode() + b"\n" for event in events)


def finish(reason, tokens_in=100):
    tokens = {"input": tokens_in, "output": 20 if tokens_in else 0, "cache": {"read": 5 if tokens_in else 0}}
    return {"type": "step_finish", "part": {"reason": reason, "tokens": tokens, "cost": 0}}


def text(words, **more):
    return {"type": "text", "part": {"type": "text", "text": words, **more}}


def tool(output="ok", **state):
    state = {"status": "completed", "input": {"command": "make"}, "output": output, "metadata": {"exit": 0}, **state}
    return {"type": "tool_use", "part": {"type": "tool", "tool": "bash", "callID": "c1", "state": state}}


def told(event, session=SESSION, **more):
    return {"type": "ralphd", "event": event, "session": session, **more}


START = {"type": "step_start", "part": {"type": "step-start"}}
BROKEN = (START, text("half an ans"), finish("unknown", tokens_in=0))
OVERFLOW = {"type": "error", "error": {"name": "ContextOverflowError", "data": {"message": "too long by far"}}}
SUMMARY = (START, text("a summary"), finish("stop"), text("Continue.", synthetic=True, metadata={}))


def kinds(*events):
    return [type(signal) for signal in signals("opencode", lines(*events))]


def test_the_guard_is_its_shell_and_ends_a_call_first():
    given = {"SHELL": "/bin/zsh", "OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS": "1"}
    env = adapter("opencode").launch(assignment(env=given, limits=Limits(tool_seconds=12.5)), TURN).env
    assert (env["SHELL"], env["OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS"]) == ("/state/guard", "42500")


def test_the_plugin_comes_on_top_of_what_the_person_has():
    launch = adapter("opencode").launch(assignment(), TURN)
    config = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    assert config == {"snapshot": False, "plugin": [f"file:///state/agent/{PLUGIN}"]}
    assert [file.path for file in launch.files] == [PLUGIN]
    assert "HOME" not in launch.env or launch.env["HOME"] == "/home/me"
    assert {name: launch.env[name] for name in NPM_PATIENCE} == NPM_PATIENCE
    assert json.dumps(NPM_PATIENCE) in launch.files[0].text  # it takes back what it finds unchanged


def test_a_configuration_in_the_persons_own_words_stays_as_it_is():
    env = adapter("opencode").launch(assignment(env={"OPENCODE_CONFIG_CONTENT": "{}"}), TURN).env
    assert env["OPENCODE_CONFIG_CONTENT"] == "{}"
    assert not set(NPM_PATIENCE) & set(env)


def test_answers_that_break_off_again_and_again_are_endless():
    data = lines(*BROKEN * IN_VAIN)
    assert reading("opencode", data).failed.endless
    outcome = classify(facts("opencode", data, exit_code=None, signal=15, ended_by=EndedBy.ENDLESS))
    assert outcome.kind is Kind.TRUNCATED
    assert b"unknown" in data[outcome.evidence[0].start : outcome.evidence[0].end]


@pytest.mark.parametrize("good", [(tool(), finish("tool-calls")), (text("well"), finish("stop"))])
def test_a_flaky_server_that_lets_through_an_answer_now_and_then_is_not_endless(good):
    data = lines(*(*BROKEN * (IN_VAIN - 1), START, *good) * 4)
    assert reading("opencode", data).failed is None


def test_a_tool_call_within_a_broken_answer_is_progress():
    data = lines(*(START, tool(), finish("unknown", tokens_in=0)) * 10)
    assert reading("opencode", data).failed is None


def test_what_follows_an_endless_trouble_does_not_hide_it():
    assert reading("opencode", lines(*BROKEN * (IN_VAIN + 5), START, text("well"), finish("stop"))).failed.endless


def test_a_context_that_overflows_after_every_compaction_is_endless_and_named_so():
    data = lines(*(OVERFLOW, *SUMMARY) * IN_VAIN)
    outcome = classify(facts("opencode", data, exit_code=None, signal=15, ended_by=EndedBy.ENDLESS))
    assert outcome.kind is Kind.CONTEXT_OVERFLOW


def test_a_context_that_overflows_now_and_then_is_compacted_and_goes_on():
    data = lines(*(OVERFLOW, *SUMMARY, START, tool(), finish("tool-calls")) * 5, START, text("well"), finish("stop"))
    assert reading("opencode", data).failed is None


@pytest.mark.parametrize("with_plugin", [False, True])
def test_a_compaction_is_counted_once_whoever_tells_of_it(with_plugin):
    mark = text("Continue.", synthetic=True, metadata={"compaction_continue": True})
    plugin = (told("compacted"), told("status", state="busy")) if with_plugin else ()
    data = lines(START, text("a summary"), finish("stop"), *plugin, mark, START, text("well"), finish("stop"))
    assert reading("opencode", data).compactions == 1


def test_a_compaction_without_the_mark_shows_in_that_the_run_goes_on_after_its_final_answer():
    data = lines(START, text("a summary"), finish("stop"), START, text("well"), finish("stop"))
    assert reading("opencode", data).compactions == 1


def test_the_claim_of_its_last_answer_counts():
    results = list(signals("opencode", lines(START, text("Did it.\nRALPHD: DONE"), finish("stop"))))
    assert [result.claims_done for result in results if isinstance(result, Resulted)] == [True]


def test_its_own_synthetic_words_are_not_the_models():
    assert reading("opencode", lines(START, text("RALPHD: DONE", synthetic=True), finish("stop"))).said == 0


def test_an_unpriced_model_costs_an_unknown_sum_and_zero_tokens_are_unknown_ones():
    fold = reading("opencode", lines(START, finish("stop")))
    assert (fold.tokens_in, fold.tokens_out, fold.cache_read, fold.cost_usd) == (100, 20, 5, None)
    assert reading("opencode", lines(START, finish("unknown", tokens_in=0))).tokens_in is None


def test_the_plugin_tells_requests_pieces_waits_and_the_beginning_of_calls():
    found = signals(
        "opencode",
        lines(
            told("model", model="p/m"),
            told("status", state="busy"),
            told("status", state="retry", attempt=2, message="Rate limit reached", wait_ms=2500),
            told("piece"),
            told("call", id="c1", tool="bash", command="make"),
            tool("made"),
        ),
    )
    assert [type(signal) for signal in found] == [Began, Requesting, Retrying, Streamed, Called, Returned]
    assert (found[0].session, found[0].model) == (SESSION, "p/m")
    assert (found[2].attempt, found[2].delay_s, found[2].error) == (2, 2.5, "Rate limit reached")
    assert (found[4].command, found[5].text) == ("make", "made")


def test_an_event_that_comes_late_does_not_hide_the_request_that_was_told_before_it():
    assert kinds(told("status", state="busy"), START, text("well"), finish("stop"))[-2:] == [Resulted, Requesting]
    assert kinds(told("status", state="idle"), START, text("well"), finish("stop"))[-1] is Resulted


@pytest.mark.parametrize("end", [told("status", state="idle"), told("status", session="ses_sub", state="idle")])
def test_a_final_answer_that_comes_before_the_end_of_its_request_is_final(end):
    busy = told("status", state="busy")
    fold = reading("opencode", lines(START, busy, text("well"), finish("stop"), end))
    assert fold.settled is (end["session"] == SESSION)


def test_what_sub_agents_use_is_added_and_their_compactions_are_not():
    usage = {"tokens": {"input": 7, "output": 1}, "cost": 0.5}
    data = lines(START, told("usage", session="ses_sub", **usage), told("compacted", session="ses_sub"))
    fold = reading("opencode", data + lines(told("usage", **usage), finish("stop")))
    assert (fold.tokens_in, fold.cost_usd, fold.compactions) == (107, 0.5, 0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"name": "ProviderAuthError", "data": {"message": "no credentials"}}, Kind.AUTH),
        ({"name": "MessageOutputLengthError", "data": {}}, Kind.TRUNCATED),
        ({"name": "APIError", "data": {"message": "Overloaded", "statusCode": 529}}, Kind.OVERLOADED),
        ({"name": "UnknownError", "data": {"message": '{"type":"overloaded_error","code":null}'}}, Kind.OVERLOADED),
        ({"name": "UnknownError", "data": {"message": "\ud800 Unable to connect"}}, Kind.CONNECTION),
        ({"name": "UnknownError", "data": {"message": "Unable to connect. Is the computer able"}}, Kind.CONNECTION),
        (
            {
                "name": "APIError",
                "data": {"statusCode": 429, "responseBody": '{"error":{"code":"insufficient_quota"}}'},
            },
            Kind.QUOTA,
        ),
    ],
)
def test_its_errors_have_their_right_names(error, kind):
    assert classify(facts("opencode", lines({"type": "error", "error": error}), exit_code=1)).kind is kind


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
    ],
)
def test_a_server_that_names_a_wait_is_heard(headers, wait_s):
    data = {"message": "Rate limit reached", "statusCode": 429, "responseHeaders": headers}
    failed = reading("opencode", lines({"type": "error", "error": {"name": "APIError", "data": data}})).failed
    assert failed.retry_after_s == wait_s


@pytest.mark.parametrize("event", ["status", "call", "usage", "compacted", "model", "piece", "news", None, 7, []])
def test_a_line_of_the_plugin_in_any_shape_breaks_nothing(event):
    for state in (None, 5, {}, "busy", "retry", []):
        found = signals("opencode", lines(START, {"type": "ralphd", "event": event, "session": 1, "state": state}))
        assert all(not isinstance(signal, (Compacted, Used)) for signal in found)
