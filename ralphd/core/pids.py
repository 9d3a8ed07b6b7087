"""In which order process ids have to be looked at, so that nobody slips through who forks all the time."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TURNS, PIDS = 20, 1000  # after the processes that began during a look, and how many of them in each turn


def all_in_turn(listed: set[int], newest: Callable[[], int], *, before: int) -> Iterator[int]:
    """Yield the ids in ``listed``, the newest first, then those that began meanwhile.

    A chain of processes that each start the next and end is never where one looked: it is met where it goes on.
    ``newest`` tells the id that the kernel gave last (0: it doesn't say), ``before`` is what that was when the list
    was made. Each id is to be looked at as it comes.
    """
    yield from sorted(listed, reverse=True)
    for _ in range(TURNS):
        now = newest()
        if now == before:
            return
        lowest = before if before < now else 0  # less than before: the kernel began again from the smallest
        yield from (pid for pid in range(now, max(lowest, now - PIDS), -1) if pid not in listed)
        before = now
