from __future__ import annotations

from ralphd.core.model import is_loop_id
from ralphd.core.nights import next_night_id


def test_the_first_night_of_a_day_is_a():
    assert next_night_id("2026-11-30", ["2026-11-29-a", "2026-11-29-b"]) == "2026-11-30-a"


def test_a_night_never_takes_a_name_that_is_taken():
    taken = []
    for _ in range(60):
        taken.append(next_night_id("2026-11-30", taken))
    assert taken[1] == "2026-11-30-b"
    assert taken[25:28] == ["2026-11-30-z", "2026-11-30-aa", "2026-11-30-ab"]
    assert len(set(taken)) == 60
    assert all(map(is_loop_id, taken))
