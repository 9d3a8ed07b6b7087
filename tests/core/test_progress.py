"""The objective: verified gain an hour and how sure it is, whatever the clocks, the commits and the words say."""

from __future__ import annotations

import pytest
from support.nights import START, Night, commit

from ralphd.core import clocks, events, progress
from ralphd.core.fold import fold
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.report import report


def a_night(*scores: float, every_s: float = 600.0, direction: str = "max") -> Night:
    """One loop whose sessions are judged with these scores; the start has 10."""
    night = Night()
    night.started(ends_at=None)
    night.task(direction=direction)
    night.loop("a")
    night.verdict(10.0)
    for number, score in enumerate(scores, 1):
        night.now = START + number * every_s - 120
        night.began("a", number)
        night.ended("a", number, before=commit(number), after=commit(number + 1))
        better = night_best(scores[: number - 1], direction) is None or beats(
            score, night_best(scores[: number - 1], direction), direction
        )
        night.verdict(score, "a", number, of=commit(number + 1), submission=better)
    return night


def night_best(scores: tuple[float, ...], direction: str) -> float:
    return (max if direction == "max" else min)((10.0, *scores))


def beats(score: float, than: float, direction: str) -> bool:
    return score > than if direction == "max" else score < than


def of(night: Night, at_s: float) -> progress.Progress:
    return progress.of_night(fold(night.entries), START + at_s)


def test_gain_is_what_verdicts_say_over_the_start():
    told = of(a_night(12.0, 11.0, 14.0, 13.0), 7200)
    assert told.gain.per_h == pytest.approx(2.0)
    assert told.gain.low is not None
    assert told.gain.high is not None
    assert told.gain.low < 2.0 < told.gain.high
    assert told.fruitful.per_h == pytest.approx(1.0)
    assert told.recent_gain.per_h == pytest.approx(0.0)
    assert of(a_night(8.0, 9.0, 6.0, direction="min"), 3600).gain.per_h == pytest.approx(4.0)


def test_nothing_gained_is_zero_and_nothing_known_is_none():
    assert of(a_night(9.0), 3600).gain == progress.Rate(per_h=0.0, low=0.0, high=None)
    bare = Night()
    bare.started()
    bare.task(command="")
    bare.loop("a")
    bare.ended("a", 1, after=commit(2))
    assert of(bare, 3600).gain == progress.UNKNOWN


def test_effort_never_enters():
    """Ten times the commits, tokens and sessions: the same figure."""
    lean, busy = a_night(12.0), a_night(12.0)
    for number in range(2, 12):
        busy.began("a", number)
        busy.ended("a", number, before=commit(number), after=commit(number + 100), tokens=10**9, claims_done=True)
    assert of(busy, 7200).gain == of(lean, 7200).gain
    assert of(busy, 7200).fruitful == of(lean, 7200).fruitful


def test_few_and_unequal_steps_and_a_verifier_in_doubt_make_it_unsure():
    def width(rate: progress.Rate) -> float:
        assert rate.high is not None
        assert rate.low is not None
        return rate.high - rate.low

    even = progress.gain_rate(10.0, [1.0] * 10, 1.0, 0.0)
    lucky = progress.gain_rate(10.0, [1.0, 9.0], 1.0, 0.0)
    doubtful = progress.gain_rate(10.0, [1.0] * 10, 1.0, 0.3)
    assert width(even) < width(doubtful)
    assert width(even) < width(lucky)
    assert progress.gain_rate(10.0, [1.0] * 10, 1.0, 0.5) == progress.UNKNOWN


@pytest.mark.parametrize(("count", "low", "high"), [(0, 0.0, 3.69), (1, 0.025, 5.57), (10, 4.80, 18.39)])
def test_counts_have_poissons_interval(count, low, high):
    rate = progress.count_rate(count, 1.0)
    assert rate.low == pytest.approx(low, abs=0.1)
    assert rate.high == pytest.approx(high, abs=0.1)


def test_a_flaky_verifier_is_told_as_doubt():
    night = a_night(12.0)
    for number in range(20, 30):
        night.verdict(99.0, "a", 1, of=commit(number), kind=Kind.FLAKY)
    assert of(night, 3600).gain == progress.UNKNOWN


@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0])
def test_a_clock_that_is_set_moves_no_point_back_and_makes_the_night_no_longer(jump_s):
    still, jumped = a_night(12.0, 14.0, 16.0), a_night(12.0, 14.0)
    jumped.now = START + 1500 + jump_s
    outcome = Outcome(kind=Kind.CLOCK_JUMP, detail={"seconds": jump_s})
    assert clocks.seconds_of(outcome) == jump_s
    jumped.say(events.OutcomeNoted(outcome=outcome))
    jumped.now = START + 1680 + jump_s
    jumped.began("a", 3)
    jumped.ended("a", 3, before=commit(3), after=commit(4))
    jumped.verdict(16.0, "a", 3, of=commit(4), submission=True)
    assert progress.of_night(fold(jumped.entries), START + 3600 + jump_s) == of(still, 3600)
    points = report(jumped.entries, 0.0).throughput
    assert [point.at for point in points] == sorted(point.at for point in points)
    assert [point.at for point in points] == [point.at for point in report(still.entries, 0.0).throughput]


def test_a_refuted_claim_takes_its_session_off_the_healthy_ones():
    night = a_night(12.0)
    claim = night.ended("a", 2, before=commit(2), after=commit(50), claims_done=True)
    night.verdict(13.0, "a", 2, of=commit(50), submission=True)
    assert of(night, 3600).fruitful.per_h == pytest.approx(2.0)
    night.say(events.ClaimSettled(entry=claim.id, outcome=Outcome(kind=Kind.FALSE_DONE)), "a", 2)
    assert of(night, 3600).fruitful.per_h == pytest.approx(1.0)


def test_the_report_and_the_status_agree():
    night = a_night(12.0, 11.0, 14.0)
    night.now = START + 7200
    night.over("stopped")
    totals = report(night.entries, 0.0).totals
    told = of(night, 9999)
    assert (totals.gain, totals.gain_per_h) == (4.0, pytest.approx(told.gain.per_h))
    assert totals.gain_high_per_h == pytest.approx(told.gain.high, abs=1e-3)
    assert totals.healthy_with_submission_per_h == pytest.approx(told.fruitful.per_h)


def test_the_gain_of_each_part_of_the_night_adds_up_to_all_of_it():
    night = a_night(7.0, 9.0, 12.0)
    state = fold(night.entries)
    for after_s in (1800, 7200, 36_000):
        parts = progress.by_part(state, START + after_s, 6)
        assert len(parts) == 6
        assert sum(parts) == progress.gained(state.tasks.values()) > 0
    late = progress.by_part(state, START + 36_000, 6)
    assert late[1:] == [0.0] * 5
    assert progress.by_part(fold(Night().entries), START + 60) is None


def test_only_what_waits_for_a_person_needs_one():
    """A loop that a person paused does not; one that its refused key holds does, until it is let go on."""
    from ralphd.core import records
    from ralphd.core.exchange import Want
    from ralphd.core.status import needs_person

    night = Night()
    night.started()
    night.task()
    night.loop("fix-1")
    night.began("fix-1", 1)
    loop = fold(night.entries).loops["fix-1"]
    assert not needs_person(loop)
    night.say(records.AttemptEnded(attempt=1, outcome=Outcome(kind=Kind.AUTH), wait_s=0.0), "fix-1", 1)
    night.say(records.Held(kind=Kind.AUTH.value, why="the key is refused"), "fix-1", 1)
    loop = fold(night.entries).loops["fix-1"]
    assert needs_person(loop)
    loop.want = Want.PAUSED
    assert not needs_person(loop)
