"""Holds the cities of TSPLIB's berlin52, how far apart they are, and how long a tour of them is."""

from __future__ import annotations

from collections.abc import Sequence

OPTIMUM = 7542  # proven by TSPLIB; tests/demo shows that no tour can be shorter

CITIES: tuple[tuple[int, int], ...] = (
    (565, 575), (25, 185), (345, 750), (945, 685), (845, 655), (880, 660), (25, 230), (525, 1000), (580, 1175),
    (650, 1130), (1605, 620), (1220, 580), (1465, 200), (1530, 5), (845, 680), (725, 370), (145, 665), (415, 635),
    (510, 875), (560, 365), (300, 465), (520, 585), (480, 415), (835, 625), (975, 580), (1215, 245), (1320, 315),
    (1250, 400), (660, 180), (410, 250), (420, 555), (575, 665), (1150, 1160), (700, 580), (685, 595), (685, 610),
    (770, 610), (795, 645), (720, 635), (760, 650), (475, 960), (95, 260), (875, 920), (700, 500), (555, 815),
    (830, 485), (1170, 65), (830, 610), (605, 625), (595, 360), (1340, 725), (1740, 245),
)  # fmt: skip


def distance(a: int, b: int) -> int:
    """EUC_2D of TSPLIB: the straight line between two cities (0..51), rounded to the nearest integer."""
    (ax, ay), (bx, by) = CITIES[a], CITIES[b]
    return int(((ax - bx) ** 2 + (ay - by) ** 2) ** 0.5 + 0.5)


def length(tour: Sequence[int]) -> int:
    """Add up the closed tour's legs, the way home included."""
    return sum(distance(tour[at - 1], tour[at]) for at in range(len(tour)))
