"""Good news of a night is told once each: its start, a goal, its report."""

from __future__ import annotations

from support.nights import Night

from ralphd.core.fold import fold
from ralphd.daemon.news import News


def heard(night, **more):
    told = []
    return told, News(tell=lambda title, body: told.append(f"{title}: {body}"), **more), fold(night.entries)


def test_a_start_is_told_by_the_daemon_that_began_it_only():
    night = Night()
    night.started()
    night.task("main")
    told, news, state = heard(night)
    news.began(state, "2 of 2 loops run")
    assert told == [f"night {state.id} has begun: 2 of 2 loops run; tasks: main."]
    told, news, state = heard(night, adopted=True)
    news.began(state, "2 of 2 loops run")
    assert told == []


def test_a_goal_is_told_once_and_not_again_by_a_later_daemon():
    night = Night()
    night.started()
    night.task("main")
    told, news, state = heard(night)
    news.look(state)
    assert told == []
    state.tasks["main"].done = True
    news.look(state)
    news.look(state)
    assert len(told) == 1
    assert "main has reached its goal" in told[0]
    told, news, _ = heard(night, known={"main"})
    news.look(state)
    assert told == []


def test_the_end_says_why_and_what_was_gained():
    night = Night()
    night.started()
    night.task("main")
    for why, words in (("goal", "every goal is reached"), ("time", "its time is over"), ("stopped", "it was stopped")):
        told, news, state = heard(night)
        news.closed(state, why)
        assert words in told[0]
        assert "0 verified gains" in told[0]
