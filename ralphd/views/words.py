"""How a report is put into plain words, the same for every rendering: sections in the order a tired person needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ralphd.core.actions import StopLoop
from ralphd.core.outcomes import TABLE, Charge, Kind, Response
from ralphd.core.policy.running import NIGHT_ENDS
from ralphd.core.report import iso
from ralphd.core.spending import dollars
from ralphd.views.blocks import Block, Commands, Heading, Item, Items, Lead, Paragraph, Table
from ralphd.views.decisions import decisions
from ralphd.views.kinds import plainly, why_ended
from ralphd.views.text import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ralphd.core.report_facts import TraceFact
    from ralphd.core.report_parts import ActionPart, AdvicePart, Best, OwnRetries, Report, TaskPart, Totals
    from ralphd.core.report_unknown import Unknown
    from ralphd.core.taken import Taken

SHORT = 12  # characters of a commit: unique in any repository a person has
ROUTINE = frozenset({"Verify", "SpawnRunner"})  # one a commit and one a loop: counted, not listed
ALIKE = 3  # gaps of one sort that are named one by one
DECISIONS = 20  # a page of them; `ralphd journal actions` has all
TELLING_S = 600.0  # of a shorter night an hourly figure says little
PLACES = 3  # to look at, for each kind of failure


def page(report: Report) -> Iterator[Block]:
    """Yield the whole report."""
    for section in SECTIONS:
        yield from section(report)


def short(commit: str) -> str:
    return commit[:SHORT]


def many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def big(count: int | None) -> str:
    """Return a count of tokens in three digits or so: 950, 12k, 3.4M."""
    if count is None:
        return "?"
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}" if count < 10 * size else f"{count // size}{letter}"
    return str(count)


def hours(value: float | None) -> str:
    if value is None:
        return "an unknown time"
    if value < 1 / 60:
        return many(round(value * 3600), "second")
    minutes = round(value * 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else many(minutes, "minute")


def clock(at: float | None) -> str:
    """Return a time to the minute, in UTC."""
    text = None if at is None else iso(at)
    return f"{text[:10]} {text[11:16]} UTC" if text else "?"


def _headline(report: Report) -> Iterator[Block]:
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


def _night(report: Report) -> Iterator[Block]:
    night, totals = report.night, report.totals
    ended = f"ended {clock(night.ended_at)} ({why_ended(night.why_ended)})"
    if night.ended_at is None:
        ended = f"no end is recorded; last heard of {clock(night.last_at)}"
    rate = f" ({_rate(totals.healthy_with_submission_per_h)} an hour)" if _long_enough(totals) else ""
    yield Paragraph(text=f"Night {night.id}: began {clock(night.started_at)}, {ended}, {hours(totals.hours)}.")
    yield Paragraph(
        text=f"{many(totals.trajectories, 'session')}, {totals.healthy} healthy, {totals.healthy_with_submission} of "
        f"those with a submission{rate}.",
    )
    if totals.gain_per_h is not None and len(report.tasks) == 1:  # gains of several tasks have no common unit
        yield Paragraph(text=f"Verified gain: {number(totals.gain)}{_an_hour(totals)}.")
    yield from _budget(report)
    if totals.tokens_in is not None or totals.tokens_out is not None:
        tokens = f"{big(totals.tokens_in)} tokens in, {big(totals.tokens_out)} out"
        yield Paragraph(text=f"{tokens}; {_cost(report)}.")


def _budget(report: Report) -> Iterator[Block]:
    """Tell of a budget, first of all when it is spent."""
    given, cost = report.night.budget_usd, report.totals.cost_usd
    if given is None:
        return
    if cost is None:
        yield Paragraph(
            text=f"What it cost is not known, nor whether that is more than the budget of {dollars(given)}."
        )
    elif cost >= given:
        yield Paragraph(
            text=f"The budget of {dollars(given)} is spent: the night cost {_known(report)}{dollars(cost)}."
        )
    else:
        yield Paragraph(text=f"Of the budget of {dollars(given)} the night spent {_known(report)}{dollars(cost)}.")


def _cost(report: Report) -> str:
    totals = report.totals
    if totals.cost_usd is None:
        return "what they cost is not known"
    by_list = ", some of it by list prices" if totals.cost_estimated else ""
    return f"{_known(report)}{dollars(totals.cost_usd)}{by_list}"


def _known(report: Report) -> str:
    """Return how exact a sum of dollars is: of some sessions nobody knows them, or they are worked out."""
    if any(gap.what == "cost" for gap in report.unknown):
        return "at least "
    return "about " if report.totals.cost_estimated else ""


def _an_hour(totals: Totals) -> str:
    if not totals.gain or totals.gain_high_per_h is None or not _long_enough(totals):
        return ""
    between = f"between {_rate(totals.gain_low_per_h)} and {_rate(totals.gain_high_per_h)}"
    return f", that is {_rate(totals.gain_per_h)} an hour ({between}, 19 times of 20)"


def _long_enough(totals: Totals) -> bool:
    return totals.hours is not None and totals.hours * 3600 >= TELLING_S


def _rate(figure: float | None) -> str:
    return number(None if figure is None else round(figure, 2 if figure < 100 else 0))


def _needs_you(report: Report) -> Iterator[Block]:
    for kind, count in report.outcomes.items():
        if TABLE[Kind(kind)].response in {Response.HOLD, Response.ASK}:
            loops = ", ".join(loop.id for loop in report.loops if kind in loop.outcomes)
            where = f", in {loops}" if loops else ""
            yield Lead(text=f"Needs you: {plainly(kind)}, {many(count, 'time')}{where} ({kind}).")


def _taking(report: Report) -> Iterator[Block]:
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


def _loops(report: Report) -> Iterator[Block]:
    if not report.loops:
        return
    several = len(report.tasks) > 1
    yield Heading(text="Loops")
    header = ("loop", *(("task",) if several else ()), "sessions", "healthy", "subm.", "best", "tokens in/out")
    rows = tuple(
        (
            loop.id,
            *((loop.task,) if several else ()),
            str(loop.trajectories),
            str(loop.healthy),
            str(loop.submissions),
            number(loop.best_score) if loop.best_score is not None else "-",
            f"{big(loop.tokens_in)}/{big(loop.tokens_out)}",
        )
        for loop in report.loops
    )
    first = 2 if several else 1
    yield Table(header=header, rows=rows, numbers=frozenset(range(first, first + 5)))
    yield Paragraph(
        text="Healthy: the session ended well. Submission (subm.): a commit that passed the verifier, or scored better "
        "than all before it in its loop."
    )


def _fewer(report: Report) -> Iterator[Block]:
    """Tell whether more loops would have helped, by what fewer would have given."""
    if not report.fewer:
        return
    yield Heading(text="Would more loops have helped?")
    several = len(report.tasks) > 1
    best = {task.name: task.best.score for task in report.tasks if task.best}
    for task in dict.fromkeys(fewer.task for fewer in report.fewer):
        told = [fewer for fewer in report.fewer if fewer.task == task]
        means = " and ".join(f"{_rounded(one.best_score)} with {one.loops}" for one in told)
        yield Paragraph(
            text=f"{f'{task}: of' if several else 'Of'} the {told[0].of} loops with a score the best has "
            f"{number(best.get(task))}. On average it would have been {means} of them."
        )


def _rounded(mean: float) -> str:
    """Return a mean in no more digits than scores of a night can bear out."""
    return number(float(f"{mean:.4g}"))


def _failures(report: Report) -> Iterator[Block]:
    failed = {kind: count for kind, count in report.outcomes.items() if not kind.startswith("done.")}
    limit = Kind.COMPACTION_LIMIT.value
    if report.outcomes.get(limit):
        failed[limit] = report.outcomes[limit]
    yield Heading(text="What went wrong")
    if not failed:
        yield Paragraph(text="Nothing that was recorded.")
    else:
        by_count = sorted(failed.items(), key=lambda pair: (-pair[1], pair[0]))
        yield Items(items=tuple(_failure(report, kind, count) for kind, count in by_count))
    if report.own_retries.counts:
        yield Paragraph(text=_own_retries(report.own_retries))


def _own_retries(told: OwnRetries) -> str:
    parts = ", ".join(f"{name} {count}" for name, count in told.counts.items())
    times = many(sum(told.counts.values()), "time")
    return f"The agents' own clients asked again {times} ({parts}), and waited {hours(told.waited_s / 3600)} for that."


def _failure(report: Report, kind: str, count: int) -> Item:
    seen = [trace for trace in report.evidence if trace.kind == kind]
    words = plainly(kind)
    text = f"{words[:1].upper()}{words[1:]}, {many(count, 'time')} ({kind}{_charged(kind)})"
    return Item(text=text, places=tuple(map(place, seen[:PLACES])))


def _charged(kind: str) -> str:
    charges = {Charge.LOOP: "the loop's own", Charge.INFRA: "no loop's fault", Charge.OPERATOR: "yours to mend"}
    words = charges.get(TABLE[Kind(kind)].charge)
    return f", {words}" if words else ""


def place(trace: TraceFact) -> str:
    """Name where a person can look."""
    who = f"{trace.loop} session {trace.trajectory}" if trace.loop else "the night"
    where = trace.file
    if trace.file and trace.end > trace.start:
        where = f"{trace.file}:{trace.start}-{trace.end}"
    elif trace.file and trace.start:
        where = f"{trace.file}:{trace.start}"
    return ": ".join(part for part in (who, trace.what, where) if part)


def _decisions(report: Report) -> Iterator[Block]:
    yield Heading(text="What was decided, and why")
    if not report.actions:
        yield Paragraph(text="Nothing.")
        return
    listed = [action for action in report.actions if not _is_routine(action)]
    told = decisions(listed)
    if told:
        yield Items(items=tuple(Item(text=one.text) for one in told[-DECISIONS:]))
    earlier = sum(one.count for one in told[:-DECISIONS])
    yield Paragraph(text=_left_out(earlier, len(report.actions) - len(listed)))


def _is_routine(action: ActionPart) -> bool:
    """Tell what is one a commit or one a loop: it is counted, and only listed where it didn't go well."""
    usual = action.action in ROUTINE or (action.action == StopLoop.__name__ and action.why == NIGHT_ENDS)
    return usual and action.result not in {"failed", "refused"}


def _left_out(earlier: int, routine: int) -> str:
    parts = (
        f"{many(earlier, 'earlier decision')}" if earlier else "",
        f"{many(routine, 'routine start, stop or verification', 'routine starts, stops and verifications')}"
        if routine
        else "",
    )
    rest = " and ".join(part for part in parts if part)
    return f"Not listed: {rest}; `ralphd journal actions` has them." if rest else "That is all."


def _advice(report: Report) -> Iterator[Block]:
    advice = report.advice
    if advice is None:
        return
    yield Heading(text="The supervisor's model")
    yield Paragraph(text=_asked(advice))
    if advice.unreached:
        alone = "The policy decided everything" if not advice.taken else "Meanwhile the policy decided alone"
        yield Paragraph(text=f"It could not be reached, {many(advice.unreached, 'time')}. {alone}.")
    if not advice.taken:
        return
    shares = (("advised, before", advice.before), ("advised, after", advice.after), ("never advised", advice.others))
    rows = tuple(
        (name, str(share.loops), str(share.sessions), str(share.submissions), number(share.submissions_per_session))
        for name, share in shares
    )
    yield Table(
        header=("loops", "how many", "sessions", "subm.", "a session"), rows=rows, numbers=frozenset({1, 2, 3, 4})
    )
    yield Paragraph(
        text="It is asked about loops in trouble only, so compare the first two lines, not them with the third."
    )


def _asked(advice: AdvicePart) -> str:
    if not advice.asked:
        return f"{advice.model} answered no question: none was asked, or none reached it."
    taken = ", ".join(f"{count} {name}" for name, count in advice.choices.items())
    refused = ", ".join(f"{count} {kind}" for kind, count in advice.refused.items())
    return (
        f"{advice.model} was asked {many(advice.asked, 'time')}; {advice.taken} answers were taken"
        f"{f' ({taken})' if taken else ''}{f'; not taken: {refused}' if refused else ''}. "
        f"Tokens {big(advice.tokens_in)} in, {big(advice.tokens_out)} out."
    )


def _unknowns(report: Report) -> Iterator[Block]:
    yield Heading(text="What is not known")
    if not report.unknown:
        yield Paragraph(text="Nothing that matters: every session, verdict and decision has its record.")
        return
    yield Items(items=tuple(Item(text=_gap(gap)) for gap in _together(report.unknown)))


def _together(gaps: tuple[Unknown, ...]) -> Iterator[Unknown]:
    """Tell a gap that many loops share once."""
    for what in dict.fromkeys(gap.what for gap in gaps):
        alike = [gap for gap in gaps if gap.what == what]
        if len(alike) > ALIKE:
            yield replace(
                alike[0],
                subject=f"{len(alike)} {'tasks' if what in _OF_TASKS else 'loops'}",
                count=sum(gap.count for gap in alike),
            )
        else:
            yield from alike


def _gap(gap: Unknown) -> str:
    sentence = _GAPS.get(gap.what)
    return sentence(gap) if sentence else f"{gap.what} {gap.subject}"


_OF_TASKS = frozenset({"no_verifier", "no_base_score", "flaky"})
_GAPS: dict[str, Callable[[Unknown], str]] = {
    "journal_lost": lambda gap: (
        f"What was decided and judged {gap.subject}: the journal was damaged. What the loops recorded themselves "
        "was taken in again; the kind daemon.journal_error above says what became of the file."
    ),
    "no_verifier": lambda gap: f"{gap.subject}: whether anything is better; it has no verifier.",
    "no_base_score": lambda gap: f"{gap.subject}: the score at the start; the verifier gave none.",
    "flaky": lambda gap: f"{gap.subject}: the score of {many(gap.count, 'tree')}; the verifier gave different answers.",
    "unjudged": lambda gap: f"{gap.subject}: what {many(gap.count, 'commit')} would score; never verified.",
    "night_open": lambda _gap: "How the night ends: no end is recorded yet.",
    "still_running": lambda gap: f"{gap.subject}: how its newest session ends; no end is recorded yet.",
    "no_end": lambda gap: f"{gap.subject}: how {many(gap.count, 'session')} ended; no end was recorded.",
    "tokens": lambda gap: f"{gap.subject}: the tokens of {many(gap.count, 'session')}; the agent didn't tell.",
    "cost": lambda gap: (
        f"{gap.subject}: what {many(gap.count, 'session')} cost; neither the agent nor a price list tells."
    ),
    "unsettled": lambda gap: f"What came of {many(gap.count, 'decision')}; no result was recorded.",
    "unreadable": lambda gap: (
        f"{many(gap.count, 'journal entry', 'journal entries')} could not be read: a newer ralphd?"
    ),
}

SECTIONS: tuple[Callable[[Report], Iterator[Block]], ...] = (
    _headline,
    _needs_you,
    _night,
    _taking,
    _loops,
    _fewer,
    _failures,
    _decisions,
    _advice,
    _unknowns,
)
