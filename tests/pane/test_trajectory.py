"""Which session the next attempt takes up."""

from __future__ import annotations

import pytest

from ralphd.agents import Tells
from ralphd.core.reading import Reading
from ralphd.core.signals import Began, Called, Said
from ralphd.pane.trajectory import Trajectory

RESUMES = Tells(tokens=True, compactions=False, partial=False, resume=True)
KEEPS_FROM_CALL = Tells(tokens=True, compactions=False, partial=False, resume=True, kept_from_call=True)
NEVER = Tells(tokens=True, compactions=False, partial=False, resume=False)


@pytest.fixture
def running(tmp_path):
    trajectory = Trajectory(str(tmp_path), 1, 1, head="", prompt=b"")
    yield trajectory
    trajectory.close()


def reading(*signals) -> Reading:
    told = Reading()
    for signal in signals:
        told.add(signal)
    return told


def test_the_session_that_the_cli_named_is_taken_up(running):
    running.take_up(reading(Began(session="its-own")), RESUMES)
    assert (running.resumes, running.session) == (True, "its-own")


def test_one_that_never_began_is_begun_afresh_under_another_name(running):
    before = running.session
    running.take_up(reading(), RESUMES)
    assert not running.resumes
    assert running.session != before


def test_a_cli_that_keeps_no_session_before_a_call_begins_afresh_until_then_and_goes_on_after(running):
    running.take_up(reading(Began(session="one"), Said(text="hm")), KEEPS_FROM_CALL)
    assert (running.resumes, running.session == "one") == (False, False)
    running.take_up(reading(Began(session="two"), Called(id="1", tool="shell")), KEEPS_FROM_CALL)
    assert (running.resumes, running.session) == (True, "two")
    running.take_up(reading(Began(session="two")), KEEPS_FROM_CALL)
    assert (running.resumes, running.session) == (True, "two")


def test_a_cli_that_resumes_nothing_begins_afresh(running):
    running.take_up(reading(Began(session="one"), Called(id="1", tool="shell")), NEVER)
    assert not running.resumes
