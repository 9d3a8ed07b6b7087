"""Recordings of the real CLIs: each ends in the kind, tokens and compactions that a person reviewed."""

from __future__ import annotations

import pytest
from support.recordings import CLIS, NAMES, about, cli_of, expectation, facts, marked, stream, told

from ralphd.core.classify import classify


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_ends_as_reviewed(name):
    expected = expectation(name)
    assert told(name, stream(name))[:5] == (
        expected["kind"],
        expected["tokens_in"],
        expected["tokens_out"],
        expected["compactions"],
        expected["calls"],
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_evidence_of_a_failure_is_where_it_says(name):
    data = stream(name)
    known = facts(name, data, expectation(name))
    for evidence in classify(known).evidence:
        if evidence.file == known.log and known.reading.failed is not None:
            assert marked(name, data[evidence.start : evidence.end])


@pytest.mark.parametrize("cli", CLIS)
def test_there_are_recordings_of(cli):
    assert len([name for name in NAMES if cli_of(name) == cli]) >= about(cli)["at_least"]
