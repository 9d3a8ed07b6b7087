"""Any program's plain lines and JSON lines."""

from __future__ import annotations

import json

import pytest
from support.readings import facts, reading, signals

from ralphd.core import codec
from ralphd.core.classify import classify
from ralphd.core.outcomes import Kind
from ralphd.core.signals import Began, Called, Compacted, Failed, Resulted, Returned, Said, Unread, Used


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def test_every_line_of_the_protocol_is_understood():
    found = signals(
        "command",
        lines(
            {"type": "begin", "session": "s", "model": "m"},
            {"type": "text", "text": "hello"},
            {"type": "call", "id": 1, "tool": "shell", "command": "pytest -q"},
            {"type": "return", "id": 1, "text": "3 failed", "exit": 1},
            {"type": "usage", "input": 12, "output": 3, "cache_read": 4, "cost_usd": 0.5},
            {"type": "compaction"},
            {"type": "error", "status": 529, "error": "overloaded", "message": "busy", "retry_after_s": 30},
            {"type": "result", "ok": True, "text": "fine", "done": True},
        ),
    )
    assert [type(s) for s in found] == [Began, Said, Called, Returned, Used, Compacted, Failed, Resulted]
    assert found[2].id == found[3].id == "1"
    assert found[3].is_error
    assert (found[4].tokens_in, found[4].cost_usd, found[4].total) == (12, 0.5, False)
    assert (found[6].status, found[6].retry_after_s) == (529, 30.0)
    assert found[7].claims_done


@pytest.mark.parametrize(
    ("told", "tokens", "cost_usd"),
    [
        ({"cost_usd": 0.25}, (None, None, None), 0.25),
        ({"output": 7}, (None, 7, None), None),
        ({"input": "many", "output": -3, "cache_read": None, "cost_usd": "a lot"}, (None, None, None), None),
        ({"input": 0, "output": 0}, (0, 0, 0), None),
    ],
)
def test_what_a_usage_line_does_not_tell_stays_unknown(told, tokens, cost_usd):
    """Not 0; and what an earlier line told stays as it was."""
    fold = reading("command", lines({"type": "usage", **told}))
    assert (fold.tokens_in, fold.tokens_out, fold.cache_read) == tokens
    assert fold.cost_usd == cost_usd
    fold = reading("command", lines({"type": "usage", "input": 5, "output": 2}, {"type": "usage", "cost_usd": 0.5}))
    assert (fold.tokens_in, fold.tokens_out, fold.cost_usd) == (5, 2, 0.5)


def test_usage_adds_up():
    fold = reading("command", lines(*[{"type": "usage", "input": 5, "output": 2, "cost_usd": 0.25}] * 3))
    assert (fold.tokens_in, fold.tokens_out, fold.cost_usd, fold.cache_read) == (15, 6, 0.75, 0)


def test_other_lines_are_plain_text():
    found = signals("command", b'hello\n{"type":"nonesuch"}\n{"no":"type"}\n[]\n')
    assert [type(s) for s in found] == [Unread] * 4
    assert [s.text for s in found] == ["hello", "", "", "[]"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"type":"error","status":429,"message":"slow down"}', Kind.RATE_LIMITED),
        ('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', Kind.OVERLOADED),
        ('{"error":{"message":"busy"},"http_status":529}', Kind.OVERLOADED),
        ('{"http_status":503}', Kind.OVERLOADED),
        ('{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}', Kind.AUTH),
        ("API Error: 529 Overloaded", Kind.OVERLOADED),
        ('API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}', Kind.OVERLOADED),
        ("You've hit your session limit · resets 7:20pm", Kind.QUOTA),
        ("You\u2019ve hit your limit · resets 3am (Europe/Berlin)", Kind.QUOTA),
        ("Claude AI usage limit reached|1760000000", Kind.QUOTA),
        ("Credit balance is too low", Kind.QUOTA),
        ("Error: connect ECONNREFUSED 127.0.0.1:443", Kind.CONNECTION),
        ("Error: ECONNREFUSED 127.0.0.1:443", Kind.CONNECTION),
        ("Invalid API key · Please run /login", Kind.AUTH),
        ("You've used 90% of your session limit · resets 7:20pm", Kind.NEXT),
        ("The essay explains why a rate limit exceeded error is an exception.", Kind.NEXT),
    ],
)
def test_a_run_that_exits_0_and_did_nothing_is_what_it_told(line, kind):
    assert classify(facts("command", line.encode() + b"\n")).kind is kind


def test_done_needs_a_boolean():
    for claim in ("yes", 1, "false", None):
        assert not reading("command", lines({"type": "result", "done": claim})).result.claims_done


def test_an_explicit_no_outweighs_the_words_in_either_order():
    """Seen elsewhere: "STATUS: COMPLETE" of one part overrode the explicit "don't exit" field beside it."""
    for told in ({"done": False, "text": "RALPHD: DONE"}, {"text": "RALPHD: DONE", "done": False}):
        assert not reading("command", lines({"type": "result", "ok": True, **told})).result.claims_done
    assert reading("command", lines({"type": "result", "ok": True, "text": "RALPHD: DONE"})).result.claims_done


def test_hostile_fields_are_no_fields():
    hostile = [[], {}, None, 5, True, "x" * 100_000]
    for kind in ("begin", "text", "call", "return", "usage", "error", "result"):
        for value in hostile:
            names = (
                "session",
                "model",
                "text",
                "id",
                "tool",
                "command",
                "input",
                "cost_usd",
                "status",
                "error",
                "message",
            )
            for signal in signals("command", lines({"type": kind, **dict.fromkeys(names, value)})):
                assert codec.load(type(signal), codec.dump(signal)) == signal  # each field is of its own type


def test_no_program_can_ask_for_an_endless_wait():
    fold = reading("command", lines({"type": "error", "status": 429, "retry_after_s": 1e300}))
    assert fold.failed.retry_after_s == 31 * 86400
