"""Does the demo's search program search, repeat itself, and keep what it is given when killed?"""

from __future__ import annotations

import importlib.util
import itertools
import math
from pathlib import Path

import pytest

import ralphd.demo.repository as repository_file
from ralphd.demo import berlin52

PROGRAM = Path(repository_file.__file__).with_name("night") / "solve.py"


@pytest.fixture(scope="module")
def solve():
    spec = importlib.util.spec_from_file_location("demo_solve", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shortest_by_hand(legs):
    rest = range(1, len(legs))
    return min(sum(legs[a][b] for a, b in itertools.pairwise((0, *order, 0))) for order in itertools.permutations(rest))


@pytest.mark.parametrize("method", ["every_tour", "exact_table"])
def test_the_exact_methods_are_exact_where_they_end(solve, method):
    """They are asked for too much on purpose, but they are no pretence."""
    for first in range(0, 48, 6):
        legs = solve.legs_between(berlin52.CITIES[first : first + 7])
        found = getattr(solve, method)(legs, [3, 1, 5, 0, 2, 6, 4])
        assert sorted(found) == list(range(7))
        assert solve.length(legs, found) == shortest_by_hand(legs)


@pytest.mark.parametrize("name", ["swap", "two_opt", "or_opt"])
def test_every_move_keeps_a_tour_a_tour_and_leaves_the_old_one_alone(solve, name):
    for i, j in itertools.combinations(range(9), 2):
        old = list(range(9))
        assert sorted(solve.KNOWN[name](old, i, j)) == list(range(9))
        assert old == list(range(9))


@pytest.mark.parametrize("restart", ["shuffle", "kick"])
def test_a_search_never_gets_worse_and_repeats_itself(solve, restart):
    legs = solve.legs_between(berlin52.CITIES)
    asked = {"seed": 3, "rounds": 2, "seconds": math.inf, "moves": ("two_opt",), "restart": restart}
    start = list(range(52))
    found = solve.search(legs, start, **asked)
    assert found == solve.search(legs, start, **asked)
    assert berlin52.OPTIMUM <= berlin52.length(found) < 10_000
    assert berlin52.length(solve.search(legs, found, **asked)) <= berlin52.length(found)


def test_a_search_without_time_still_returns_its_tour(solve):
    legs = solve.legs_between(berlin52.CITIES)
    asked = {"seed": 3, "rounds": 5, "seconds": -1.0, "moves": ("swap",), "restart": "kick"}
    assert sorted(solve.search(legs, list(range(52)), **asked)) == list(range(52))
