"""A short night with each real agent CLI: two loops meet trouble, gain what the verifier says, and are told of truly."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import clients
from support.clients import Client
from support.model_script import Answer, Request, bash, fault, say, stories, story, truncate
from support.model_server import ModelServer, serving
from support.nightbox import NightBox, night_box
from support.repositories import commit, git, repository
from support.stage import Director

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(600)]

NIGHT_S = 400.0  # ten seconds are enough, but for the two that take 8 s of a processor to start
REST = bash("tail -f /dev/null")  # no silent request: the other loops of the account would wait for what comes of it
CONFIG = """
[agent]
cli = {cli}
program = {program}
model = {model}
env = {{ {env} }}

[limits]
tool_seconds = 3600
backoff_max_seconds = {backoff_max_s}

[[task]]
name = "lines"
[task.verify]
command = "echo solved=$(grep -c . solved)"
score = 'regex:solved=(\\d+)'
"""
RATE_LIMIT = "Rate limit reached for requests"  # opencode tells the words alone
LASTING: dict[str, tuple[Answer, set[str]]] = {
    "opencode": (truncate(), {"inference.truncated"}),  # it would sit out the 500s for 79 s
    "codex": (fault(500), {"inference.overloaded"}),  # it tells of high demand, and no status
}


class Outage(Director):
    """A loop's part that begins with trouble until it is over."""

    def __init__(self, trouble: Answer) -> None:
        super().__init__()
        self.trouble, self.over, self.asked = trouble, threading.Event(), threading.Event()

    def answer(self, request: Request) -> Answer:
        self.asked.set()
        return super().answer(request) if self.over.is_set() else self.trouble


def solve(lines: int) -> Answer:
    return bash(f"seq {lines} > solved && git commit -q -a -m 'Solve {lines}' && git log -1 --format=%s")


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    repo = repository(tmp_path / "project")
    (repo / "solved").write_text("1\n")
    (repo / "PROMPT.md").write_text("Solve one more.\n")
    commit(repo, "Begin")
    with night_box(tmp_path, repo) as box:
        yield box


def test_a_night_of_two_loops_ends_with_a_true_report(box: NightBox, client: Client) -> None:
    trouble, kinds = LASTING.get(client.name, (fault(500), {"inference.connection"}))
    first, second = Director(), Outage(trouble)
    loops = ("loop-1", "loop-2")
    first.play([fault(429, RATE_LIMIT, retry_after_s=1), solve(3), say("Solved three."), REST])
    second.play([solve(2), say("Solved two."), REST])
    with serving(stories({"loop-1": first, "loop-2": second}, otherwise=story())) as server:
        configure(box, client, server)
        before = box.user_files()
        box.start("--width", "2", "--for", "1h")
        box.wait_until(lambda: kinds & set(box.outcomes("loop-2")), f"loop-2 meets one of {kinds}", NIGHT_S)
        second.over.set()
        box.wait_until(lambda: scores(box) == {"loop-1": 3.0, "loop-2": 2.0}, "both loops have their score", NIGHT_S)
        box.wait_until(lambda: finished(box, loops) == dict.fromkeys(loops, 1), "both sessions have ended", NIGHT_S)
        box.stop("--now")
        assert not server.strangers
    report = box.report()
    tells_the_best(report, box.repo)
    tells_what_happened(report, kinds)
    assert box.user_files() == before


@pytest.mark.parametrize("client", ["opencode"], indirect=True)
def test_loops_that_begin_at_once_in_a_new_home_all_work(box: NightBox, client: Client) -> None:
    """Each of them would make its database there, and all but one of those may trip over that."""
    loops = {f"loop-{number}": Outage(REST) for number in range(1, 5)}
    with serving(stories(loops, otherwise=story())) as server:
        configure(box, client, server)
        box.start("--width", str(len(loops)), "--for", "1h")
        box.wait_until(lambda: all(one.asked.is_set() for one in loops.values()), "each asks the model", NIGHT_S)
        assert not any(box.outcomes(loop) for loop in loops)
        box.stop("--now")


REFUSES_S, FLAPS_S, FLAP_S = 16.0, 12.0, 3.0
TRY_EVERY_S = 8.0  # at most, so that an outage of this length has several tries


class Weather:
    """Overloaded at first, then now and then, then fine; begins with the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.began = 0.0
        self.refused: list[float] = []

    def refuses(self) -> bool:
        with self._lock:
            now = time.monotonic()
            self.began = self.began or now
            age_s = now - self.began
            bad = age_s < REFUSES_S or (age_s < REFUSES_S + FLAPS_S and (age_s - REFUSES_S) // FLAP_S % 2 == 1)
            if bad:
                self.refused.append(age_s)
            return bad


class Outdoors(Director):
    def __init__(self, weather: Weather) -> None:
        super().__init__()
        self.weather = weather

    def answer(self, request: Request) -> Answer:
        return fault(529, "Overloaded") if self.weather.refuses() else super().answer(request)


@pytest.mark.parametrize("client", ["claude"], indirect=True)
def test_in_an_outage_one_asks_for_all_although_each_client_would_wait_by_itself(box: NightBox, client: Client) -> None:
    """The fewest that could be asked in vain: once by each loop that ran into it, and by one that waits the longest."""
    names, weather = ("loop-1", "loop-2", "loop-3"), Weather()
    loops = {name: Outdoors(weather) for name in names}
    for one in loops.values():
        one.play([solve(2), say("Solved two."), REST])
    with serving(stories(loops, otherwise=story())) as server:
        configure(box, client, server, backoff_max_s=TRY_EVERY_S)
        box.start("--width", str(len(names)), "--for", "1h")
        box.wait_until(lambda: finished(box, names) == dict.fromkeys(names, 1), "all have worked", NIGHT_S)
        box.stop("--now")
    first = [at for at in weather.refused if at < REFUSES_S]
    later = len(weather.refused) - len(first)
    assert len(first) <= 1.2 * (len(names) + least_tries(REFUSES_S))
    assert later <= len(names) * FLAPS_S / (2 * FLAP_S)  # each may run into each flap
    told = {"done.next", "done.stopped", "inference.overloaded", "progress.shared_cause"}
    assert set(box.report()["outcomes"]) <= told


def least_tries(seconds: float) -> int:
    """How often one asker tries in that time whose waits double up to the greatest, and are the longest possible."""
    waited, tries, wait_s = 0.0, 0, 2.0
    while waited < seconds:
        waited, tries, wait_s = waited + wait_s, tries + 1, min(TRY_EVERY_S, 2 * wait_s)
    return tries


def configure(box: NightBox, client: Client, server: ModelServer, backoff_max_s: float = 1.0) -> None:
    given = clients.move_in(client, server.base_url, str(box.home))
    env = {name: value for name, value in given.items() if name not in box.env}
    box.configure(
        CONFIG.format(
            cli=json.dumps(client.name),
            program=json.dumps(clients.program(client.name)),
            model=json.dumps(client.model),
            backoff_max_s=backoff_max_s,
            env=", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items()),
        )
    )


def scores(box: NightBox) -> dict[str, float]:
    return {name: row["best_score"] for name, row in box.loops().items()}


def finished(box: NightBox, loops: Iterable[str]) -> dict[str, int]:
    return {loop: box.outcomes(loop).count("done.next") for loop in loops}


def tells_the_best(report: dict[str, Any], repo: Path) -> None:
    (task,) = report["tasks"]
    best = task["best"]
    assert (task["base_score"], best["loop"], best["score"]) == (1.0, "loop-1", 3.0)
    assert git(repo, "show", f"{best['commit']}:solved") == "1\n2\n3"
    assert {loop["id"]: loop["best_score"] for loop in report["loops"]} == {"loop-1": 3.0, "loop-2": 2.0}


def tells_what_happened(report: dict[str, Any], kinds: set[str]) -> None:
    """What each loop met, what it used, and nothing that it didn't."""
    first, second = (next(loop for loop in report["loops"] if loop["id"] == name) for name in ("loop-1", "loop-2"))
    assert first["outcomes"].keys() <= {"done.next", "done.stopped", "inference.rate_limited"}
    assert second["outcomes"].keys() <= {"done.next", "done.stopped", *kinds}
    assert kinds & second["outcomes"].keys()
    for loop in (first, second):
        assert loop["outcomes"]["done.next"] == 1
        assert loop["tokens_in"] > 0
        assert loop["tokens_out"] > 0
