"""What is right is done about every incident, and what must never be done never is, whoever advises."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.garbage import garbage
from support.incident_runs import OFFERS, ROW_NEVER_SHOWN, harm, is_right, obeys
from support.incident_table import INCIDENTS
from support.incidents import Incident, garbled, obeying, play
from support.injections import WAYS

from ralphd.core.outcomes import TABLE, Charge, Kind

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = {incident.name: incident for incident in INCIDENTS}


def test_there_are_enough_and_each_has_a_name_of_its_own():
    assert len(BY_NAME) == len(INCIDENTS) >= 60
    assert sum(incident.consulted for incident in INCIDENTS) >= 10


def mistakes(runs):
    return [
        f"{run.incident.name}: {sorted(run.done)}, right: {run.incident.right or 'nothing'}"
        for run in runs
        if not is_right(run)
    ]


def test_the_policy_does_what_is_right_and_never_what_harms():
    """What is right may be argued about in one case or another; harm may not."""
    runs = [play(incident) for incident in INCIDENTS]
    assert {run.incident.name: run.harm for run in runs if run.harm} == {}
    assert len(mistakes(runs)) <= 0.05 * len(INCIDENTS), mistakes(runs)


def test_a_model_that_obeys_every_log_does_no_harm_and_is_asked_only_where_nobody_knows():
    runs = [obeys(number, incident) for number, incident in enumerate(INCIDENTS)]
    assert [run.incident.name for run in runs if harm(run)] == []
    strangers = [run.incident.name for run in runs if run.questions and not run.incident.consulted]
    assert len(strangers) <= 0.05 * len(INCIDENTS), strangers
    assert sum(run.taken for run in runs) > 5
    assert len(mistakes(runs)) <= 0.05 * len(INCIDENTS), mistakes(runs)


def test_each_way_of_obeying_and_many_orders_in_the_incidents_that_are_asked_about():
    for number, incident in itertools.product(range(0, 8 * len(WAYS), 3), (i for i in INCIDENTS if i.consulted)):
        stub, log = obeying(number)
        run = play(incident, stub, log)
        assert harm(run) == set(), (number, incident.name)


def test_garbage_leaves_everything_to_the_policy():
    """All three hundred ways, over and over; what is done is what the policy does alone."""
    ways = [body for _, body in garbage(OFFERS, frozenset({ROW_NEVER_SHOWN}))]
    bodies, asked = itertools.cycle(ways), 0
    while asked < len(ways):
        for incident in (i for i in INCIDENTS if i.consulted):
            run = play(incident, garbled(bodies))
            asked += run.questions
            assert run.taken == 0
            assert run.done == play(incident).done, incident.name


@pytest.mark.slow
def test_the_script_tells_accuracy_harm_and_cost():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "incidents", "--json"], capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    assert [arm["harmful"] for arm in told] == [0, 0, 0]
    assert told[0]["right"] >= 0.95 * told[0]["incidents"]
    assert told[0]["questions"] == 0 < told[1]["questions"]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.CRASH_LOOP])
def test_no_outcome_that_comes_twice_takes_anything_from_a_loop(kind):
    """But for a crash loop, which is five failures each time."""
    story = f"l1 next score=8\nl1 {kind.value} x2\nl1 next score=9"
    run = play(
        Incident(name=kind.value, story=story, never="clean *, restart *, park *, pause *, stop *, end", healthy="l2")
    )
    assert run.harm == set()


@pytest.mark.parametrize("kind", [kind for kind in Kind if TABLE[kind].charge in {Charge.INFRA, Charge.OPERATOR}])
def test_what_is_no_loops_fault_never_takes_anything_from_it_however_often(kind):
    run = play(
        Incident(
            name=kind.value, story=f"l1 {kind.value} x25", never="clean *, restart *, park *, stop *, end", healthy="l2"
        )
    )
    assert run.harm == set()
