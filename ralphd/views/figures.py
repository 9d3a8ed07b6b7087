"""The report's pictures, each with its data's own units, a legend, and a table behind it for who doesn't see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ralphd.core.outcomes import HEALTHY, Kind
from ralphd.core.report import iso
from ralphd.views import svg
from ralphd.views.blocks import Table
from ralphd.views.svg import Scale
from ralphd.views.text import number

if TYPE_CHECKING:
    from ralphd.core.report_parts import LoopPart, Point, Report, Strip, TaskPart

WIDTH, LEFT, RIGHT = 760, 70, 12
FAR = 4.0  # times as far from all scores as these lie apart: such a goal would press the scores into one flat line
BARS = 12  # loops that are drawn side by side; the table has all

# How a session's end is drawn; each way differs in shape and not by colour alone.
GOOD, NOTHING, WAITED, FAILED, OPEN = "good", "nothing", "waited", "failed", "open"
LEGEND = {
    GOOD: "healthy: ended well, with more to do or done",
    NOTHING: "nothing came of it, or its claim was refuted",
    WAITED: "stopped, limited or waiting for inference",
    FAILED: "failed",
    OPEN: "no end is recorded",
}
_NOTHING = frozenset({Kind.NOOP.value, Kind.FALSE_DONE.value})
_WAITED = frozenset({Kind.STOPPED.value, Kind.COMPACTION_LIMIT.value})


def way(kind: str | None) -> str:
    if kind is None:
        return OPEN
    if kind in {one.value for one in HEALTHY}:
        return GOOD
    if kind in _NOTHING or kind.startswith("progress."):
        return NOTHING
    return WAITED if kind in _WAITED or kind.startswith("inference.") else FAILED


def frame(report: Report) -> tuple[float, float] | None:
    """Return from when to when the night is drawn; None when nothing can be."""
    began = report.night.started_at
    ends = [span.until_at or span.at for strip in report.strips for span in strip.spans]
    ends += [point.at for point in report.throughput]
    until = report.night.ended_at or report.night.last_at
    if began is None or until is None:
        return None
    return began, max([until, began + 1.0, *ends])


def scores(report: Report, task: TaskPart) -> str:
    """Draw a task's best score over the night, with the width and the troubles under it. Empty: there is none."""
    when = frame(report)
    points = [point for point in report.throughput if point.task == task.name and point.best_score is not None]
    if when is None or not points:
        return ""
    x = Scale(low=when[0], high=when[1], start=LEFT, end=WIDTH - RIGHT)
    y = _score_scale(task, points)
    drawn = [(x(point.at), y(point.best_score or 0.0)) for point in points]
    parts = [
        *svg.axis_y(y, LEFT, WIDTH - RIGHT),
        *(svg.line(LEFT, y(value), WIDTH - RIGHT, y(value), words) for words, value in _marks(task) if y.has(value)),
        svg.steps(drawn, WIDTH - RIGHT, "score"),
        *(f'<circle class="dot" cx="{at:.1f}" cy="{value:.1f}" r="2.5"/>' for at, value in drawn),
        *_mark_words(task, y),
        svg.text(LEFT, 14, f"best score of {task.name} ({_better(task)})", kind="title"),
        *_under(report, x, 250),
        *_time_axis(x, when, 330),
    ]
    label = (
        f"Best verified score of {task.name} over the night: from {number(points[0].best_score)} to "
        f"{number(points[-1].best_score)} in {len(points)} steps; {_better(task)}."
    )
    return svg.picture((WIDTH, 350), label, parts)


def _better(task: TaskPart) -> str:
    return "lower is better" if task.direction == "min" else "higher is better"


def _score_scale(task: TaskPart, points: list[Point]) -> Scale:
    known = [point.best_score for point in points if point.best_score is not None]
    known += [] if task.base_score is None else [task.base_score]
    if task.goal is not None and not _is_far(task.goal, known):
        known.append(task.goal)
    low, high = min(known), max(known)
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    return Scale(low=low - room, high=high + room, start=220, end=28)


def _is_far(goal: float, known: list[float]) -> bool:
    apart = max(known) - min(known)
    return max(goal - max(known), min(known) - goal) > FAR * apart > 0


def _marks(task: TaskPart) -> Iterator[tuple[str, float]]:
    for words, value in (("start", task.base_score), ("goal", task.goal)):
        if value is not None:
            yield words, value


def _mark_words(task: TaskPart, y: Scale) -> Iterator[str]:
    """Name the lines where the score isn't: it begins at the start's, and comes to the goal's."""
    for words, value in _marks(task):
        if not y.has(value):
            above = value > y.high
            beyond = f"{words} {number(value)} is far {'above' if above else 'below'} this picture"
            yield svg.text(LEFT + 6, y.end + 12 if above else y.start - 6, beyond, kind="mark over")
            continue
        at, anchor = (LEFT + 6, "start") if words == "goal" else (WIDTH - RIGHT, "end")
        yield svg.text(at, y(value) - 5, f"{words} {number(value)}", anchor=anchor, kind="mark over")


def _under(report: Report, x: Scale, top: float) -> Iterator[str]:
    """Draw how many loops ran, and how often what went wrong, under the same hours."""
    widths = [(point.at, point.width) for point in report.throughput if point.width]
    if report.night.width:
        widths.insert(0, (x.low, report.night.width if not widths else widths[0][1]))
    most = max((width or 0 for _, width in widths), default=0)
    if most:
        height = Scale(low=0, high=most, start=top + 22, end=top)
        yield svg.steps([(x(at), height(width or 0)) for at, width in widths], x.end, "width")
        yield svg.text(LEFT - 6, top + 14, f"{most} loops", anchor="end", kind="tick")
    worst = max((trouble.count for trouble in report.troubles), default=0)
    base = top + 62
    if worst:
        yield svg.text(LEFT - 6, base - 12, "went", anchor="end", kind="tick")
        yield svg.text(LEFT - 6, base, "wrong", anchor="end", kind="tick")
    for trouble in report.troubles:
        tall = 28 * trouble.count / worst
        title = f"{_clock(trouble.at)} to {_clock(trouble.until_at)} UTC: {trouble.count}, most often {trouble.kind}"
        yield svg.bar((x(trouble.at), base - tall), (x(trouble.until_at) - x(trouble.at) - 0.6, tall), "trouble", title)


def _time_axis(x: Scale, when: tuple[float, float], y: float) -> Iterator[str]:
    yield svg.line(LEFT, y - 14, WIDTH - RIGHT, y - 14, "axis")
    for at in svg.time_ticks(*when):
        yield svg.line(x(at), y - 14, x(at), y - 10, "axis")
        yield svg.text(x(at), y + 2, _clock(at), anchor="middle", kind="tick")
    yield svg.text(WIDTH - RIGHT, y + 17, "UTC", anchor="end", kind="tick")


def _clock(at: float) -> str:
    told = iso(at)
    return told[11:16] if told else "?"


def score_table(report: Report, task: TaskPart) -> Table:
    rows = tuple(
        (f"{_clock(point.at)} UTC", number(point.best_score), str(point.submissions), number(point.width))
        for point in report.throughput
        if point.task == task.name
    )
    return Table(header=("time", "best score", "submissions", "loops"), rows=rows, numbers=frozenset({1, 2, 3}))


def strips(report: Report) -> Iterator[tuple[str, str]]:
    """Yield for each loop its name and a strip of its sessions over the night."""
    when = frame(report)
    if when is None:
        return
    x = Scale(low=when[0], high=when[1], start=0, end=1000)
    for strip in report.strips:
        yield strip.loop, _strip(strip, x, when[1])


def _strip(strip: Strip, x: Scale, until: float) -> str:
    pieces: dict[str, list[tuple[float, float]]] = {}
    for span in strip.spans:
        start, end = round(x(span.at), 1), round(x(min(until, until if span.until_at is None else span.until_at)), 1)
        pieces.setdefault(way(span.kind), []).append((start, max(1.0, round(end - start - 0.8, 1))))
    sessions = sum(span.sessions for span in strip.spans)
    label = f"{strip.loop}: {sessions} session{'' if sessions == 1 else 's'}; " + _told(strip)
    drawn = (svg.spans(pieces.get(one, ()), 10, one) for one in LEGEND)
    return svg.picture((1000, 20), label, drawn, "strip", stretch=True)


def _told(strip: Strip) -> str:
    counts: dict[str, int] = {}
    for span in strip.spans:
        counts[way(span.kind)] = counts.get(way(span.kind), 0) + span.sessions
    return ", ".join(f"{count} {one}" for one, count in counts.items()) or "none"


def legend() -> str:
    keys = (
        f"<li>{svg.picture((40, 20), '', [svg.spans([(2, 36)], 10, one)], 'strip key')} {svg.safe(words)}</li>"
        for one, words in LEGEND.items()
    )
    return f'<ul class="legend">{"".join(keys)}</ul>'


def shares(loops: Iterable[LoopPart]) -> str:
    """Draw where the progress came from beside where the tokens went. Empty: neither is known."""
    known = [loop for loop in loops if loop.submissions or loop.tokens_out]
    progress = sum(loop.submissions for loop in known)
    tokens = sum(loop.tokens_out or 0 for loop in known)
    if not progress or not tokens:
        return ""
    top = sorted(known, key=lambda loop: (-loop.submissions, -(loop.tokens_out or 0)))[:BARS]
    heads = "".join(f"<span>{words}</span>" for words in ("loop", "share of submissions", "share of tokens written"))
    rows = "".join(_share(loop, progress, tokens) for loop in top)
    return f'<div class="shares"><div class="share-row head">{heads}</div>{rows}</div>'


def _share(loop: LoopPart, progress: int, tokens: int) -> str:
    cells = ((loop.submissions / progress, "good"), ((loop.tokens_out or 0) / tokens, "waited"))
    bars = "".join(
        f"<span>{svg.picture((100, 10), '', [svg.bar((0, 0), (100 * share, 10), f'fill-{kind}')], stretch=True)} "
        f"{round(100 * share)}&#8201;%</span>"
        for share, kind in cells
    )
    return f'<div class="share-row"><span>{svg.safe(loop.id)}</span>{bars}</div>'
