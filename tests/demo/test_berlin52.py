"""Are the demo's cities TSPLIB's, and is 7542 really the shortest tour?"""

from __future__ import annotations

import random

from ralphd.demo.berlin52 import CITIES, OPTIMUM, distance, length

# berlin52.opt.tour of TSPLIB, counted from 1 there
PUBLISHED = [
    1, 49, 32, 45, 19, 41, 8, 9, 10, 43, 33, 51, 11, 52, 14, 13, 47, 26, 27, 28, 12, 25, 4, 6, 15, 5, 24, 48, 38, 37, 40,
    39, 36, 35, 34, 44, 46, 16, 29, 50, 20, 23, 30, 2, 7, 42, 21, 17, 3, 18, 31, 22,
]  # fmt: skip
BEST = [city - 1 for city in PUBLISHED]


def test_the_published_best_tour_has_the_published_length():
    assert sorted(BEST) == list(range(52))
    assert length(BEST) == OPTIMUM == 7542


def test_the_order_of_the_cities_has_the_length_that_tsplib_gives_for_it():
    assert length(range(52)) == 22205


def test_distances_are_symmetric_and_rounded_to_the_nearest():
    assert distance(0, 1) == 666  # sqrt(540**2 + 390**2) = 666.1
    assert distance(0, 21) == 46  # sqrt(45**2 + 10**2) = 46.1
    assert distance(34, 35) == 15
    assert distance(4, 14) == 25
    assert distance(3, 5) == 70  # 69.64: rounded, not cut
    assert all(distance(a, b) == distance(b, a) for a in range(52) for b in range(a))
    assert len(set(CITIES)) == 52


def one_tree(weights: list[float]) -> tuple[float, list[int]]:
    """The lightest 1-tree under city weights: its length less the weights, and how many legs each city has."""
    legs = [[distance(a, b) + weights[a] + weights[b] for b in range(52)] for a in range(52)]
    degrees, total = [0] * 52, -2 * sum(weights)
    nearest = dict.fromkeys(range(2, 52), 1)
    while nearest:
        city = min(nearest, key=lambda c: legs[c][nearest[c]])
        parent = nearest.pop(city)
        total += legs[city][parent]
        degrees[city] += 1
        degrees[parent] += 1
        nearest = {c: city if legs[c][city] < legs[c][p] else p for c, p in nearest.items()}
    for city in sorted(range(1, 52), key=lambda c: legs[0][c])[:2]:
        total += legs[0][city]
        degrees[0] += 1
        degrees[city] += 1
    return total, degrees


def test_no_tour_is_shorter_than_the_optimum():
    """Held and Karp: every tour is a 1-tree, so the lightest 1-tree is a bound, whatever the weights are."""
    weights, bound, step = [0.0] * 52, 0.0, 40.0
    for _ in range(3000):
        total, degrees = one_tree(weights)
        bound = max(bound, total)
        if bound > OPTIMUM - 1:
            break
        weights = [w + step * (d - 2) for w, d in zip(weights, degrees, strict=True)]
        step *= 0.995
    assert OPTIMUM - 1 < bound <= OPTIMUM + 1e-6


def improved(tour: list[int], legs: list[list[int]]) -> list[int]:
    """2-opt and or-opt until neither gains."""
    gained = True
    while gained:
        gained = False
        for i in range(51):
            for j in range(i + 2, 52 - (i == 0)):
                a, b, c, d = tour[i], tour[i + 1], tour[j], tour[(j + 1) % 52]
                if legs[a][c] + legs[b][d] < legs[a][b] + legs[c][d]:
                    tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]
                    gained = True
        for start in range(52):
            for size in (1, 2, 3):
                turned = tour[start:] + tour[:start]
                part, rest = turned[:size], turned[size:]
                saved = legs[rest[-1]][part[0]] + legs[part[-1]][rest[0]] - legs[rest[-1]][rest[0]]
                for at in range(len(rest) - 1):
                    if legs[rest[at]][part[0]] + legs[part[-1]][rest[at + 1]] - legs[rest[at]][rest[at + 1]] < saved:
                        tour, gained = rest[: at + 1] + part + rest[at + 1 :], True
                        break
    return tour


def test_a_good_solver_reaches_the_optimum_and_nothing_below():
    """2-opt and or-opt from random starts: found within few hundred, and no start ends below."""
    chance = random.Random(52)
    legs = [[distance(a, b) for b in range(52)] for a in range(52)]
    found = [length(improved(chance.sample(range(52), 52), legs)) for _ in range(300)]
    assert min(found) == OPTIMUM
