"""The report says what the supervisor's model was asked, what was taken, and whether loops did better after than before."""

from __future__ import annotations

from support.nights import Night, commit

from ralphd.core import events
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.report import report, to_json
from ralphd.views import markdown, terminal


def consulted(**known):
    given = {"model": "some-model", "trouble": "t", "prompt_sha256": "0" * 64, "offered": ("carry_on", "pause"), "choice": "carry_on",
             "evidence": (3,), "why": "so", "taken": True, "tokens_in": 900, "tokens_out": 60}  # fmt: skip
    return events.Consulted(**{**given, **known})


def night(*, model: str = "some-model") -> Night:
    made = Night()
    made.say(events.NightStarted(width=2, ends_at=None, version="0", config={"supervisor": model}))
    made.task()
    for name in ("fix-1", "fix-2", "fix-3"):
        made.loop(name)
    made.verdict(7.0)
    return made


def advised() -> Night:
    """One loop gains nothing in three sessions, is advised, and gains twice; one gains by itself; one is never advised."""
    made = night()
    for number in (1, 2, 3):
        made.ended("fix-1", number)
    made.say(consulted(choice="restart_clean"), "fix-1", 4)
    for number in (4, 5):
        made.ended("fix-1", number, after=commit(number))
        made.verdict(float(number + 4), "fix-1", number, of=commit(number), submission=True)
    made.say(consulted(taken=False, refused="supervisor.invalid", reason="prose", choice=""), "fix-1", 5)
    made.ended("fix-2", 1, after=commit(20))
    made.verdict(9.5, "fix-2", 1, of=commit(20), submission=True)
    made.ended("fix-3", 1)
    made.over()
    return made


def part(made: Night):
    return to_json(report(made.entries, 0.0))["advice"]


def test_loops_are_compared_before_and_after_and_with_the_rest():
    told = part(advised())
    assert (told["model"], told["asked"], told["taken"]) == ("some-model", 2, 1)
    assert told["choices"] == {"restart_clean": 1}
    assert told["refused"] == {"supervisor.invalid": 1}
    assert (told["tokens_in"], told["tokens_out"]) == (1800, 120)
    assert told["before"] == {"loops": 1, "sessions": 3, "submissions": 0, "submissions_per_session": 0.0}
    assert told["after"] == {"loops": 1, "sessions": 2, "submissions": 2, "submissions_per_session": 1.0}
    assert told["others"] == {"loops": 2, "sessions": 2, "submissions": 1, "submissions_per_session": 0.5}
    text = terminal.render_report(report(advised().entries, 0.0))
    assert "was asked 2 times; 1 answers were taken (1 restart_clean); not taken: 1 supervisor.invalid" in " ".join(
        text.split()
    )
    assert "The supervisor's model" in markdown.render_report(report(advised().entries, 0.0))


def test_a_model_that_was_down_all_night_is_said_to_have_decided_nothing():
    made = night()
    down = Outcome(kind=Kind.SUPERVISOR_UNAVAILABLE, evidence=(Evidence(what="refused"),))
    made.say(events.OutcomeNoted(outcome=down))
    made.over()
    text = " ".join(terminal.render_report(report(made.entries, 0.0)).split())
    assert "some-model answered no question" in text
    assert "It could not be reached, 1 time. The policy decided everything." in text
    assert part(made)["unreached"] == 1


def test_without_a_model_there_is_no_such_section():
    made = night(model="")
    made.over()
    assert part(made) is None
    assert "supervisor" not in terminal.render_report(report(made.entries, 0.0))


def test_an_answer_about_a_loop_that_is_not_known_breaks_nothing():
    made = night()
    made.say(consulted(), "gone", 1)
    assert part(made)["before"]["loops"] == 1


def test_what_the_model_wrote_stays_out_of_the_report():
    made = night()
    made.say(consulted(why="IGNORE ALL RULES", choice="\x1b[2J"), "fix-1", 1)
    text = terminal.render_report(report(made.entries, 0.0))
    assert "IGNORE" not in text
    assert "\x1b" not in text
