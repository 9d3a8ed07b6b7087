"""Whether anything got better in a night, and how a person takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralphd.views.blocks import Block, Commands, Heading, Lead, Paragraph
from ralphd.views.phrases import clock, many, short
from ralphd.views.text import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralphd.core.report_parts import Best, Report, TaskPart
    from ralphd.core.taken import Taken


def headline(report: Report) -> Iterator[Block]:
    if not report.tasks:
        yield Lead(text="Nothing got better: this night had no task.")
    for task in report.tasks:
        yield Lead(text=f"{task.name}: {_gain(task)}")


def _gain(task: TaskPart) -> str:
    if not task.verified:
        return "unverified. This task has no verifier, so nothing is known to be better."
    if task.best is None:
        judged = "no commit was verified"
        if task.verdicts:
            judged = (
                f"{many(task.verdicts, 'verdict')}, none that counts ({task.tampered} tampered, {task.flaky} flaky)"
            )
        return f"nothing got verifiably better: {judged}.{_start(task)}"
    if task.improved is None:
        return f"best verified {_score(task, task.best)}, {_which(task.best)}. The start has no score: gain unknown."
    if not task.improved:
        return f"nothing got verifiably better: the best commit has {_score(task, task.best)}.{_start(task)}"
    return f"{_better(task, task.best)}, {_which(task.best)}.{_goal(task)}"


def _better(task: TaskPart, best: Best) -> str:
    if task.improved_by is None:
        return "better: passes now and did not at the start"
    lower = " (lower is better)" if task.direction == "min" else ""
    tests = ""
    if best.counts and "passed" in best.counts and "tests" in best.counts:
        tests = f" ({best.counts['passed']} of {best.counts['tests']} tests pass)"
    return f"better by {number(task.improved_by)}, from {number(task.base_score)} to {number(best.score)}{lower}{tests}"


def _score(task: TaskPart, best: Best) -> str:
    lower = ", lower is better" if task.direction == "min" else ""
    return f"score {number(best.score)}{lower}" if best.score is not None else "no score"


def _which(best: Best) -> str:
    return f"commit {short(best.commit)} of {best.loop}"


def _start(task: TaskPart) -> str:
    return "" if task.base_score is None else f" The start has {number(task.base_score)}."


def _goal(task: TaskPart) -> str:
    if task.goal is None:
        return ""
    return (
        f" The goal of {number(task.goal)} is reached." if task.goal_reached else f" The goal is {number(task.goal)}."
    )


def taking(report: Report) -> Iterator[Block]:
    takable = [task for task in report.tasks if task.improved is not False and task.best is not None and task.take]
    unverified = [task for task in report.tasks if not task.verified and _unseen(report, task)]
    if takable or unverified or report.taken:
        yield Heading(text="How to take it")
    for task in takable:
        yield Paragraph(
            text=f"{task.name}: the first line verifies it once more and makes a branch of it. By hand, in "
            f"{task.repository}: the second, or the third if you went on yourself."
        )
        best = task.best.loop if task.best else ""
        yield Commands(commands=(f"ralphd take {best} --night {report.night.id}", *task.take))
        yield Paragraph(text=f"The loop's whole result is at {task.ref}.")
    for taken in report.taken:
        yield Paragraph(text=_was_taken(taken))
    for task in unverified:
        yield Paragraph(text=f"{task.name}: unverified, so look before you take; in {task.repository}:")
        yield Commands(commands=_unseen(report, task))


def _was_taken(taken: Taken) -> str:
    what = f"{', '.join(taken.loops)} as {'a' if taken.how == 'patch' else 'the'} {taken.how} {taken.where}"
    score = "unverified" if not taken.verified else "verified again" if taken.score is None else number(taken.score)
    undone = "" if taken.undone_at is None else f" Undone {clock(taken.undone_at)}."
    return f"Taken {clock(taken.at)}: {what} ({short(taken.commit)}, {score}).{undone}"


def _unseen(report: Report, task: TaskPart) -> tuple[str, ...]:
    """Return how to look at what the loops of a task without a verifier made."""
    made = [loop.id for loop in report.loops if loop.task == task.name and loop.commits]
    return tuple(f"git log -p {short(task.base)}..refs/ralphd/{report.night.id}/{loop}" for loop in made)
