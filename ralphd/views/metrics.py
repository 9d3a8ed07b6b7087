"""How the night stands, as Prometheus reads it: every name, with what it means, is in one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Sample = tuple[dict[str, str], object]

STATES = ("starting", "running", "waiting", "paused", "stopped", "dead")
# The names that OpenTelemetry's GenAI conventions give to tokens, with Prometheus's underscores.
TOKENS, TOKEN_TYPE, INPUT, OUTPUT = "gen_ai_client_token_usage_total", "gen_ai_token_type", "input", "output"


@dataclass(frozen=True, kw_only=True)
class Metric:
    name: str
    kind: str  # gauge | counter
    means: str


UP = Metric(name="ralphd_up", kind="gauge", means="1 while a daemon answers, else 0; then there is nothing else.")
METRICS = (
    UP,
    Metric(name="ralphd_loops", kind="gauge", means="Loops by state."),
    Metric(name="ralphd_width", kind="gauge", means="Loops that shall run at once."),
    Metric(name="ralphd_verifying", kind="gauge", means="Verifications that run now."),
    Metric(name="ralphd_needs_person", kind="gauge", means="Things that wait for a person."),
    Metric(name="ralphd_throughput_per_hour", kind="gauge", means="Verified gain per hour since the night's start."),
    Metric(name="ralphd_submissions_per_hour", kind="gauge", means="Submissions per hour since the night's start."),
    Metric(name="ralphd_loop_best_score", kind="gauge", means="Best verified score of a loop."),
    Metric(name="ralphd_loop_trajectories_total", kind="counter", means="Sessions that a loop has begun."),
    Metric(name="ralphd_loop_quiet_seconds", kind="gauge", means="How long a running session has told nothing."),
    Metric(name=TOKENS, kind="counter", means="Tokens of a loop, as its agent told them."),
)


def render_metrics(status: dict[str, Any] | None) -> str:
    """Return the text format 0.0.4. What is unknown is left out; no status: nobody answers."""
    samples = {UP.name: [({}, 0)]} if status is None else _samples(status)
    return "".join(f"{line}\n" for metric in METRICS for line in _lines(metric, samples.get(metric.name, ())))


def _samples(status: dict[str, Any]) -> dict[str, list[Sample]]:
    loops, fleet = status["loops"], status["fleet"]
    states = [loop["state"] for loop in loops]
    return {
        UP.name: [({}, 1)],
        "ralphd_loops": [({"state": state}, states.count(state)) for state in STATES],
        "ralphd_width": [({}, status["night"].get("width"))],
        "ralphd_verifying": [({}, fleet.get("verifying"))],
        "ralphd_needs_person": [({}, len(status["daemon"].get("trouble") or ()))],
        "ralphd_throughput_per_hour": [({}, fleet.get("throughput_per_h"))],
        "ralphd_submissions_per_hour": [({}, fleet.get("submissions_per_h"))],
        "ralphd_loop_best_score": [(_of(loop), loop.get("best_score")) for loop in loops],
        "ralphd_loop_trajectories_total": [(_of(loop), loop.get("trajectory")) for loop in loops],
        "ralphd_loop_quiet_seconds": [(_of(loop), loop.get("quiet_for_s")) for loop in loops],
        TOKENS: [
            ({**_of(loop), TOKEN_TYPE: kind}, loop.get(key))
            for loop in loops
            for kind, key in ((INPUT, "tokens_in"), (OUTPUT, "tokens_out"))
        ],
    }


def _of(loop: dict[str, Any]) -> dict[str, str]:
    return {"loop": str(loop["id"]), "task": str(loop["task"])}


def _lines(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    known = [(labels, value) for labels, value in samples if isinstance(value, (int, float))]
    if known:
        yield f"# HELP {metric.name} {metric.means}"
        yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in known:
        named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{metric.name}{'{' + named + '}' if named else ''} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
