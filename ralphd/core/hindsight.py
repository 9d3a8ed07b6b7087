"""Would more loops have helped? What fewer of them would have given is known, and tells more than a guess upwards."""

from __future__ import annotations

from math import comb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = 4  # loops with a score; fewer tell nothing about half of them


def expected_best(scores: Sequence[float], k: int, *, lower_is_better: bool = False) -> float:
    """Return the mean of the best score over every choice of ``k`` of the loops, ``1 <= k <= len(scores)``.

    The i-th best (from 0) is the best of a choice exactly when it is chosen and none better is:
    C(n - 1 - i, k - 1) of C(n, k) choices.
    """
    best_first = sorted(scores, reverse=not lower_is_better)
    n = len(best_first)
    return sum(score * comb(n - 1 - i, k - 1) for i, score in enumerate(best_first) if n - 1 - i >= k - 1) / comb(n, k)
