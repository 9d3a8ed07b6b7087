"""Two nights beside each other, as a value and in every form."""

from __future__ import annotations

import json
import re

from support.nights import Night, a_bare_night, a_good_night, a_null_night, commit

from ralphd.core.compare import compare, to_json
from ralphd.core.outcomes import Kind
from ralphd.core.report import report
from ralphd.views import compared, html, markdown, terminal


def made(night: Night):
    return report(night.entries, night.now)


def a_night(name: str, score: float, *kinds: Kind, direction: str = "max") -> Night:
    night = Night(name)
    night.started()
    night.task(direction=direction)
    night.loop("fix-1")
    night.verdict(7.0)
    for number, kind in enumerate(kinds, 1):
        night.began("fix-1", number)
        night.ended("fix-1", number, kind, after=commit(2))
    night.verdict(score, "fix-1", 1, of=commit(2), submission=True)
    night.over()
    return night


def test_which_night_is_better_goes_by_the_task_s_direction():
    for direction, better in (("max", "a"), ("min", "b")):
        first, second = (a_night(name, score, direction=direction) for name, score in (("a", 9.0), ("b", 8.0)))
        [task] = compare(made(first), made(second)).tasks
        assert (task.better, task.by, task.same_base) == (better, 1.0, True)


def test_equal_or_unknown_scores_make_no_winner():
    told = compare(made(a_night("a", 9.0)), made(a_night("b", 9.0)))
    assert (told.tasks[0].better, told.tasks[0].by) == (None, 0.0)
    told = compare(made(a_night("a", 9.0)), made(a_bare_night()))
    assert (told.tasks[0].better, told.tasks[0].by) == (None, None)
    assert "nobody can know which is better" in terminal.render_page(compared.page(told))


def test_failures_are_new_or_gone_or_more_or_fewer():
    first = a_night("a", 9.0, Kind.HUNG, Kind.HUNG, Kind.EXITED, Kind.STALLED, Kind.NEXT)
    second = a_night("b", 9.0, Kind.HUNG, Kind.EXITED, Kind.AUTH, Kind.NEXT)
    told = {one.kind: (one.first, one.second, one.change) for one in compare(made(first), made(second)).failures}
    assert told == {
        "inference.stalled": (1, 0, "new"),
        "agent.hung": (2, 1, "more"),
        "agent.exited": (1, 1, "same"),
        "inference.auth": (0, 1, "gone"),
    }
    back = {one.kind: one.change for one in compare(made(second), made(first)).failures}
    assert back["agent.hung"] == "fewer"


def test_figures_are_the_reports_and_the_unknown_is_null():
    first, second = made(a_good_night()), made(a_bare_night())
    told = to_json(compare(first, second))
    assert told["schema"] == "ralphd.compare/1"
    assert told["first"]["sessions"] == first.totals.trajectories
    assert told["first"]["healthy_share"] == round(first.totals.healthy / first.totals.trajectories, 4)
    assert told["first"]["submissions_per_h"] == round(first.totals.submissions / first.totals.hours, 4)
    assert told["first"]["cost_usd"] == first.totals.cost_usd
    assert told["second"]["tokens_in"] is None
    assert told["second"]["cost_per_submission_usd"] is None
    assert json.loads(json.dumps(told)) == told


def test_tasks_of_one_night_only_are_named():
    told = compare(made(a_null_night()), made(a_good_night()))
    assert (told.only_in_first, told.only_in_second) == (("speed",), ())
    assert "Only in 2026-11-30-a: speed." in terminal.render_page(compared.page(told))


def test_every_form_says_the_same():
    told = compare(made(a_night("a", 9.0, Kind.HUNG)), made(a_night("b", 8.0, Kind.AUTH)))
    text = terminal.render_page(compared.page(told))
    assert text.startswith("main: a is better by 1: 9 (")
    forms = (
        markdown.render_page(compared.page(told), compared.title(told)).replace("\\", ""),
        re.sub(r"<[^>]+>", " ", "".join(map(html.render_block, compared.page(told)))),
    )
    for word in re.findall(r"[A-Za-z0-9.$%]+", text):
        assert all(word in form for form in forms), word


def test_a_hostile_name_stays_text():
    foul = "<script>x</script>\x1b[2J|`"
    told = compare(made(a_night(foul, 9.0, Kind.HUNG)), made(a_night("b", 8.0)))
    page = html.page(compared.title(told), "".join(map(html.render_block, compared.page(told))))
    assert "<script" not in page
    assert "\x1b" not in terminal.render_page(compared.page(told)) + page
