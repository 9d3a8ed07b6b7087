"""How a process ended, by the strongest evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphd.core import classify as module
from ralphd.core.classify import classify, explain
from ralphd.core.facts import EndedBy, Facts
from ralphd.core.failures import kind_of, kind_of_words
from ralphd.core.outcomes import Evidence, Kind
from ralphd.core.reading import Reading
from ralphd.core.signals import Asked, Began, Called, Failed, Resulted, Said, Unread

BEGUN = Began(session="s")
LIMIT = "You've hit your session limit · resets 7:20pm"


def facts(*signals, cli="command", exit_code: int | None = 0, **known) -> Facts:
    reading = Reading()
    for signal in signals:
        reading.add(signal)
    return Facts(cli=cli, exit_code=exit_code, reading=reading, **{"log": "the.log", "stderr_file": "the.err", **known})


def kind(*signals, **known) -> Kind:
    return classify(facts(*signals, **known)).kind


def test_a_program_that_cannot_start_says_why():
    for error in (
        "[Errno 2] No such file or directory: 'claude'",
        "[Errno 8] Exec format error",
        "[Errno 13] Permission denied",
    ):
        outcome = classify(facts(exit_code=None, start_error=error))
        assert outcome.kind is Kind.START_FAILED
        assert outcome.detail["error"] == error


def test_a_short_run_that_commits_is_no_failed_start():
    assert kind(seconds=0.3, head_moved=True) is Kind.NEXT


def test_a_clean_exit_is_next_unless_nothing_changed():
    assert kind(head_moved=True, files_changed=False) is Kind.NEXT
    assert kind(files_changed=True) is Kind.NEXT
    assert kind(files_changed=None) is Kind.NEXT
    assert kind(files_changed=False) is Kind.NOOP


def test_a_claim_is_told_and_decides_nothing():
    outcome = classify(facts(BEGUN, Resulted(ok=True, claims_done=True), head_moved=True))
    assert (outcome.kind, outcome.detail["claimed_done"]) == (Kind.NEXT, True)
    assert kind(Resulted(ok=True, claims_done=True), files_changed=False) is Kind.NOOP


def test_an_idle_attempt_after_one_that_worked_is_a_step_forward():
    assert kind(files_changed=False, worked_before=True) is Kind.NEXT


@pytest.mark.parametrize("code", [1, 2, 124, 126, 127, 129, 130, 137, 143, 255])
def test_a_strangers_exit_code_is_just_a_code(code):
    outcome = classify(facts(exit_code=code))
    assert (outcome.kind, outcome.detail["code"]) == (Kind.EXITED, code)


@pytest.mark.parametrize(("code", "name"), [(129, "SIGHUP"), (143, "SIGTERM"), (137, "SIGKILL")])
def test_claudes_exit_codes_past_128_are_signals(code, name):
    outcome = classify(facts(cli="claude", exit_code=code))
    assert (outcome.kind, outcome.detail["name"]) == (Kind.SIGNALLED, name)


@pytest.mark.parametrize("number", [1, 2, 9, 11, 15, 40])
def test_a_signal_of_somebody_else_is_told(number):
    outcome = classify(facts(exit_code=None, signal=number))
    assert (outcome.kind, outcome.detail["signal"]) == (Kind.SIGNALLED, number)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (EndedBy.OPERATOR, Kind.STOPPED),
        (EndedBy.COMPACTIONS, Kind.COMPACTION_LIMIT),
        (EndedBy.QUIET, Kind.HUNG),
        (EndedBy.SILENT_STREAM, Kind.STALLED),
        (EndedBy.RESULT_GRACE, Kind.HUNG_AFTER_RESULT),
    ],
)
@pytest.mark.parametrize("end", [{"exit_code": None, "signal": 15}, {"exit_code": 143}, {"exit_code": 0}])
def test_an_end_that_we_made_is_ours(by, expected, end):
    assert kind(Resulted(ok=True, claims_done=True), ended_by=by, cli="claude", **end) is expected


def test_an_agent_that_asks_and_waits_is_waiting():
    asking = {"exit_code": None, "signal": 15, "ended_by": EndedBy.QUIET}
    assert kind(Asked(question="Do you trust this folder?"), **asking) is Kind.WAITING_FOR_INPUT
    assert kind(Asked(question="Trust?"), Said(text="going on"), **asking) is Kind.HUNG


def test_an_auth_failure_that_then_hangs_is_an_auth_failure():
    """Going straight on to the next session would burn through the night."""
    hung = {"exit_code": None, "signal": 9, "ended_by": EndedBy.RESULT_GRACE}
    assert kind(Failed(status=401), Resulted(ok=False), **hung) is Kind.AUTH


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (Failed(status=401), Kind.AUTH),
        (Failed(status=403, message="<html>Forbidden</html>"), Kind.AUTH),
        (Failed(error="authentication_failed", message="Not logged in · Please run /login"), Kind.AUTH),
        (Failed(error="authentication_error"), Kind.AUTH),
        (Failed(status=400, error="billing_error"), Kind.QUOTA),
        (Failed(status=402), Kind.QUOTA),
        (Failed(status=429, error="rate_limit", message=LIMIT), Kind.QUOTA),
        (Failed(status=429, message="You exceeded your current quota, please check your plan"), Kind.QUOTA),
        (Failed(message="Your org's monthly usage limit reached"), Kind.QUOTA),
        (Failed(status=403, message="Extra usage disabled by your admin"), Kind.QUOTA),
        (Failed(status=429, error="rate_limit"), Kind.RATE_LIMITED),
        (Failed(status=404, error="model_not_found"), Kind.MODEL_MISSING),
        (Failed(status=529, error="server_error"), Kind.OVERLOADED),
        (Failed(error="overloaded"), Kind.OVERLOADED),
        (Failed(message="API Error: 529 Overloaded"), Kind.OVERLOADED),
        (Failed(status=503), Kind.OVERLOADED),
        (Failed(status=500), Kind.CONNECTION),
        (Failed(status=520), Kind.CONNECTION),
        (Failed(error="server_error", message="API Error: Unable to connect to API (ECONNRESET)"), Kind.CONNECTION),
        (Failed(error="connection_failed"), Kind.CONNECTION),
        (Failed(error="APIError", message="Cannot connect to API: The socket connection was closed"), Kind.CONNECTION),
        (Failed(error="max_output_tokens"), Kind.TRUNCATED),
        (Failed(error="invalid_request rapid_refill_breaker"), Kind.CONTEXT_OVERFLOW),
        (Failed(status=400, error="invalid_request", message="Prompt is too long"), Kind.CONTEXT_OVERFLOW),
        (Failed(status=413, error="invalid_request image_error"), Kind.CONTEXT_OVERFLOW),
        (Failed(error="blocking_limit"), Kind.CONTEXT_OVERFLOW),
        (Failed(error="invalid_request refusal"), Kind.REFUSED),
        (
            Failed(status=400, error="invalid_request_error", message="API Error: 400 messages.1: bad block"),
            Kind.MALFORMED,
        ),
        (Failed(error="max_turns error_max_turns", message="Reached maximum number of turns (2)"), Kind.EXITED),
        (Failed(error="server_error"), Kind.CONNECTION),
        (Failed(error="api_error"), Kind.CONNECTION),
        (Failed(error="invalid_request_error"), Kind.MALFORMED),
        (Failed(), Kind.EXITED),
    ],
)
def test_a_reported_failure_is_its_kind_whatever_the_exit_status(failed, expected, code):
    outcome = classify(facts(BEGUN, failed, Resulted(ok=False), exit_code=code, head_moved=True, cli="claude"))
    assert outcome.kind is expected


def test_a_failure_tells_what_the_server_asked_for_and_where_it_stands():
    failed = Failed(start=10, end=20, status=429, error="rate_limit", retry_after_s=30.0, message="slow down")
    outcome = classify(facts(failed, exit_code=1))
    assert outcome.detail == {"status": 429, "error": "rate_limit", "message": "slow down", "retry_after_s": 30.0}
    assert outcome.evidence == (
        Evidence(what="429 rate_limit slow down", file="the.log", start=10, end=20),
        Evidence(what="exit status 1"),
    )


def test_a_signal_outweighs_a_reported_failure():
    assert kind(Failed(status=529), exit_code=None, signal=9) is Kind.SIGNALLED


def test_ctrl_c_exits_0_and_is_a_signal():
    outcome = classify(facts(Failed(), Resulted(ok=False, terminal="aborted_tools"), cli="claude"))
    assert (outcome.kind, outcome.detail["name"]) == (Kind.SIGNALLED, "SIGINT")


@pytest.mark.parametrize(
    "line",
    [
        "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
        "error: unknown option '--no-such-flag'",
        "Error: Session ID 11111111-2222-4333-8444-555555555555 is already in use.",
        "Error: When using --print, --output-format=stream-json requires --verbose",
        "prog: error: unrecognized arguments: --x",
    ],
)
def test_a_refused_command_line_is_the_persons_to_mend(line):
    assert kind(exit_code=1, stderr_tail=f"{line}\n") is Kind.CONFIG_ERROR
    assert kind(Unread(text=line), exit_code=1, cli="claude") is Kind.CONFIG_ERROR


def test_the_same_words_of_a_run_that_worked_are_just_words():
    line = "error: unknown option '--no-such-flag'"
    assert kind(BEGUN, exit_code=1, stderr_tail=line) is Kind.EXITED
    assert kind(Called(id="a", tool="Bash"), exit_code=1, stderr_tail=line) is Kind.EXITED
    assert kind(exit_code=0, stderr_tail=line) is Kind.NEXT


@pytest.mark.parametrize("code", [0, 1])
def test_a_limit_in_plain_text_counts_for_a_run_that_did_nothing_else(code):
    outcome = classify(facts(Unread(text=LIMIT, start=3, end=9), exit_code=code, files_changed=False))
    assert outcome.kind is Kind.QUOTA
    assert outcome.evidence[-1] == Evidence(what=LIMIT, file="the.log", start=3, end=9)
    assert kind(exit_code=code, stderr_tail=LIMIT) is Kind.QUOTA
    assert kind(BEGUN, Resulted(ok=True, text=LIMIT), exit_code=code) is Kind.QUOTA


def test_a_limit_in_plain_text_never_counts_beside_work_or_a_better_reason():
    words = Unread(text=LIMIT)
    assert kind(words, head_moved=True) is Kind.NEXT
    assert kind(words, files_changed=True) is Kind.NEXT
    assert kind(Called(id="a", tool="Bash"), words) is Kind.NEXT
    assert kind(words, exit_code=124) is Kind.EXITED
    assert kind(words, exit_code=None, signal=9) is Kind.SIGNALLED
    assert kind(words, *[Unread(text="and then it went on")] * 4) is Kind.NEXT


@pytest.mark.parametrize(
    "words",
    [
        "You've used 90% of your session limit · resets 7:20pm",
        "An essay on BaseException: a timeout is an exception, and a rate limit exceeded is another.",
        "The test covers 'You've hit your session limit' and ECONNRESET.",
        "I fixed the overloaded operator; error handling for 429 is next.",
        "> Not logged in was the old message",
        "Overloaded functions are resolved at compile time.",
        "503 files checked",
        "Not logged in users see the page. " * 20,
        "",
        "x" * 100_000,
    ],
)
def test_prose_about_trouble_is_no_trouble(words):
    assert kind(Unread(text=words)) is Kind.NEXT
    assert kind(Unread(text=words), exit_code=1) is Kind.EXITED


def test_a_bad_last_result_is_an_exit_even_with_status_0():
    outcome = classify(facts(BEGUN, Resulted(ok=False, terminal="error_during_execution")))
    assert (outcome.kind, outcome.detail["result"]) == (Kind.EXITED, "error_during_execution")


def test_an_exit_tells_the_last_word_of_stderr():
    outcome = classify(facts(exit_code=3, stderr_tail="Traceback\nValueError: no\n"))
    assert outcome.detail["message"] == "ValueError: no"
    assert outcome.evidence[-1].file == "the.err"


def test_without_any_exit_it_is_unknown():
    assert explain(facts(exit_code=None))[1] == "unknown"
    assert kind(exit_code=None) is Kind.UNKNOWN


def test_without_any_exit_a_final_result_is_the_best_evidence():
    """If it is good, and the agent did nothing after it. A bad one leaves open how it ended."""
    done = classify(facts(BEGUN, Resulted(ok=True, claims_done=True), exit_code=None))
    assert (done.kind, done.detail) == (Kind.NEXT, {"result": "ok", "claimed_done": True})
    assert [seen.what for seen in done.evidence] == [
        "it told a good final result; how it exited is not known",
        "its final result",
    ]
    assert kind(BEGUN, Resulted(ok=False), exit_code=None) is Kind.UNKNOWN
    assert kind(BEGUN, Resulted(ok=True), Said(text="more"), exit_code=None) is Kind.UNKNOWN
    assert kind(BEGUN, Resulted(ok=True), exit_code=None, signal=9) is Kind.SIGNALLED
    assert kind(BEGUN, Resulted(ok=True), exit_code=3) is Kind.EXITED


def test_every_rule_is_named_and_has_its_day():
    assert [rule.__name__ for rule in module.RULES][-1] == "unknown"
    assert explain(facts(head_moved=True))[1] == "next_"
    assert explain(facts(Failed(status=429), exit_code=1))[1] == "failure"


signals = st.one_of(
    st.builds(Failed, status=st.none() | st.integers(), error=st.text(), message=st.text()),
    st.builds(Resulted, ok=st.booleans(), text=st.text(), terminal=st.sampled_from(["", "aborted_tools", "completed"])),
    st.builds(Unread, text=st.text()),
    st.builds(Said, text=st.text()),
    st.builds(Asked, question=st.text()),
    st.builds(Called, id=st.text(), tool=st.text()),
)


@given(
    st.lists(signals),
    st.fixed_dictionaries(
        {
            "exit_code": st.none() | st.integers(-300, 300),
            "signal": st.none() | st.integers(-5, 300),
            "ended_by": st.sampled_from(EndedBy),
            "stderr_tail": st.text(),
            "head_moved": st.booleans(),
            "files_changed": st.none() | st.booleans(),
        }
    ),
)
def test_every_end_has_an_outcome(given_signals, known):
    outcome = classify(facts(*given_signals, **known))
    assert isinstance(outcome.kind, Kind)
    assert all(evidence.what or evidence.file for evidence in outcome.evidence)
    if outcome.kind.family == "inference" and known["ended_by"] is EndedBy.ITSELF:
        assert any(isinstance(s, Failed | Unread | Resulted) for s in given_signals) or known["stderr_tail"]


@given(st.text(max_size=2000), st.text(max_size=50))
def test_any_message_can_be_judged(message, error):
    for kind in (kind_of(Failed(message=message, error=error)), kind_of_words(message)):
        assert kind is None or kind in Kind
