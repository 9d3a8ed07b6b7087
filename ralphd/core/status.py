"""The night at a glance: schema ralphd.status/1."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ralphd.core import notices, progress
from ralphd.core.exchange import Want
from ralphd.core.policy import LoopNow
from ralphd.core.spending import Spending, sentence
from ralphd.core.state import LoopState, NightState


@dataclass(frozen=True, kw_only=True)
class DaemonFacts:
    """Who answers. Times are epoch seconds; ``next_night_at``: by ``night.schedule``, None without one.

    ``trouble``: what it wants a person to know, one line each.
    """

    pid: int
    version: str
    started_at: float
    trouble: tuple[str, ...] = ()
    next_night_at: float | None = None


def status(
    state: NightState,
    loops: dict[str, LoopNow],
    verifying: int,
    daemon: DaemonFacts,
    now: float,
    *,
    spent: Spending | None = None,
) -> dict[str, object]:
    rows = [_row(loop, loops[name], now, progress.of_loop(state, loop, now)) for name, loop in state.loops.items()]
    return {
        "schema": "ralphd.status/1",
        "daemon": {
            "pid": daemon.pid,
            "version": daemon.version,
            "started_at": iso(daemon.started_at),
            "trouble": [*daemon.trouble, *_blind(state), *notices.lines(state, now)],
            "next_night_at": iso(daemon.next_night_at),
        },
        "night": {
            "id": state.id,
            "state": "ended" if state.ended_at else "ending" if state.ending else "running",
            "started_at": iso(state.started_at),
            "ends_at": iso(state.ends_at),
            "width": state.width,
        },
        "loops": rows,
        "fleet": {**_fleet(state, rows, verifying, now), **_spent(spent or Spending())},
    }


def _blind(state: NightState) -> list[str]:
    """Say which tasks' verifiers could not even judge the start: nothing will be measurable all night."""
    broken = [
        f"the verifier of {name} can't judge the start: {task.base.why}"
        for name, task in state.tasks.items()
        if task.base is not None and task.base.kind is not None
    ]
    return broken + [
        f"the verifier of {name} can't judge the start: {task.not_judged}; it is tried again"
        for name, task in state.tasks.items()
        if task.not_judged
    ]


def _row(loop: LoopState, seen: LoopNow, now: float, gain_per_h: float | None) -> dict[str, object]:
    usage = loop.tokens()
    return {
        "id": loop.loop.id,
        "task": loop.loop.task,
        "pod": loop.loop.pod,
        "state": loop_state(loop, seen),
        "generation": loop.generation,
        "trajectory": loop.trajectory,
        "pid": loop.agent_pid if seen.alive else None,
        "pane": loop.pane if seen.alive else "",
        "worktree": loop.loop.worktree,
        "branch": loop.loop.branch,
        "head": seen.head.commit if seen.head else None,
        "score": loop.last_verdict.score if loop.last_verdict else None,
        "best_score": loop.best_score,
        "gain_per_h": gain_per_h,
        "compactions": loop.compactions,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "last_outcome": loop.last_outcome.value if loop.last_outcome else None,
        "quiet_for_s": round(max(0.0, now - loop.said_at), 1) if loop.session_open else None,
        "needs_person": needs_person(loop),
        "note": _note(loop, now),
    }


def loop_state(loop: LoopState, seen: LoopNow) -> str:
    """Return one of ``starting running waiting paused stopped dead``. What is not seen alive is not called running."""
    if loop.want is Want.STOPPED:
        return "running" if seen.alive and loop.session_open else "stopped"
    if not seen.alive:
        return "paused" if loop.want is Want.PAUSED else "dead" if loop.started else "starting"
    if loop.session_open and loop.agent_pid is not None:
        return "running"
    if loop.want is Want.PAUSED or loop.held:
        return "paused"
    return "waiting" if loop.waiting_until is not None else "running" if loop.trajectory else "starting"


def needs_person(loop: LoopState) -> bool:
    """Tell whether it stands still until a person does something; one that a person paused does not need anyone."""
    return loop.want is Want.RUNNING and (loop.held or bool(loop.standing.asks))


def _note(loop: LoopState, now: float) -> str:
    if loop.aside and loop.note:
        return f"set aside: {loop.note}"  # its runner knows no more than that it is
    if loop.held:
        return loop.held_why or loop.held_kind
    if loop.waiting_until is not None:
        left_s = round(loop.waiting_until - now)
        return f"waits {left_s} s: {loop.waiting_kind}" if left_s > 0 else f"waits: {loop.waiting_kind}"
    if loop.standing.asks:
        return f"asks: {loop.standing.asks}"
    waits_for = loop.standing.client_waits
    return f"its client waits: {waits_for}" if waits_for else loop.note


def _fleet(state: NightState, rows: list[dict[str, object]], verifying: int, now: float) -> dict[str, object]:
    states = [row["state"] for row in rows]
    told = progress.of_night(state, now)
    submissions = sum(task.submissions for task in state.tasks.values())
    return {
        "running": states.count("running"),
        "paused": states.count("paused"),
        "waiting": states.count("waiting"),
        "verifying": verifying,
        "throughput_per_h": told.gain.per_h,
        "throughput_low_per_h": told.gain.low,
        "throughput_high_per_h": told.gain.high,
        "recent_throughput_per_h": told.recent_gain.per_h,
        "healthy_with_submission_per_h": told.fruitful.per_h,
        "submissions_per_h": submissions / told.hours if told.hours > 0 else None,
        "verdicts": told.verdicts,
        "gains": progress.by_part(state, now),
        "hours": told.hours,
    }


def _spent(spent: Spending) -> dict[str, object]:
    return {
        "cost_usd": spent.usd,
        "cost_estimated": spent.estimated,
        "budget_usd": spent.budget_usd,
        "budget": sentence(spent),
        "budget_spent": spent.over,
    }


def iso(at: float | None) -> str | None:
    """Return ISO 8601 in UTC with a Z; None stays None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
