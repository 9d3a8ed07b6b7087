"""Which shorter tour can be found from tour.txt? `solve.py --seed 7` searches and keeps what is better.

MOVES and RESTART are the plan; a session that stops gaining may change them, or anything else here.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import time
from collections.abc import Sequence

MOVES = ("swap",)  # also known: "two_opt" turns a stretch round, "or_opt" puts a short stretch elsewhere
RESTART = "shuffle"  # or "kick": exchange two stretches of the best tour, and climb from there
TABLE_STATES_MAX = 600_000  # of the exact table; about 240 MiB

Legs = list[list[int]]
Tour = list[int]


def read_cities() -> list[tuple[int, int]]:
    with open("cities.txt", encoding="ascii") as lines:
        return [(int(x), int(y)) for x, y in (line.split() for line in lines if line.strip())]


def legs_between(cities: Sequence[tuple[int, int]]) -> Legs:
    return [[int(((ax - bx) ** 2 + (ay - by) ** 2) ** 0.5 + 0.5) for bx, by in cities] for ax, ay in cities]


def length(legs: Legs, tour: Sequence[int]) -> int:
    return sum(legs[tour[at - 1]][tour[at]] for at in range(len(tour)))


def swap(tour: Tour, i: int, j: int) -> Tour:
    """Exchange two cities."""
    other = list(tour)
    other[i], other[j] = tour[j], tour[i]
    return other


def two_opt(tour: Tour, i: int, j: int) -> Tour:
    """Turn the stretch between two cities round."""
    return tour[:i] + tour[i : j + 1][::-1] + tour[j + 1 :]


def or_opt(tour: Tour, i: int, j: int) -> Tour:
    """Take up to three cities out at i and put them back, turned, after j."""
    size = min(3, j - i)
    return tour[:i] + tour[i + size : j + 1] + tour[i : i + size][::-1] + tour[j + 1 :]


KNOWN = {"swap": swap, "two_opt": two_opt, "or_opt": or_opt}


def climb(legs: Legs, tour: Tour, moves: Sequence[str], end: float) -> Tour:
    """Try the moves on every pair of places until none of them gains, or the time is up."""
    shortest, gained = length(legs, tour), True
    while gained and time.monotonic() < end:
        gained = False
        for name in moves:
            for i, j in itertools.combinations(range(len(tour)), 2):
                other = KNOWN[name](tour, i, j)
                if (now := length(legs, other)) < shortest:
                    tour, shortest, gained = other, now, True
    return tour


def kick(tour: Tour, chance: random.Random) -> Tour:
    a, b, c = sorted(chance.sample(range(1, len(tour)), 3))
    return tour[:a] + tour[b:c] + tour[a:b] + tour[c:]


def search(
    legs: Legs, best: Tour, *, seed: int, rounds: int, seconds: float, moves: Sequence[str], restart: str
) -> Tour:
    """Climb from so many fresh starts. The same seed gives the same tour, unless `seconds` cut it short."""
    chance, end = random.Random(seed), time.monotonic() + seconds  # noqa: S311  # nothing secret
    best = climb(legs, best, moves, end)
    for _ in range(rounds):
        start = kick(best, chance) if restart == "kick" else chance.sample(best, len(best))
        found = climb(legs, start, moves, end)
        if length(legs, found) < length(legs, best):
            best = found
    return best


def every_tour(legs: Legs, best: Tour) -> Tour:
    """Exact by trying every order. Right for ten cities; for 52 the sun goes out first."""
    shortest = length(legs, best)
    for order in itertools.permutations(range(1, len(legs))):
        if length(legs, (0, *order)) < shortest:
            best, shortest = [0, *order], length(legs, (0, *order))
    return best


def exact_table(legs: Legs, best: Tour) -> Tour:
    """Exact by Held and Karp's table of subsets. Right for 15 cities; the table doubles with each city more."""
    everything = range(1, len(legs))
    table = {(1 << city, city): (legs[0][city], [0, city]) for city in everything}
    for size in range(2, len(legs)):
        wider: dict[tuple[int, int], tuple[int, Tour]] = {}
        for (seen, last), (cost, path) in table.items():
            for city in everything:
                state, longer = (seen | 1 << city, city), cost + legs[last][city]
                if not seen >> city & 1 and (state not in wider or longer < wider[state][0]):
                    wider[state] = (longer, [*path, city])
            if len(wider) > TABLE_STATES_MAX:
                raise SystemExit(f"gave up: the exact table passed {TABLE_STATES_MAX} states at {size} cities")
        table = wider
    found = min(table.items(), key=lambda entry: entry[1][0] + legs[entry[0][1]][0])[1][1] if table else best
    return min(best, found, key=lambda tour: length(legs, tour))


def save(tour: Sequence[int]) -> None:
    """Whole or not at all: a killed search leaves the tour that was there."""
    with open("tour.txt.new", "w", encoding="ascii") as out:
        out.writelines(f"{city}\n" for city in tour)
    os.replace("tour.txt.new", "tour.txt")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30, help="restarts")
    parser.add_argument("--seconds", type=float, default=2.0, help="stop early on a slow machine")
    parser.add_argument("--exact", choices=("order", "table"), help="an exact method instead of the search")
    return parser.parse_args()


def main() -> int:
    asked = options()
    legs = legs_between(read_cities())
    with open("tour.txt", encoding="ascii") as lines:
        tour = [int(word) for word in lines.read().split()]
    if asked.exact:
        found = (every_tour if asked.exact == "order" else exact_table)(legs, tour)
    else:
        found = search(
            legs, tour, seed=asked.seed, rounds=asked.rounds, seconds=asked.seconds, moves=MOVES, restart=RESTART
        )
    before, after = length(legs, tour), length(legs, found)
    if after < before:
        save(found)
    print(f"seed {asked.seed}: {before} -> {min(before, after)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
