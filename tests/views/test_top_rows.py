"""What `ralphd top` shows, as values: who stands first, what fits, and what is written anew."""

from __future__ import annotations

import re

import pytest

from ralphd.views.status import HEADER, render_status, spark
from ralphd.views.text import width
from ralphd.views.top import Shown, column_widths, place_of, shown

LOOP = {
    "id": "fix-1", "state": "running", "trajectory": 3, "score": 9.0, "best_score": 12.5, "last_outcome": "done.next",
    "quiet_for_s": 75.0, "needs_person": False, "note": "",
}  # fmt: skip


def a_status(*loops: dict, **more) -> dict:
    night = {"id": "2026-11-30-a", "state": "running", "started_at": "2026-11-30T22:00:00Z", "ends_at": None}
    fleet = {"running": 1, "paused": 0, "waiting": 1, "verifying": 0, "submissions_per_h": 2.5}
    return {"night": night, "fleet": fleet, "daemon": {}, "loops": [{**LOOP, **loop} for loop in loops], **more}


def test_who_needs_a_person_stands_first_then_who_stands_still():
    status = a_status(
        {"id": "loop-10"},
        {"id": "loop-2", "state": "waiting"},
        {"id": "loop-3", "state": "stopped"},
        {"id": "loop-4", "state": "paused"},
        {"id": "loop-5", "state": "dead"},
        {"id": "loop-6", "state": "running", "needs_person": True, "note": "asks: may I?"},
    )
    assert shown(status).names == ("loop-6", "loop-5", "loop-4", "loop-2", "loop-10", "loop-3")


def test_status_and_top_say_the_same():
    """The sentences word for word, the loops in one order, the same cells."""
    status = a_status({"id": "a"}, {"id": "b", "needs_person": True, "note": "agent.waiting_for_input"})
    status["daemon"] = {"trouble": ["the disk is nearly full"]}
    status["fleet"] |= {"hours": 3.0, "throughput_per_h": 1.0, "gains": [0.0, 2.0, 1.0]}
    live, once = shown(status, 200), render_status(status, columns=200).splitlines()
    assert list(live.lines) == once[: len(live.lines)]
    assert [re.split(r"  +", line.strip()) for line in once[len(live.lines) + 1 :]] == [
        [cell.strip() for cell in row if cell.strip()] for row in live.rows
    ]
    assert "needs you: the agent waits for somebody to type" in once[-2]


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_a_row_fills_the_line_exactly(columns):
    status = a_status({"id": "loop-" + "x" * 30, "note": "名前 " * 40, "last_outcome": "inference.overloaded"})
    [row] = shown(status, columns).rows
    assert [width(cell) for cell in row] == list(column_widths(columns))
    assert sum(column_widths(columns)) + len(HEADER) == columns


def test_the_cursor_stays_with_its_loop():
    now = Shown(names=("c", "a", "b"))
    assert place_of("a", now, 0) == 1
    assert place_of("gone", now, 2) == 2
    assert place_of("gone", now, 7) == 2
    assert place_of("gone", Shown(), 7) == 0


def test_no_text_of_a_loop_or_a_trouble_keeps_an_escape():
    foul = "\x1b[2J\x1b]0;owned\x07x\u202e\r\nfix-9"
    status = a_status({"id": foul, "note": foul, "last_outcome": foul}, daemon={"trouble": [foul]})
    told = shown(status, 300)
    for text in (*told.lines, *told.rows[0]):
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", text)


def test_a_line_of_letters_shows_growth():
    assert spark([0, 1, 4, 8]) == " ▁▄█"
    assert spark([0, 0.001, 8]) == " ▁█"
    assert spark([]) == ""
    assert spark([0, 0]) == "  "
    assert spark([0, 8], "ascii") == " @"


def test_whatever_is_missing_does_no_harm():
    assert shown({}).rows == ()
    assert shown({"loops": [{}, 7], "fleet": 3, "night": []}).names == ("None",)
