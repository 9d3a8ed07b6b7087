"""The golden files beside this one are what a person reads. To change them: look at the difference, then copy it over."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.nights import Night, a_bare_night, a_good_night, a_null_night, commit

from ralphd.core import events, records
from ralphd.core.actions import ASKED, Pause, RestartLoop, StopLoop
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.report import report, to_json
from ralphd.views import figures, kinds, markdown, phrases, terminal
from ralphd.views.text import width

GOLDEN = Path(__file__).parent / "golden"
NIGHTS = {"good": a_good_night, "bare": a_bare_night, "null": a_null_night}
HOSTILE = "\x1b[2J\x1b]0;owned\x07| `x` <b>@ann</b>\u202e\u200b\n# [a](http://evil)\ud83d 🦊 日本"


def told(night):
    return report(night.entries, 0.0)


def hostile_night():
    night = Night()
    night.started()
    night.task(HOSTILE)
    night.loop("fix-1", task=HOSTILE)
    night.verdict(1.0, task=HOSTILE)
    night.verdict(2.0, "fix-1", 1, of=HOSTILE, task=HOSTILE)
    evidence = (Evidence(what=HOSTILE, file=f"/x/{HOSTILE}", start=1, end=2),)
    night.ended("fix-1", 1, Kind.EXITED, evidence=evidence)
    night.say(
        records.Repaired(outcome=Outcome(kind=Kind.STALE_LOCK, evidence=evidence), what=HOSTILE, ref=HOSTILE),
        "fix-1",
        1,
    )
    night.say(events.ActionIntended(type=HOSTILE, args={}, why=HOSTILE, by=HOSTILE), HOSTILE)
    night.say(events.NightEnded(why=HOSTILE))
    return night


@pytest.mark.parametrize("name", NIGHTS)
def test_the_report_in_a_terminal(name):
    assert terminal.render_report(told(NIGHTS[name]())) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", NIGHTS)
def test_the_report_as_markdown(name):
    assert markdown.render_report(told(NIGHTS[name]())) == (GOLDEN / f"{name}.md").read_text()


def test_the_report_as_json():
    assert to_json(told(a_good_night())) == json.loads((GOLDEN / "good.json").read_text())


def test_the_first_line_says_what_is_better_by_how_much_and_which_commit():
    first = terminal.render_report(told(a_good_night())).splitlines()[0]
    assert "better by 5, from 7 to 12" in first
    assert commit(4)[:12] in first


def test_a_night_that_improved_nothing_says_so_first():
    text = terminal.render_report(told(a_null_night()))
    assert text.startswith("main: nothing got verifiably better")
    assert "\nspeed: nothing got verifiably better" in text.split("\n\n")[0]


def test_without_a_verifier_the_first_word_is_unverified():
    assert terminal.render_report(told(a_bare_night())).startswith("main: unverified.")


def test_a_refused_key_is_one_loud_line_near_the_top():
    first = terminal.render_report(told(a_bare_night())).splitlines()[:4]
    assert "Needs you: the credential was refused, 1 time, in go-1 (inference.auth)." in first


def test_an_empty_night_has_a_report():
    assert terminal.render_report(report([], 0.0)).startswith("Nothing got better: this night had no task.")


@pytest.mark.parametrize("night", [a_good_night, a_bare_night, a_null_night, hostile_night])
def test_a_terminal_of_80_columns_is_enough_but_for_what_is_copied(night):
    for line in terminal.render_report(told(night())).splitlines():
        assert width(line) <= 80 or " " not in line.strip() or line.startswith("    git ")


def test_loops_with_the_longest_ids_fit():
    night = Night()
    night.started()
    night.task()
    night.loop("a" * 40)
    lines = terminal.render_report(told(night)).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("a" * 30) for line in lines)


def test_nothing_foreign_reaches_the_terminal_as_control():
    text = terminal.render_report(told(hostile_night()))
    assert "owned" not in text
    assert all(char == "\n" or char.isprintable() for char in text)
    assert not any(line.startswith("# [a]") for line in text.splitlines())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", None])
def test_an_encoding_that_lacks_a_letter_gets_a_question_mark(encoding):
    text = terminal.render_report(told(hostile_night()), encoding=encoding)
    text.encode(encoding or "ascii")
    assert "?" in text


def test_utf_8_can_always_be_written():
    for text in (terminal.render_report(told(hostile_night())), markdown.render_report(told(hostile_night()))):
        assert text.encode().decode() == text


def test_bold_is_asked_for_and_says_nothing_of_its_own():
    value = told(a_good_night())
    bold = terminal.render_report(value, bold=True)
    assert bold.startswith("\x1b[1mmain: better")
    assert bold.replace("\x1b[1m", "").replace("\x1b[0m", "") == terminal.render_report(value)


def test_foreign_text_stays_text_in_markdown():
    text = markdown.render_report(told(hostile_night()))
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("  - `"))
    for markup in (r"(?<!\\)<b", "@ann", r"(?<!\\)\]\(", "http://evil", r"\n# \[a"):
        assert not re.search(markup, prose)
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in tables}) == 1


def test_a_backtick_can_not_leave_its_code():
    (place,) = {
        line for line in markdown.render_report(told(hostile_night())).splitlines() if line.startswith("  - ``")
    }
    assert place.startswith("  - `` ")
    assert place.endswith(" ``")


def test_a_gap_that_many_loops_share_is_told_once():
    night = Night()
    night.started()
    night.task()
    for number in range(40):
        night.ended(f"fix-{number}", 1, tokens=None)
    text = terminal.render_report(told(night))
    assert "40 loops: the tokens of 40 sessions; the agent didn't tell." in " ".join(text.split())


def test_times_that_no_calendar_has_are_question_marks():
    night = Night()
    night.now = 1e300
    night.started()
    assert "began ?" in terminal.render_report(told(night))


def test_a_night_of_less_than_a_minute_is_told_in_seconds():
    assert phrases.hours(25 / 3600) == "25 seconds"
    assert phrases.hours(90 / 3600) == "2 minutes"


def test_what_the_operator_asked_for_needs_no_other_reason():
    night = Night()
    night.started()
    night.task("main")
    night.say(events.ActionIntended(type="Pause", args={"loop": "l1"}, why=ASKED, by="operator"), "l1")
    assert "operator: pause l1; no result recorded\n" in terminal.render_report(told(night))


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        (records.Usage(tokens_in=2_500_000, tokens_out=80_000, cost_usd=1234.5), "2.5M tokens in, 80k out; $1,234.50."),
        (
            records.Usage(tokens_in=900, tokens_out=10, model="m"),
            "900 tokens in, 10 out; about $0.0020, some of it by list prices.",
        ),
        (records.Usage(tokens_in=900, tokens_out=10, cost_usd=0.0), "900 tokens in, 10 out; $0.00."),
        (records.Usage(tokens_in=900, tokens_out=10), "900 tokens in, 10 out; what they cost is not known."),
        (records.Usage(), None),
    ],
)
def test_a_person_reads_what_the_night_cost_and_how_that_is_known(usage, line):
    night = Night()
    night.started()
    night.task()
    night.ended("fix-1", 1, usage=usage)
    made = report(night.entries, 0.0, price=lambda told: 0.002 if told.model else None)
    for text in (terminal.render_report(made), markdown.render_report(made)):
        plain = " ".join(text.replace("\\", "").split())
        assert line in plain if line else "tokens in," not in plain


def test_what_clients_asked_again_by_themselves_is_added_up():
    night = a_good_night()
    for count in (3, 4):
        retries = {"overloaded": count, "connection": 1, "waited_s": 40.5}
        outcome = Outcome(kind=Kind.NEXT, detail={"own_retries": retries})
        ended = next(entry.body for entry in night.entries if isinstance(entry.body, records.TrajectoryEnded))
        night.say(replace(ended, outcome=outcome), "fix-1", 10 + count)
    night.say(replace(ended, outcome=Outcome(kind=Kind.NEXT, detail={"own_retries": "odd"})), "fix-1", 20)
    value = told(night)
    assert to_json(value)["own_retries"] == {"counts": {"connection": 2, "overloaded": 7}, "waited_s": 81.0}
    text = " ".join(terminal.render_report(value).split())
    assert "own clients asked again 9 times (connection 2, overloaded 7), and waited 1 minute for that." in text


def test_what_was_decided_of_several_loops_at_once_is_one_line():
    night = Night()
    night.started()
    night.task()
    at = night.now
    for loop in ("fix-1", "fix-2", "fix-10"):
        night.now = at
        night.acted(Pause(loop=loop), loop, "the credential was refused")
    for loop in ("fix-1", "fix-2", "fix-10"):
        night.acted(StopLoop(loop=loop, now=True), loop, "the night ends")
    for _ in range(2):
        night.now = at + 600
        night.acted(RestartLoop(loop="fix-1"), "fix-1", "it hangs")
    text = " ".join(terminal.render_report(told(night)).split())
    assert "policy: pause fix-1, fix-2, fix-10: the credential was refused; done" in text
    assert "policy: restart fix-1: it hangs; done, 2 times Not listed" in text
    assert "Not listed: 3 routine starts, stops and verifications" in text


def test_gains_of_several_tasks_are_not_added_up():
    """They have no unit in common."""
    night = Night()
    night.started()
    for task, start, best in (("main", 7.0, 12.0), ("speed", 100.0, 250.0)):
        night.task(task)
        night.loop(task, task=task)
        night.verdict(start, task=task)
        night.verdict(best, task, 1, of=commit(2), task=task, submission=True)
    text = terminal.render_report(told(night))
    assert "main: better by 5" in text
    assert "speed: better by 150" in text
    assert "155" not in text


def test_a_sum_that_lacks_what_some_sessions_cost_is_told_as_the_least_that_it_may_be():
    night = Night()
    night.say(events.NightStarted(width=2, ends_at=None, version="0.1", config={"budget_usd": 20.0}))
    night.task()
    night.ended("fix-1", 1, usage=records.Usage(tokens_in=900, tokens_out=10, cost_usd=2.5))
    night.ended("fix-2", 1, usage=records.Usage(tokens_in=900, tokens_out=10))
    text = " ".join(terminal.render_report(told(night)).split())
    assert "20 out; at least $2.50." in text
    assert "Of the budget of $20.00 the night spent at least $2.50." in text
    assert "fix-2: what 1 session cost; neither the agent nor a price list tells." in text


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_plain_words(kind):
    assert kinds.plainly(kind.value) == kinds.PLAIN[kind] != kind.value
    assert kinds.in_words(f"waits: {kind.value}.") == f"waits: {kinds.PLAIN[kind]}."


@pytest.mark.parametrize(("goal", "is_drawn"), [(15.0, True), (500.0, False), (-500.0, False)])
def test_a_goal_that_is_far_away_does_not_press_the_scores_flat(goal, is_drawn):
    night = Night()
    night.started()
    night.task(goal=goal)
    night.loop("fix-1")
    for number, score in enumerate((7.0, 9.0, 12.0), 1):
        night.verdict(score, "" if number == 1 else "fix-1", number, of=commit(number), submission=number > 1)
    made = told(night)
    drawn = figures.scores(made, made.tasks[0])
    heights = [float(y) for y in re.findall(r'class="dot" cx="[0-9.]+" cy="([0-9.]+)"', drawn)]
    assert max(heights) - min(heights) > 60
    assert ("far" not in drawn) == is_drawn == ('class="goal"' in drawn)
