"""A night's budget: it warns once, everywhere, and stops nothing unless the person wants it to."""

from __future__ import annotations

import pytest
from support.nights import Night, a_good_night

from ralphd.core import actions, policy, records
from ralphd.core.configfile import read
from ralphd.core.errors import ConfigError
from ralphd.core.fold import fold
from ralphd.core.policy import Present
from ralphd.core.report import report, to_json
from ralphd.core.spending import Spending, sentence, spending
from ralphd.core.status import DaemonFacts, status
from ralphd.views import terminal
from ralphd.views.status import sentences


def free(_usage: records.Usage) -> float | None:
    return None


def by_list(usage: records.Usage) -> float | None:
    return 1.0 if usage.model == "known" else None


def night(**config: object):
    state = fold(a_good_night().entries[:-1])
    state.config |= config
    return state


def decided(spent: Spending, **state: object) -> list[object]:
    told = night()
    for task in told.tasks.values():
        task.done = False  # else the goal ends it
    for name, value in state.items():
        setattr(told, name, value)
    present = Present(
        now=told.started_at + 60, loops={name: policy.LoopNow(alive=True) for name in told.loops}, spending=spent
    )
    return [
        one.action for one in policy.decide(told, present) if isinstance(one.action, (actions.Notify, actions.EndNight))
    ]


def test_it_adds_up_what_is_told_and_asks_for_prices_only_under_a_budget():
    told = sum(loop.tokens().cost_usd or 0 for loop in night().loops.values())
    assert told > 0
    assert spending(night(), by_list) == Spending(usd=told)
    state = night(budget_usd=5)
    state.loops["fix-2"].usage = records.Usage(tokens_in=1, tokens_out=1, model="known")
    assert spending(state, by_list) == Spending(usd=told + 1, estimated=True, budget_usd=5.0)
    state.loops.clear()
    assert spending(state, by_list) == Spending(budget_usd=5.0)


def test_a_sum_that_lacks_a_loop_is_the_least_that_it_may_be():
    state = night(budget_usd=10)
    for loop, usd in (("fix-1", 2.0), ("fix-2", None)):
        state.loops[loop].usage = records.Usage(tokens_in=1, tokens_out=1, cost_usd=usd)
    told = spending(state, lambda _usage: None)
    assert told.partial
    assert sentence(told) == "Spent so far: at least $2.00 of the budget of $10.00."


def test_a_spent_budget_is_told_once_and_stops_nothing():
    [told] = decided(Spending(usd=10.0, budget_usd=10.0))
    assert isinstance(told, actions.Notify)
    assert (
        told.told
        == "The night has cost $10.00, and the budget of $10.00 is spent. Nothing is stopped by that; `ralphd stop` ends the night."
    )
    assert decided(Spending(usd=10.0, budget_usd=10.0), noticed={told.key: 1.0}) == []
    assert decided(Spending(usd=9.99, budget_usd=10.0)) == []
    assert decided(Spending(usd=None, budget_usd=10.0)) == []
    assert decided(Spending(usd=99.0)) == []


def test_it_ends_the_night_only_if_that_is_wanted():
    told, end = decided(Spending(usd=10.0, budget_usd=10.0, ends_night=True))
    assert isinstance(told, actions.Notify)
    assert isinstance(end, actions.EndNight)
    assert decided(Spending(usd=9.0, budget_usd=10.0, ends_night=True)) == []


@pytest.mark.parametrize(
    ("spent", "words"),
    [
        (Spending(usd=1.0), ""),
        (Spending(usd=1.234, budget_usd=10), "Spent so far: $1.23 of the budget of $10.00."),
        (Spending(usd=1.0, budget_usd=10, estimated=True), "Spent so far: about $1.00 of the budget of $10.00."),
        (Spending(budget_usd=10), "What the night costs is not known, so nothing can warn of the budget of $10.00."),
    ],
)
def test_status_says_how_it_stands(spent, words):
    state = night()
    told = status(
        state,
        {name: policy.LoopNow() for name in state.loops},
        0,
        DaemonFacts(pid=1, version="0", started_at=0.0),
        1.0,
        spent=spent,
    )
    assert told["fleet"]["budget"] == words == sentence(spent)
    assert (words in list(sentences(told))) is bool(words)
    assert told["fleet"]["cost_usd"] == spent.usd


@pytest.mark.parametrize(("budget", "words"), [(0.01, "The budget of $0.01 is spent: the night cost $0.02."), (9, "Of the budget of $9.00 the night spent $0.02."), (None, "")])  # fmt: skip
def test_the_report_says_how_it_stood(budget, words):
    told = Night()
    told.entries = a_good_night().entries
    started = next(entry for entry in told.entries if type(entry.body).__name__ == "NightStarted")
    started.body.config["budget_usd"] = budget
    made = report(told.entries, 0.0)
    assert to_json(made)["night"]["budget_usd"] == budget
    text = " ".join(terminal.render_report(made).split())
    assert words in text
    assert ("budget" in text) is bool(words)


def test_the_settings_are_read_and_refused_by_name():
    made = read("[night]\nbudget_usd = 20\nbudget_ends_night = true\n").night
    assert (made.budget_usd, made.budget_ends_night) == (20.0, True)
    assert read("").night.budget_usd is None
    for text, words in (
        ("budget_usd = 0", "over 0"), ("budget_usd = true", "number of dollars"), ('budget_usd = "20"', "number of dollars"),
        ("budget_usd = nan", "over 0"), ("budget_usd = inf", "over 0"), ("budget_ends_night = true", "set budget_usd"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=words):
            read(f"[night]\n{text}\n")
