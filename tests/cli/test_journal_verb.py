"""What ``ralphd journal`` tells of a journal, whatever is in it."""

from __future__ import annotations

import json
import os
import sqlite3

import pytest
from support.livenight import LiveNight

from ralphd.cli import shipped
from ralphd.core import actions, events, records
from ralphd.core.events import Entry
from ralphd.core.model import Loop, Task, Verdict, Verifier
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal

NIGHT = "2026-11-30-a"
HOSTILE = "\x1b]0;owned\x07\x1b[2Jred ü日\u202eevil\nnext"


def loop(name: str) -> Loop:
    return Loop(id=name, task="t", pod="pod-1", branch=f"ralphd/{NIGHT}/{name}", worktree="/w", folder="/f", nonce="n")


def ended(kind: Kind, *, claims: bool = False) -> records.TrajectoryEnded:
    return records.TrajectoryEnded(
        outcome=Outcome(kind=kind, detail={"code": 1}, evidence=(Evidence(what=HOSTILE, file="/log", start=1, end=9),)),
        head_before="a" * 40, head_after="b" * 40, claims_done=claims, usage=records.Usage(), compactions=None,
        seconds=1.0, attempts=1, calls=0, leftovers=0, log="/log",
    )  # fmt: skip


def verdict() -> Verdict:
    return Verdict(task="t", loop="loop-1", commit="b" * 40, tree="c" * 40, score=3.0, passed=True, why=HOSTILE)


@pytest.fixture
def told(tmp_path):
    """A night of two loops: a failure, an attempt, a claim that was refuted, an action, a verdict."""
    live = LiveNight(tmp_path)
    live.state.mkdir(mode=0o700)
    journal = Journal.open(str(live.state / "journal.db"), shipped.folder("migrations"), Redactor([]))
    task = Task(name="t", repository="/r", night_repository="/n", prompt="/p", base="a" * 40, verifier=Verifier())
    bodies: list[tuple[str, int, events.Body]] = [
        ("", 0, events.NightStarted(width=2, ends_at=None, version="0", config={})),
        ("", 0, events.TaskAdded(task=task)),
        ("loop-1", 0, events.LoopAdded(loop=loop("loop-1"))),
        ("loop-2", 0, events.LoopAdded(loop=loop("loop-2"))),
        ("loop-1", 1, records.AttemptEnded(attempt=2, outcome=Outcome(kind=Kind.OVERLOADED), wait_s=1.0)),
        ("loop-1", 1, ended(Kind.NEXT, claims=True)),
        ("loop-2", 1, ended(Kind.EXITED)),
        ("loop-1", 1, events.ClaimSettled(entry=6, outcome=Outcome(kind=Kind.FALSE_DONE, detail={"score": 3.0}))),
        ("", 0, events.ActionIntended(type="Pause", args={"loop": "loop-2", "now": False}, why=HOSTILE, by="operator")),
        ("", 0, events.ActionSettled(intent=9, result="failed", detail="no")),
        ("loop-1", 1, events.VerdictGiven(verdict=verdict(), submission=True)),
    ]
    entries = [
        Entry(at=1780000000.0 + n, night=NIGHT, loop=name, generation=1, trajectory=number, body=body)
        for n, (name, number, body) in enumerate(bodies)
    ]
    assert actions.Pause(loop="loop-2")
    assert [entry.id for entry in journal.append(entries)] == list(range(1, 12))
    journal.close()
    return live


def test_outcomes_have_the_promised_fields(told):
    """One line an outcome; an attempt says which; a settled claim is told once, as what it came to."""
    attempt, claim, failure = told.journal("outcomes")
    fields = {
        "id",
        "at",
        "night",
        "loop",
        "generation",
        "trajectory",
        "kind",
        "charge",
        "contamination",
        "response",
        "detail",
        "evidence",
    }
    assert set(failure) == fields
    assert set(attempt) == fields | {"attempt"}
    assert (attempt["kind"], attempt["attempt"]) == ("inference.overloaded", 2)
    assert (claim["id"], claim["kind"], claim["detail"]) == (6, "verify.false_done", {"score": 3.0})
    assert (failure["kind"], failure["charge"], failure["response"]) == ("agent.exited", "loop", "next")
    assert failure["at"] == "2026-05-28T20:26:46.000Z"
    assert failure["evidence"] == [{"what": HOSTILE, "file": "/log", "start": 1, "end": 9}]


def test_a_loop_can_be_picked_out(told):
    """Its outcomes, and the actions that name it in their arguments only."""
    assert [line["id"] for line in told.journal("outcomes", "--loop", "loop-2")] == [7]
    (action,) = told.journal("actions", "--loop", "loop-2")
    assert (action["action"], action["by"], action["result"], action["detail"]) == ("Pause", "operator", "failed", "no")
    assert told.journal("actions", "--loop", "loop-1") == []


def test_verdicts_and_entries(told):
    """A verdict with whether it was a submission; entries are everything."""
    (line,) = told.journal("verdicts")
    assert (line["loop"], line["score"], line["submission"], line["kind"]) == ("loop-1", 3.0, True, None)
    lines = told.journal("entries")
    assert [line["id"] for line in lines] == list(range(1, 12))
    assert lines[4]["body"]["attempt"] == 2


@pytest.mark.parametrize("what", ["outcomes", "actions", "verdicts", "entries"])
def test_hostile_text_reaches_no_terminal(told, what):
    """No escape, no direction change, no line of its own."""
    text = told.good("journal", what)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == len(told.journal(what))
    assert "red" in text


def test_an_unknown_night_or_loop(told):
    """Exit 3, naming those there are."""
    for args, known in ((("--night", "x"), NIGHT), (("--loop", "x"), "loop-1, loop-2")):
        done = told.ralphd("journal", *args)
        assert done.returncode == 3
        assert known in done.stderr


def test_rows_that_nobody_understands_are_counted(told):
    """A newer ralphd's rows don't hide the others."""
    with sqlite3.connect(told.state / "journal.db") as db:
        db.execute("update entry set type = 'Novelty' where id = 7")
    done = told.ralphd("journal", "entries")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 10
    assert "1 entries of the journal can't be read" in done.stderr


@pytest.mark.parametrize("verb", ["journal", "report", "status"])
def test_a_broken_journal_is_one_line(told, verb):
    """Garbage in its place: what failed is said, and nothing is thrown at the person."""
    path = told.state / "journal.db"
    for name in ("journal.db-wal", "journal.db-shm"):
        (told.state / name).unlink(missing_ok=True)
    path.write_bytes(b"this is no database" * 1000)
    done = told.ralphd(verb)
    assert done.returncode in {1, 3}, done
    assert "journal.db" in done.stderr
    assert "`ralphd start` sets it aside" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_leaves_is_no_failure(told):
    """`ralphd journal entries | head -1`: exit 0 and silence."""
    reading, writing = os.pipe()
    os.close(reading)
    done = told.ralphd("journal", "entries", capture_output=False, stdout=writing, stderr=-1)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "setting", [{"PYTHONIOENCODING": "ascii"}, {"LANG": "C", "LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}], ids=str
)
@pytest.mark.parametrize(
    "args",
    [("journal", "entries"), ("report",), ("report", "--markdown"), ("--help",), ("journal", "--loop", "ö")],
    ids=" ".join,
)
def test_no_encoding_stops_it(told, setting, args):
    """A letter that the terminal lacks is shown as something else."""
    done = told.ralphd(*args, env=setting, text=False)
    assert done.returncode == (3 if "ö" in args else 0), done
    assert b"Traceback" not in done.stderr


def test_a_closed_stdout_is_survived(told):
    """As cron may do it."""
    done = told.ralphd("journal", preexec_fn=lambda: os.close(1), capture_output=False, stderr=-1)
    assert (done.returncode, done.stderr) == (0, "")


def test_json_is_ascii(told):
    """So that it survives any pipe."""
    text = told.good("journal", "outcomes", "--json")
    assert text.isascii()
    assert HOSTILE in json.loads(text.splitlines()[-1])["evidence"][0]["what"]


def test_where_nothing_of_a_sort_is_recorded_that_is_said(told):
    """On stderr: what is piped on stays empty."""
    done = told.ralphd("journal", "verdicts", "--loop", "loop-2")
    assert done.stdout == ""
    assert f"no verdicts of loop-2 in night {NIGHT} are recorded" in done.stderr
