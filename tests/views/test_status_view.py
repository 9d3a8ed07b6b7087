from __future__ import annotations

import pytest

from ralphd.views.status import render_status

LOOP = {
    "id": "fix-1", "task": "main", "pod": "", "state": "running", "generation": 1, "trajectory": 3, "pid": 12, "pane": "%1",
    "worktree": "/w", "branch": "b", "head": "c", "score": 9.0, "best_score": 12.5, "compactions": 0, "tokens_in": 5,
    "tokens_out": 6, "last_outcome": "done.next", "quiet_for_s": 75.0, "note": "",
}  # fmt: skip
STATUS = {
    "schema": "ralphd.status/1",
    "daemon": {"pid": 1, "version": "0.1", "started_at": "2026-11-30T22:00:00Z"},
    "night": {"id": "2026-11-30-a", "state": "running", "started_at": "2026-11-30T22:00:00Z", "ends_at": None, "width": 2},
    "loops": [
        LOOP,
        {
            **LOOP, "id": "fix-2", "state": "waiting", "score": None, "best_score": None, "last_outcome": None, "quiet_for_s": None,
            "note": "inference.quota until 03:00",
        },
    ],
    "fleet": {"running": 1, "paused": 0, "waiting": 1, "verifying": 0, "throughput_per_h": 1.0, "submissions_per_h": 2.5},
}  # fmt: skip

TEXT = """\
Night 2026-11-30-a running, since 2026-11-30 22:00 UTC, until stopped.
1 running, 0 paused, 1 waiting, 0 verifying; 2.5 submissions an hour.
Nothing needs you.
loop   state    score  best  sess  last outcome  quiet  note
fix-1  running      9  12.5     3  done.next        1m
fix-2  waiting      -     -     3  -                 -
    the account's quota is used up until 03:00
"""


def test_a_line_a_loop_that_fits_the_terminal_and_below_it_a_note_that_does_not():
    assert render_status(STATUS, columns=72) == TEXT


def test_there_is_room_for_the_whole_note_in_a_wider_one():
    assert "  the account's quota is used up until 03:00\n" in render_status(STATUS, columns=120)
    assert "\n    the" not in render_status(STATUS, columns=120)


def test_whatever_is_missing_is_a_dash():
    assert render_status({}).startswith("Night - -, since -, until stopped.")
    assert "\nx " in render_status({"loops": [{"id": "x"}, 7], "night": 3, "fleet": None})


def test_a_note_of_a_hostile_loop_can_not_leave_its_line():
    status = {**STATUS, "loops": [{**LOOP, "note": "\x1b[2J\nfix-9 running\u202e"}]}
    text = render_status(status, encoding="ascii")
    assert "\x1b" not in text
    assert "\nfix-9" not in text


def test_what_needs_a_person_stands_above_the_loops():
    status = {**STATUS, "daemon": {"trouble": ["the verifier of main can't judge the start: exit status 127"]}}
    assert "Needs you: the verifier of main can't judge the start" in render_status(status)


@pytest.mark.parametrize(
    "more",
    [
        {"daemon": {"trouble": ["the disk is full"]}},
        {"loops": [{**LOOP, "needs_person": True}]},
        {"loops": []},
        {"night": {**STATUS["night"], "state": "ending"}},
        {"fleet": {**STATUS["fleet"], "budget_spent": True}},
    ],
)
def test_it_says_that_nothing_needs_a_person_only_where_that_is_so(more):
    assert "\nNothing needs you.\n" in render_status(STATUS)
    assert "Nothing needs you" not in render_status({**STATUS, **more})


def test_of_a_night_that_has_only_begun_the_submissions_are_counted():
    """After two minutes an hourly figure is thirty times what there is."""
    fleet = {**STATUS["fleet"], "hours": 0.05, "submissions_per_h": 1240.0}
    assert "; 62 submissions so far." in render_status({**STATUS, "fleet": fleet})
    assert "; 1 submission so far." in render_status({**STATUS, "fleet": {**fleet, "submissions_per_h": 20.0}})


def test_a_note_names_kinds_in_words():
    status = {**STATUS, "loops": [{**LOOP, "note": "waits 40 s: inference.overloaded", "needs_person": True}]}
    assert "needs you: waits 40 s: the model's server is overloaded" in render_status(status)


def test_the_end_of_a_night_is_told_with_its_date_only_where_that_is_another():
    night = {"id": "n", "state": "running", "started_at": "2026-11-30T22:00:00.123Z"}
    assert "22:00 UTC, until 23:00 UTC." in render_status({"night": {**night, "ends_at": "2026-11-30T23:00:00.000Z"}})
    assert "until 2026-12-01 07:00 UTC" in render_status(
        {"night": {**night, "ends_at": "2026-12-01T07:00:00.000Z"}}, columns=99
    )


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(520.274, "520"), (38.4051, "38.4"), (0.0123456, "0.0123"), (0, "0"), (99.96, "100"), (None, "-")],
)
def test_a_rate_has_no_more_digits_than_a_few_submissions_can_tell(rate, shown):
    status = {**STATUS, "fleet": {**STATUS["fleet"], "submissions_per_h": rate}}
    assert f"; {shown} submissions an hour." in render_status(status, columns=72)
