"""Signs of life that newer ones outdate are not read when a night is taken up, and nothing else comes of it."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nights import Night

from ralphd.cli import shipped
from ralphd.core import events, records
from ralphd.core.events import Body, Entry
from ralphd.core.fold import fold
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal, JournalReader
from ralphd.edges.journal_schema import row_of
from ralphd.edges.journal_signs import newest_signs

LOOPS = ("loop-1", "loop-2")


def sign(tokens: int, waits: str = "", asks: str = "") -> records.Progressed:
    usage = records.Usage(tokens_in=tokens, tokens_out=tokens)
    return records.Progressed(
        usage=usage, compactions=0, output_bytes=tokens, calls=0, quiet_for_s=0.5, client_waits=waits, asks=asks
    )


def noted(kind: Kind, **detail: object) -> events.OutcomeNoted:
    return events.OutcomeNoted(outcome=Outcome(kind=kind, detail=detail))


def a_start() -> records.TrajectoryStarted:
    return records.TrajectoryStarted(head="c", log="l", prompt_sha256="p", prompt_bytes=1)


SIGNS = st.builds(sign, st.integers(0, 3), st.sampled_from(["", "", "overloaded"]), st.sampled_from(["", "", "sure?"]))
TOLD = st.one_of(
    SIGNS,
    SIGNS,
    SIGNS,
    st.sampled_from(
        [
            records.Waiting(kind="inference.overloaded", until=5.0),
            records.Resumed(),
            records.Held(kind="", why="paused"),
            records.AgentStarted(pid=1, start_ticks=1, attempt=1),
            records.TrajectoryStarted(head="c", log="l", prompt_sha256="p", prompt_bytes=1),
            records.AttemptEnded(attempt=1, outcome=Outcome(kind=Kind.OVERLOADED), wait_s=1.0),
        ]
    ),
)
SAID = st.sampled_from(
    [
        ("", noted(Kind.SHARED_CAUSE, loops=list(LOOPS), error="the same")),
        ("", noted(Kind.CLOCK_JUMP, seconds=7.0)),
        ("loop-1", noted(Kind.PANE_LOST)),
        ("loop-2", noted(Kind.SPAWN_FAILED)),
    ]
)
STEP = st.one_of(st.tuples(st.sampled_from(LOOPS), TOLD), st.tuples(st.sampled_from(LOOPS), TOLD), SAID)


def a_night(steps: list[tuple[str, Body]]) -> Night:
    night, trajectories = Night(), Counter[str]()
    night.started()
    night.task()
    for loop in LOOPS:
        night.loop(loop)
    for loop, body in steps:
        trajectories[loop] += isinstance(body, records.TrajectoryStarted)
        night.say(body, loop, trajectories[loop])
    return night


def left_of(entries: list[Entry]) -> list[Entry]:
    """What is left of them when they are read as the journal's rows."""
    rows = [SimpleNamespace(id=entry.id, **row_of(entry, Redactor())) for entry in entries]
    by_id = {entry.id: entry for entry in entries}
    return [by_id[row.id] for row in newest_signs(rows)]


@given(steps=st.lists(STEP, max_size=40))
def test_a_fold_without_outdated_signs_comes_to_the_same_state(steps: list[tuple[str, Body]]) -> None:
    entries = a_night(steps).entries
    left = left_of(entries)
    assert fold(left) == fold(entries)
    assert [e for e in left if e.body.__class__ is not records.Progressed] == [
        e for e in entries if e.body.__class__ is not records.Progressed
    ]


def test_of_a_long_session_one_sign_is_read(tmp_path: Path) -> None:
    path, start = str(tmp_path / "journal.db"), ("loop-1", a_start())
    night = a_night([start, ("loop-2", a_start()), *[(loop, sign(n)) for n in range(2500) for loop in LOOPS]])
    with closing(Journal.open(path, shipped.folder("migrations"), Redactor())) as journal:
        journal.append(night.entries)
    with closing(JournalReader.open(path)) as reader:
        read = list(reader.condensed(night.night))
        assert fold(read) == fold(reader.entries(night.night))
    assert [e.body.usage.tokens_in for e in read if isinstance(e.body, records.Progressed)] == [2499, 2499]


@pytest.mark.parametrize(
    "between",
    [
        sign(2, waits="overloaded"),
        sign(2, asks="Continue?"),
        records.AttemptEnded(attempt=1, outcome=Outcome(kind=Kind.OVERLOADED), wait_s=1.0),
        noted(Kind.PANE_LOST),
    ],
)
def test_a_sign_is_kept_where_what_comes_next_builds_on_it(between: Body) -> None:
    night = a_night([("loop-1", a_start()), ("loop-1", sign(1)), ("loop-1", between)])
    assert left_of(night.entries) == night.entries
