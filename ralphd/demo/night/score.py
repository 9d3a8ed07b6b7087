"""Is tour.txt a tour of all cities, and how long is it? Prints `length: N`, or says what is wrong and exits 1."""

from __future__ import annotations

import os
import re
import stat
import sys

TOUR_BYTES_MAX = 4096  # 52 numbers on 52 lines take 200


def read_cities(path: str = "cities.txt") -> list[tuple[int, int]]:
    with open(path, encoding="ascii") as lines:
        return [(int(x), int(y)) for x, y in (line.split() for line in lines if line.strip())]


def read_plain(path: str) -> bytes:
    """Read a small regular file; a link, a FIFO or a flood is refused before it is read."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError("is not a regular file")
        if facts.st_size > TOUR_BYTES_MAX:
            raise ValueError(f"has {facts.st_size} bytes, more than {TOUR_BYTES_MAX}")
        return os.read(fd, TOUR_BYTES_MAX)
    finally:
        os.close(fd)


def parse_tour(content: bytes, cities: int) -> list[int]:
    """City numbers 0 to cities-1, each once, between white space."""
    words = content.split()
    for word in words:
        if not re.fullmatch(rb"[0-9]{1,4}", word):
            raise ValueError(f"holds {word[:20]!r} where a city number belongs")
    tour = [int(word) for word in words]
    if beyond := sorted({city for city in tour if city >= cities}):
        raise ValueError(f"names city {beyond[0]}; the last one is {cities - 1}")
    if missing := sorted(set(range(cities)) - set(tour)):
        raise ValueError(f"leaves out {len(missing)} of {cities} cities, the first is {missing[0]}")
    if len(tour) != cities:
        raise ValueError(f"visits {len(tour)} cities where {cities} are due: one comes twice")
    return tour


def length(tour: list[int], cities: list[tuple[int, int]]) -> int:
    """TSPLIB's EUC_2D: each leg rounded to the nearest integer, the way home included."""
    total = 0
    for at, city in enumerate(tour):
        (ax, ay), (bx, by) = cities[tour[at - 1]], cities[city]
        total += int(((ax - bx) ** 2 + (ay - by) ** 2) ** 0.5 + 0.5)
    return total


def main() -> int:
    cities = read_cities()
    try:
        tour = parse_tour(read_plain("tour.txt"), len(cities))
    except (OSError, ValueError) as trouble:
        reason = trouble.strerror if isinstance(trouble, OSError) else trouble
        print(f"invalid: tour.txt {reason}", file=sys.stderr)
        return 1
    print(f"length: {length(tour, cities)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
