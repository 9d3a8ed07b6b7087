"""What a damaged journal could not give back is in the report, with where to look."""

from __future__ import annotations

import json

import pytest
from support.nights import Night

from ralphd.core import codec, events
from ralphd.core.losses import Loss, loss_in, outcome_of_loss, sentence
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.report import report
from ralphd.views import markdown

LOSS = Loss(
    why="the journal j could not be used: it is damaged",
    first_id=601,
    last_id=801,
    since=1796076000.0,
    until=1796076900.0,
    set_aside="/s/journal.db.corrupt-1",
    backup="/s/backups/journal-1.db",
    saved=150,
)


def test_a_loss_survives_the_journal():
    stored = json.loads(json.dumps(codec.dump(outcome_of_loss(LOSS))))
    back = loss_in(codec.load(Outcome, stored))
    assert back is not None
    assert (back.first_id, back.last_id, back.count) == (601, 801, 51)
    assert (back.since, back.until, back.set_aside, back.backup) == (
        LOSS.since,
        LOSS.until,
        LOSS.set_aside,
        LOSS.backup,
    )


@pytest.mark.parametrize(
    "outcome", [Outcome(kind=Kind.JOURNAL_ERROR), Outcome(kind=Kind.NEXT, detail={"lost_from_id": 1})]
)
def test_another_outcome_tells_of_no_loss(outcome):
    assert loss_in(outcome) is None


def test_the_sentence_names_the_cause_the_file_the_backup_and_what_is_gone():
    said = sentence(LOSS)
    for part in ("damaged", LOSS.set_aside, LOSS.backup, "601 to 801 but for 150 of them"):
        assert part in said
    assert "an unknown end" in sentence(Loss(why="it was gone", first_id=1))


def test_the_report_says_what_is_not_known():
    night = Night()
    night.started()
    night.say(events.OutcomeNoted(outcome=outcome_of_loss(LOSS)))
    night.over()
    made = report(iter(night.entries), night.now, lambda: 0)
    assert made.unknown[0].what == "journal_lost"
    assert made.unknown[0].count == 51
    text = markdown.render_report(made)
    known = text[text.index("What is not known") :]
    assert "2026-11-30T22:00" in known
    assert "601 to 801" in known
    assert LOSS.set_aside in text
