from __future__ import annotations

from dataclasses import replace

import pytest

from ralphd.core.classify import classify, explain
from ralphd.core.facts import EndedBy, Facts
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.ownretries import OwnRetries, retry_kind
from ralphd.core.pacing import server_floor_s
from ralphd.core.reading import Reading
from ralphd.core.signals import Requesting, Resulted, Retrying, Said, Streamed, Unread, Used


def noted(*steps):
    """Each step is a signal, or seconds that pass."""
    retries, now = OwnRetries(), 100.0
    for step in steps:
        if isinstance(step, (int, float)):
            now += step
        else:
            retries.note(step, now)
    return retries, now


@pytest.mark.parametrize(
    ("signal", "kind"),
    [
        (Retrying(status=429, error="rate_limit"), Kind.RATE_LIMITED),
        (Retrying(status=529, error="overloaded"), Kind.OVERLOADED),
        (Retrying(status=503), Kind.OVERLOADED),
        (Retrying(status=500, error="server_error"), Kind.CONNECTION),
        (Retrying(error="unknown"), Kind.CONNECTION),
        (Retrying(error="overloaded"), Kind.OVERLOADED),
        (Retrying(status=401), Kind.AUTH),
        (Retrying(error="overloaded_error"), Kind.OVERLOADED),
        (Retrying(error="Rate limit reached"), Kind.RATE_LIMITED),
        (Retrying(error="Cannot connect to API: The socket connection was closed unexpectedly."), Kind.CONNECTION),
        (Retrying(error="You exceeded your current quota, please check your plan and billing details."), Kind.QUOTA),
    ],
)
def test_a_client_waits_for_what_it_was_answered_with(signal, kind):
    assert retry_kind(signal) is kind


def test_a_wait_counts_for_as_long_as_it_took_and_not_as_it_was_announced():
    retries, _ = noted(
        Retrying(status=529, attempt=1, delay_s=600), 2, Retrying(status=529, attempt=2, delay_s=600), 3, Streamed(), 50
    )
    assert retries.told() == {"overloaded": 2, "waited_s": 5.0}
    assert retries.waits_for == ""


def test_a_long_wait_that_is_announced_again_and_again_is_one():
    beats = [step for left in range(600, 0, -30) for step in (Retrying(status=429, attempt=1, delay_s=left), 30)]
    retries, now = noted(*beats)
    assert (retries.counts, retries.waits_for) == ({"rate_limited": 1}, "rate_limited")
    retries.end(now)
    assert retries.told() == {"rate_limited": 1, "waited_s": 600.0}


def test_what_comes_beside_a_wait_does_not_end_it_and_each_trouble_counts_for_itself():
    retries, now = noted(
        Retrying(status=429, attempt=1), 5, Unread(text="noise"), Used(tokens_in=1), 5, Requesting(), 1,
        Retrying(attempt=1), 1, Said(text="on"), Retrying(error="compacting", delay_s=600), 600,
    )  # fmt: skip
    retries.end(now)
    assert retries.told() == {"rate_limited": 1, "connection": 1, "waited_s": 11.0}


def test_nothing_is_told_of_a_client_that_never_waited():
    assert noted(Requesting(), 5, Said(text="x"))[0].told() == {}


def test_a_wait_that_was_left_to_the_gate_is_blamed_on_what_was_waited_for_and_is_a_floor():
    reading = Reading()
    reading.add(Retrying(start=3, end=9, status=529, attempt=1, delay_s=7.0))
    known = Facts(cli="claude", exit_code=143, ended_by=EndedBy.GATE, reading=reading, log="log")
    outcome, rule = explain(known)
    assert (outcome.kind, outcome.detail) == (Kind.OVERLOADED, {"status": 529, "client_wait_s": 7.0})
    assert ("log", 3, 9) in {(seen.file, seen.start, seen.end) for seen in outcome.evidence}
    assert rule == "left_to_the_gate"
    assert server_floor_s(outcome, 0.0) == 7.0
    reading.add(Resulted(ok=True))  # it was answered after all
    assert classify(replace(known, exit_code=0)).kind is Kind.NEXT


def test_a_wait_that_a_person_cut_short_is_blamed_on_what_was_waited_for():
    reading = Reading()
    for signal in (Requesting(), Retrying(status=529, attempt=1), Retrying(error="compacting")):
        reading.add(signal)
    outcome = classify(Facts(cli="claude", exit_code=143, ended_by=EndedBy.ASKED_ANEW, reading=reading))
    assert (outcome.kind, outcome.detail) == (Kind.OVERLOADED, {"asked_anew": True})
    bare = classify(Facts(cli="claude", exit_code=None, signal=9, ended_by=EndedBy.ASKED_ANEW, reading=Reading()))
    assert bare.kind is Kind.CONNECTION


@pytest.mark.parametrize(
    ("resets_in_s", "floor_s"),
    [(600.0, 600.0), (590.0, 590.0), (900_000.0, 900_000.0), (10.0, 560.0), (-5.0, 700.0), (1e9, 700.0)],
    ids=["at most", "a little less", "far later", "clocks that differ", "past", "no time that can be meant"],
)
def test_the_servers_own_reset_time_counts_before_what_the_client_adds(resets_in_s, floor_s):
    """A client waits up to a quarter more than it was told, never less."""
    detail = {"client_wait_s": 700.0, "resets_at": 1000.0 + resets_in_s}
    assert server_floor_s(Outcome(kind=Kind.RATE_LIMITED, detail=detail), 1000.0) == floor_s
