"""The fold of signals."""

from __future__ import annotations

from ralphd.core.reading import OPEN_CALLS, PLAIN_LINES, Reading
from ralphd.core.signals import (
    Asked,
    Began,
    Called,
    Failed,
    Requesting,
    Resulted,
    Retrying,
    Returned,
    Said,
    Unread,
    Used,
)


def fold(*signals):
    reading = Reading()
    for signal in signals:
        reading.add(signal)
    return reading


def test_nothing_is_known_of_a_silent_stream():
    assert (Reading().tokens_in, Reading().cost_usd, Reading().result) == (None, None, None)


def test_calls_are_open_until_they_return():
    reading = fold(Called(id="a", tool="Bash"), Called(id="b", tool="Read"), Returned(id="a"), Returned(id="never"))
    assert (reading.calls, reading.open_calls, reading.running) == (2, 1, {"b": "Read"})


def test_a_final_result_closes_every_call():
    assert fold(Called(id="a", tool="Bash"), Resulted(ok=True)).open_calls == 0


def test_the_memory_stays_bounded_whatever_comes():
    reading = fold(*(Called(id=str(n), tool="t") for n in range(5000)), *(Unread(text=str(n)) for n in range(5000)))
    assert reading.calls == 5000
    assert len(reading.running) == OPEN_CALLS
    assert "4999" in reading.running
    assert [line.text for line in reading.plain] == [str(n) for n in range(5000 - PLAIN_LINES, 5000)]


def test_a_failure_lasts_until_the_model_answers_again():
    failed = Failed(status=529)
    assert fold(failed, Requesting()).failed is failed
    assert fold(failed, Retrying(attempt=1)).failed is failed
    assert fold(failed, Resulted(ok=False)).failed is failed
    assert fold(failed, Said(text="on")).failed is None
    assert fold(failed, Called(id="a", tool="t")).failed is None
    assert fold(failed, Resulted(ok=True)).failed is None


def test_a_run_is_settled_from_its_result_to_the_next_beginning():
    assert fold(Said(text="a"), Resulted(ok=True)).settled
    for more in (Began(), Requesting(), Said(text="b"), Called(id="a", tool="t")):
        assert not fold(Resulted(ok=True), more).settled
    assert fold(Resulted(ok=True), Unread(text="x"), Used(tokens_in=1)).settled


def test_totals_replace_and_parts_add():
    reading = fold(
        Used(tokens_in=5, cost_usd=1.0),
        Used(tokens_in=7),
        Used(tokens_in=100, cost_usd=2.0, total=True),
        Used(tokens_in=1),
    )
    assert (reading.tokens_in, reading.tokens_out, reading.cost_usd) == (101, 0, 2.0)


def test_a_question_is_open_until_work_goes_on():
    assert fold(Asked(question="trust?")).asked == "trust?"
    assert fold(Asked(question="trust?"), Said(text="x")).asked == ""


def test_an_empty_beginning_forgets_nothing():
    reading = fold(Began(session="s", model="m"), Began())
    assert (reading.session, reading.model, reading.begun) == ("s", "m", 2)


def test_an_endless_failure_is_not_overtaken_by_what_it_goes_on_with():
    endless = Failed(error="truncated", endless=True)
    for later in (Said(text="half an ans"), Resulted(ok=True), Failed(error="overloaded")):
        assert fold(endless, later).failed is endless
    assert fold(Failed(error="overloaded"), Said(text="well")).failed is None
