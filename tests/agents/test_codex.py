"""How Codex is started, and what its stream says beyond the recordings."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tomllib

import pytest
from support.readings import facts, reading, signals

from ralphd.agents import Turn, adapter, codex
from ralphd.core.classify import classify
from ralphd.core.exchange import Assignment, Limits
from ralphd.core.facts import EndedBy
from ralphd.core.outcomes import Kind
from ralphd.core.ownretries import retry_kind
from ralphd.core.patience import Patience
from ralphd.core.reading import Reading
from ralphd.core.signals import Called, Compacted, Resulted, Retrying, Returned

TURN = Turn(session="11111111-2222-4333-8444-555555555555", guard="/state/guard", tmp="/t", home="/state/agent")


def assignment(**known):
    places = dict.fromkeys(("night", "loop", "task", "folder", "worktree", "night_repository", "branch"), "x")
    given = {"cli": "codex", "program": "/opt/codex", "env": {"PATH": "/bin", "HOME": "/home/me"}, **known}
    return Assignment(generation=1, base="c", prompt="p", preamble="q", nonce="n", **places, **given)


def settings(argv):
    """What the command line sets, as Codex reads it: TOML values by dotted names, the last one wins."""
    told = {}
    for before, setting in itertools.pairwise(argv):
        if before == "-c":
            name, _, value = setting.partition("=")
            told[name] = tomllib.loads(f"value = {value}")["value"]
    return told


def lines(*events):
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def failed(message):
    return lines({"type": "turn.started"}, {"type": "turn.failed", "error": {"message": message}})


def test_a_fresh_session_names_itself_and_is_taken_up_by_that_name():
    argv = adapter("codex").launch(assignment(model="gpt-5-codex"), TURN).argv
    assert argv[:3] == ("/opt/codex", "exec", "--json")
    assert TURN.session not in argv
    assert argv[-1] == "-"
    assert argv[argv.index("--model") + 1] == "gpt-5-codex"
    again = Turn(session="01a227e2-3ec5-7b10-8855-14550d50a45a", attempt=2, resume=True, guard="/g", home="/h")
    argv = adapter("codex").launch(assignment(), again).argv
    assert argv[1:3] == ("exec", "resume")
    assert argv[-2:] == ("01a227e2-3ec5-7b10-8855-14550d50a45a", "-")


def test_the_persons_login_and_settings_stay_theirs_and_their_arguments_come_last():
    launch = adapter("codex").launch(assignment(args=("-c", 'model_provider="mine"')), TURN)
    assert launch.env == {"PATH": "/bin", "HOME": "/home/me"}
    assert launch.argv[-2:] == ("-c", 'model_provider="mine"')
    assert settings(launch.argv)["model_provider"] == "mine"


def test_bash_is_led_to_the_guard_for_tool_calls_alone():
    launch = adapter("codex").launch(assignment(), TURN)
    told = settings(launch.argv)
    assert told["shell_environment_policy.set.BASH_ENV"] == "/state/agent/codex/bash_env"
    assert told["shell_environment_policy.inherit"] == "all"
    assert [file.path for file in launch.files] == ["codex/bash_env"]
    assert "BASH_ENV" not in launch.env


@pytest.mark.parametrize(
    ("line", "guarded"),
    [
        ("echo hi", True),
        ("cd x && make -j4\nexit 3", True),
        ("__CODEX_SNAPSHOT_OVERRIDE_SET_0=x\nif true; then :; fi\n\nexec '/bin/bash' -c 'echo hi'", False),
        ("__CODEX_SNAPSHOT_OVERRIDE_SET_0=x\nif true; then :; fi\n\nexec '/bin/sh' -c 'echo hi'", True),
        ('set -e; . "/home/me/.codex/shell_snapshots/01a2.tmp-1"', False),
        ("__codex_snapshot_command() { :; }; __codex_snapshot_command true", False),
    ],
)
def test_each_command_is_handed_over_once_and_what_codex_runs_for_itself_is_not(tmp_path, line, guarded):
    guard = tmp_path / "guard"
    guard.write_text('#!/bin/sh\nprintf "guarded %s:%s" "$1" "$2"\n')
    guard.chmod(0o755)
    env = tmp_path / "bash_env"
    env.write_text(codex.HAND_OVER)
    known = {"PATH": os.environ["PATH"], "BASH_ENV": str(env), "RALPHD_GUARD": str(guard)}
    bash = shutil.which("bash")
    told = subprocess.run([bash, "-c", line], env=known, capture_output=True, text=True, check=False).stdout
    assert (told == f"guarded -c:{line}") is guarded
    within = {**known, "RALPHD_CALL": "1-2"}
    told = subprocess.run([bash, "-c", line], env=within, capture_output=True, text=True, check=False).stdout
    assert "guarded" not in told.partition("hi")[0]


def test_our_hook_is_trusted_by_the_hash_of_what_it_is_and_no_other_hook_with_it():
    argv = adapter("codex").launch(assignment(), TURN).argv
    told = settings(argv)
    (hook,) = told["hooks.PostCompact"][0]["hooks"]
    identity = {"event_name": "post_compact", "hooks": [{**hook, "async": False}]}
    known = json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()
    trust = told["hooks.state"]["/<session-flags>/config.toml:post_compact:0:0"]
    assert trust == {"trusted_hash": f"sha256:{hashlib.sha256(known).hexdigest()}"}
    assert "--dangerously-bypass-hook-trust" not in argv


def test_our_hook_tells_of_a_compaction_on_the_stdout_of_the_cli():
    (hook,) = settings(adapter("codex").launch(assignment(), TURN).argv)["hooks.PostCompact"][0]["hooks"]
    cli = "import subprocess, sys; subprocess.run(['/bin/sh', '-c', sys.argv[1]], stdout=subprocess.DEVNULL)"
    out = subprocess.run([sys.executable, "-c", cli, hook["command"]], capture_output=True, check=True).stdout
    assert [type(told) for told in signals("codex", out)] == [Compacted]


@pytest.mark.parametrize(
    ("model", "args", "limit"),
    [
        ("gpt-5-codex", (), 190_400),
        ("gpt-5.4", (), 190_400),
        ("my-model", (), None),
        ("my-model", ("-c", "model_context_window=100000"), 70_000),
        ("gpt-5", ("--config=model_context_window=400000",), 280_000),
        ("gpt-5", ("-c", 'model_context_window="many"'), 190_400),
    ],
)
def test_the_context_is_compacted_at_seventy_percent_where_its_window_is_known(model, args, limit):
    assert codex.compact_limit(model, args) == limit
    told = settings(adapter("codex").launch(assignment(model=model), TURN).argv)
    assert ("model_auto_compact_token_limit" in told) is (codex.compact_limit(model, ()) is not None)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("unexpected status 401 Unauthorized: Incorrect API key provided, url: http://x/v1/responses", Kind.AUTH),
        ("exceeded retry limit, last status: 429 Too Many Requests", Kind.RATE_LIMITED),
        ("exceeded retry limit, last status: 502 Bad Gateway", Kind.CONNECTION),
        ("unexpected status 404 Not Found: The model `x` does not exist", Kind.MODEL_MISSING),
        ("You\u2019ve hit your usage limit. Upgrade to Pro or try again at 3:40 PM.", Kind.QUOTA),
        ("You've hit your usage limit. Try again later.", Kind.QUOTA),
        ("Quota exceeded. Check your plan and billing details.", Kind.QUOTA),
        ("We\u2019re currently experiencing high demand, which may cause temporary errors.", Kind.OVERLOADED),
        ("Selected model is at capacity. Please try a different model.", Kind.OVERLOADED),
        ("stream disconnected before completion: idle timeout waiting for SSE", Kind.STALLED),
        ("stream disconnected before completion: stream closed before response.completed", Kind.TRUNCATED),
        ("stream disconnected before completion: Transport error: network error", Kind.CONNECTION),
        ("Codex ran out of room in the model's context window. Start a new thread", Kind.CONTEXT_OVERFLOW),
        ('{"error": {"message": "bad", "type": "invalid_request_error", "code": null}}', Kind.MALFORMED),
        ('{"error": {"message": "x is too long", "type": "context_length_exceeded"}}', Kind.CONTEXT_OVERFLOW),
        ("something nobody has seen yet", Kind.EXITED),
    ],
)
def test_a_failed_turn_is_what_its_message_begins_with(message, kind):
    assert classify(facts("codex", failed(message), exit_code=1)).kind is kind


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        ("We\u2019re currently experiencing high demand, which may cause temporary errors.", Kind.OVERLOADED),
        ("stream disconnected before completion: idle timeout waiting for SSE", Kind.STALLED),
        ("unexpected status 500 Internal Server Error: x", Kind.CONNECTION),
        ("of a kind that nobody has seen yet", Kind.CONNECTION),
    ],
)
def test_what_it_waits_for_has_the_name_that_its_failure_would_have(why, kind):
    (told,) = signals("codex", lines({"type": "error", "message": f"Reconnecting... 1/5 ({why})"}))
    assert retry_kind(told) is kind


def test_a_wait_of_its_own_is_no_failure():
    told = signals(
        "codex",
        lines(
            {"type": "error", "message": "Reconnecting... 2/5 (unexpected status 503 Service Unavailable: busy)"},
            {"type": "error", "message": "Reconnecting... waiting for network (Connection failed: error)"},
            {"type": "error", "message": "Reconnecting... of a kind that nobody has seen yet"},
        ),
    )
    assert [type(signal) for signal in told] == [Retrying] * 3
    assert (told[0].attempt, told[0].status) == (2, 503)


def test_a_wait_that_the_server_asked_for_may_be_long_and_silent():
    message = "Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)"
    told = signals("codex", lines({"type": "thread.started", "thread_id": "t"}, {"type": "error", "message": message}))
    fold, patience = Reading(), Patience(limits=Limits(), last_byte=0.0, last_work=0.0, turns=True)
    for signal in told:
        fold.add(signal)
        patience.note(signal, 0.0)
    assert patience.over(1800.0, fold, open_calls=0) is EndedBy.ITSELF
    assert patience.over(4000.0, fold, open_calls=0) is EndedBy.SILENT_STREAM


def test_a_warning_is_no_failure_and_no_call():
    item = {"id": "item_0", "type": "error", "message": "rate limit reached: Model metadata for `x` not found."}
    assert signals("codex", lines({"type": "item.completed", "item": item})) == []


def test_calls_of_every_kind_open_once_and_return():
    def step(kind, **item):
        return {"type": f"item.{kind}", "item": {"id": "1", **item}}

    shell = {"type": "command_execution", "command": "/bin/bash -lc 'echo '\\''hi'\\'' there'"}
    told = signals(
        "codex",
        lines(
            step("started", **shell, status="in_progress"),
            step("updated", **shell, status="in_progress"),
            step("completed", **shell, status="failed", exit_code=3, aggregated_output="hi there"),
            step("completed", type="file_change", changes=[{"path": "a.py"}, {"path": "b.py"}], status="completed"),
            step("started", type="mcp_tool_call", server="docs", tool="search"),
            step("completed", type="mcp_tool_call", server="docs", tool="search", error={"message": "no"}),
        ),
    )
    assert [type(signal) for signal in told] == [Called, Returned, Called, Returned, Called, Returned]
    assert [told[at].command for at in (0, 2, 4)] == ["echo 'hi' there", "a.py, b.py", "docs"]
    assert [told[at].tool for at in (0, 2, 4)] == ["command_execution", "file_change", "search"]
    assert [told[at].is_error for at in (1, 3, 5)] == [True, False, True]


def test_the_claim_is_that_of_the_last_message():
    def says(*words):
        items = [{"type": "item.completed", "item": {"type": "agent_message", "text": text}} for text in words]
        return reading("codex", lines(*items, {"type": "turn.completed", "usage": {"input_tokens": 10}})).result

    assert says("All done.\nRALPHD: DONE").claims_done
    assert not says("RALPHD: DONE", "but one thing is left").claims_done
    assert isinstance(says("x"), Resulted)


def test_what_came_from_the_cache_is_told_apart_from_what_was_read_anew():
    usage = {"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 7}
    fold = reading("codex", lines({"type": "turn.completed", "usage": usage}))
    assert (fold.tokens_in, fold.cache_read, fold.tokens_out) == (100, 900, 7)


def test_a_turn_that_failed_tells_no_tokens_and_not_zero():
    assert reading("codex", failed("Quota exceeded.")).tokens_in is None


def test_hostile_values_are_no_values():
    for value in (None, 5, [], {}, True, "x" * 100_000, 1e308):
        for kind in ("thread.started", "item.completed", "turn.completed", "turn.failed", "error"):
            item = {"type": value, "id": value, "text": value, "command": value, "changes": value}
            for name in ("command_execution", "agent_message", "file_change"):
                event = {"type": kind, "thread_id": value, "item": {**item, "type": name}, "usage": value}
                signals("codex", lines({**event, "error": value, "message": value}))
            signals("codex", lines({"type": kind, "item": item, "usage": {"input_tokens": value}}))
