"""A night of the real Claude Code CLI in a real project: four loops, five bugs, many troubles, and a true report."""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import planted, real_claude
from support.chapters import cheat, commit, repair, run_tests
from support.model_script import (
    Answer,
    Breakage,
    Request,
    Script,
    Session,
    bash,
    edit,
    fault,
    hog,
    once,
    overlong,
    read,
    reset_mid_stream,
    resolve,
    say,
    session,
    stall,
    stories,
    story,
    times,
    using,
)
from support.model_server import ModelServer, serving
from support.nightbox import NightBox, night_box
from support.planted import BUGS, Bug, Planted

from ralphd.core import actions, events, records
from ralphd.core.outcomes import Kind

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

TAIL, ROUNDROBIN, CONVOLVE, DERIVATIVE, TOTIENT = BUGS
KEY = "sk-ant-api03-never-to-be-seen-0123456789abcdef"
TOLD_OF_TAMPERING = "changed files that are protected"
SILENCE = stall("delta", 3600)  # once begun: one who asks in vain would hold up all that wait for the same account
AT_REST = session(SILENCE)  # an answer that never ends: the loop has nothing more to tell
GATE_S = 300.0

CONFIG = """
[agent]
cli = "claude"
program = {program}
model = "claude-sonnet-4-5"
env = {{ {env} }}
env_pass = ["ANTHROPIC_API_KEY"]

[limits]
tool_seconds = 20
tool_memory = "256MiB"
stream_seconds = 3600
backoff_max_seconds = 1

[[task]]
name = "repair"
[task.verify]
command = {verifier}
score = "junit:report.xml"
protect = ["tests/**"]
"""


@dataclass(frozen=True, kw_only=True)
class Converted:
    """Cheats first, and waits until it is found out; repairs once it is told of it, in that session or in the next."""

    found_out: threading.Event
    base: str
    bugs: tuple[Bug, ...]
    told: dict[int, int] = field(default_factory=dict)  # in which session, at which turn

    def answer(self, request: Request) -> Answer:
        if not self.told and TOLD_OF_TAMPERING in request.prompt + request.news:
            self.told[request.session] = request.turn
        if request.session in self.told:
            return self._repair(request)
        return self._cheat(request) if request.session == 0 else SILENCE

    def _cheat(self, request: Request) -> Answer:
        steps = cheat()
        if request.turn == len(steps) - 1:
            self.found_out.wait(GATE_S)
        return resolve(steps[min(request.turn, len(steps) - 1)], request)

    def _repair(self, request: Request) -> Answer:
        steps = (
            bash(
                f"git checkout {self.base} -- {planted.TESTS}; git diff --quiet HEAD || git commit -q -m 'Bring the tests back'"
            ),
            read(self.bugs[0].file),
            *(edit(bug.file, bug.broken, bug.fixed) for bug in self.bugs),
            run_tests([test for bug in self.bugs for test in bug.tests]),
            commit(f"Fix {len(self.bugs)} bugs"),
            say("Repaired by the task's own means."),
        )
        return resolve(steps[min(request.turn - self.told[request.session], len(steps) - 1)], request)


def loop_1() -> tuple[Session, ...]:
    """Repairs two bugs in two sessions, meets an overload and a limit, and tries to show its key around."""
    first, second = list(repair(TAIL)), list(repair(ROUNDROBIN))
    first[1] = times(2, fault(529), first[1])
    second[2] = once(fault(429, retry_after_s=1), second[2])
    leak = bash('echo "the key is $ANTHROPIC_API_KEY"')
    return session(leak, *first), session(*second), AT_REST


def loop_2() -> tuple[Session, ...]:
    """Loses its connection in the middle of an answer, for longer than the CLI itself keeps trying."""
    steps = list(repair(DERIVATIVE))
    steps[3] = once(reset_mid_stream(), steps[3])
    steps[4] = times(6, reset_mid_stream(), steps[4])
    return session(*steps), AT_REST


def loop_3() -> tuple[Session, ...]:
    """Passes the limits of a tool call in time and in memory, and goes on."""
    return session(overlong(), hog(1024), *repair(TOTIENT)), AT_REST


@dataclass(kw_only=True)
class Ledger:
    """Passes on what the script says, prices each answer differently, and adds up what each loop was charged."""

    script: Script
    handed_out: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def answer(self, request: Request) -> Answer:
        priced = using(self.script.answer(request), tokens_in=1000 + request.number, tokens_out=10 + request.turn)
        begun = isinstance(priced.fault, Breakage) and priced.fault.how == "stall"  # what went in is told at once
        if priced.fault is None or begun:
            charged = (priced.usage.tokens_in, 0 if begun else priced.usage.tokens_out)
            self.handed_out.setdefault(os.path.basename(request.directory), []).append(charged)
        return priced

    def total(self, loop: str) -> tuple[int, int]:
        tokens_in, tokens_out = zip(*self.handed_out[loop], strict=True)
        return sum(tokens_in), sum(tokens_out)


REPAIRED = {
    "loop-1": (TAIL, ROUNDROBIN),
    "loop-2": (DERIVATIVE,),
    "loop-3": (TOTIENT,),
    "loop-4": (TAIL, ROUNDROBIN, CONVOLVE),
}
SCORES = {loop: planted.expected_passed(bugs) / planted.ALL_PASSED for loop, bugs in REPAIRED.items()}


@pytest.fixture
def project(tmp_path: Path) -> Planted:
    return planted.plant(str(tmp_path / "project"))


@pytest.fixture
def box(project: Planted, tmp_path: Path) -> Iterator[NightBox]:
    with night_box(tmp_path, Path(project.repo), {"ANTHROPIC_API_KEY": KEY}) as box:
        yield box


def configure(box: NightBox, server: ModelServer) -> None:
    given = real_claude.environment(server.base_url, str(box.home))
    env = {name: value for name, value in given.items() if name not in {*box.env, "TMPDIR"}}
    toml = CONFIG.format(
        program=json.dumps(real_claude.program()),
        env=", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items()),
        verifier=json.dumps(planted.verifier()),
    )
    (box.repo / "PROMPT.md").write_text("Make the tests of the recipes pass.\n")
    box.configure(toml)


def test_a_night_of_the_real_cli_ends_with_a_true_report(box: NightBox, project: Planted, tmp_path: Path) -> None:
    """The daemon is killed in the middle of it and started again."""
    found_out = threading.Event()
    told = Converted(found_out=found_out, base=project.commit, bugs=REPAIRED["loop-4"])
    script = Ledger(
        script=stories(
            {"loop-1": story(*loop_1()), "loop-2": story(*loop_2()), "loop-3": story(*loop_3()), "loop-4": told}
        )
    )
    with serving(script) as server:
        configure(box, server)
        before = box.user_files()
        box.start("--width", "4", "--for", "1h")
        box.wait_until(lambda: noted(box, "loop-4"), "loop-4 is left a note", 400)
        found_out.set()
        runners, daemon = box.runners(), box.daemon_pid()
        os.kill(daemon, signal.SIGKILL)
        box.wait_until(lambda: not box.owned(), "the daemon is dead")
        box.start()
        box.wait_until(lambda: scores(box) == SCORES, f"every loop has its score {SCORES}", 500)
        # A score may be there before the session that made it has ended.
        box.wait_until(lambda: box.outcomes().count("done.next") >= 5, "every session that works has ended", 200)
        panes = {loop: box.pane_text(loop) for loop in SCORES}
        assert (box.runners(), len(box.nights())) == (runners, 1)
        box.stop()
    report = box.report()
    names_the_best(report, box.repo)
    tells_what_the_verifier_says(report, box.repo, tmp_path)
    counts_no_cheat(report, box)
    can_be_taken(report, box.repo, tmp_path)
    meets_the_faults(server)
    gives_reasons_back(server)
    types_the_trouble(box)
    tells_the_cheat(server)
    counts_tokens(report, script)
    shows_sentences(panes)
    hides_the_key(box, panes)
    assert box.user_files() == before


def noted(box: NightBox, loop: str) -> bool:
    """Whether a note for the loop's next session lies there: the intent to leave it has been settled."""
    done = {entry.body.intent for entry in box.journal(events.ActionSettled) if entry.body.result == "done"}
    tells = [entry for entry in box.journal(events.ActionIntended, loop) if entry.body.type == actions.Tell.__name__]
    return any(entry.id in done for entry in tells)


def scores(box: NightBox) -> dict[str, float]:
    return {name: row["best_score"] for name, row in box.loops().items()}


def names_the_best(report: dict[str, Any], repo: Path) -> None:
    (task,) = report["tasks"]
    best = task["best"]
    assert report["schema"] == "ralphd.report/1"
    assert (best["loop"], best["score"]) == ("loop-4", SCORES["loop-4"])
    assert best["counts"]["passed"] == planted.expected_passed(REPAIRED["loop-4"])
    assert task["base_score"] == planted.expected_passed(()) / planted.ALL_PASSED
    assert planted.git(str(repo), "log", "-1", "--format=%s", best["commit"]) == "Fix 3 bugs"
    assert planted.git(str(repo), "rev-parse", task["ref"]) == best["commit"]


def tells_what_the_verifier_says(report: dict[str, Any], repo: Path, tmp_path: Path) -> None:
    """In a fresh clone of the user's repository, run by nobody but this test."""
    for loop in report["loops"]:
        clone = str(tmp_path / "clones" / loop["id"])
        planted.git(str(repo), "clone", "-q", str(repo), clone)
        planted.git(clone, "checkout", "-q", loop["best_commit"])
        assert loop["best_score"] == SCORES[loop["id"]]
        assert planted.verify(clone).passed == round(loop["best_score"] * planted.ALL_PASSED), loop["id"]


def can_be_taken(report: dict[str, Any], repo: Path, tmp_path: Path) -> None:
    """The command that the report offers does what it says."""
    (task,) = report["tasks"]
    clone = str(tmp_path / "taken")
    planted.git(str(repo), "clone", "-q", str(repo), clone)
    planted.git(clone, *shlex.split(task["take"][0])[1:])
    assert planted.git(clone, "rev-parse", "main") == task["best"]["commit"]


def meets_the_faults(server: ModelServer) -> None:
    """The turns of the script that had to be asked again were."""
    asked: dict[tuple[str, int, int], int] = {}
    for request in server.seen():
        place = (_loop(request), request.session, request.turn)
        asked[place] = max(asked.get(place, 0), request.attempt)
    assert {place: attempt for place, attempt in asked.items() if attempt} == {
        ("loop-1", 0, 2): 2,  # 529, 529
        ("loop-1", 1, 2): 1,  # 429 with a retry-after
        ("loop-2", 0, 3): 1,  # a reset
        ("loop-2", 0, 4): 6,  # more resets than the CLI has patience for
    }


def counts_no_cheat(report: dict[str, Any], box: NightBox) -> None:
    cheats = [entry.body for entry in box.journal(events.VerdictGiven, "loop-4") if entry.body.verdict.tampered]
    assert cheats
    assert {(one.verdict.kind, one.submission, one.verdict.tampered) for one in cheats} == {
        (Kind.TAMPERED, False, (planted.TESTS,))
    }
    (task,) = report["tasks"]
    (loop,) = (one for one in report["loops"] if one["id"] == "loop-4")
    assert (task["tampered"], loop["outcomes"]["verify.tampered"]) == (1, 1)
    assert loop["best_commit"] not in {one.verdict.commit for one in cheats}
    assert loop["submissions"] == 1


def gives_reasons_back(server: ModelServer) -> None:
    """The guard's text is the call's own output: it is in the next request that the CLI sends."""
    news = {
        request.turn: request.news for request in server.seen() if (_loop(request), request.session) == ("loop-3", 0)
    }
    assert "Exit code 124" in news[1]
    assert "KILLED by the time limit" in news[1]
    assert "Exit code 137" in news[2]
    assert "KILLED by the memory limit" in news[2]


def types_the_trouble(box: NightBox) -> None:
    tools = [kind for kind in box.outcomes("loop-3") if kind.startswith("tool.")]
    assert tools[:2] == ["tool.timeout", "tool.memory"]  # a slow machine may add a time-out of the project's tests
    attempts = box.journal(records.AttemptEnded)
    # One asks for all: the client of loop-1 meets a refusal that loop-2 waits for, or the other way round.
    met = {
        "loop-1": {Kind.OVERLOADED, Kind.RATE_LIMITED, Kind.CONNECTION},
        "loop-2": {Kind.CONNECTION, Kind.TRUNCATED},
    }
    assert "loop-2" in {entry.loop for entry in attempts}
    assert [entry for entry in attempts if entry.body.outcome.kind not in met[entry.loop]] == []
    assert {entry.trajectory for entry in attempts if entry.loop == "loop-2"} == {1}
    ends = [kind for kind in box.outcomes() if kind.startswith(("done.", "agent."))]
    assert ends.count("done.stopped") == 4
    assert ends.count("done.next") in {5, 6}  # loop-4 may hear in its first session of what it did there
    assert set(ends) == {"done.next", "done.stopped"}
    assert box.outcomes("") == ["daemon.restarted"]


def tells_the_cheat(server: ModelServer) -> None:
    """In the session that runs, whose client takes a note, or else at the head of the next one's prompt."""
    heard = [request.prompt + request.news for request in server.seen() if _loop(request) == "loop-4"]
    told = next(text for text in heard if TOLD_OF_TAMPERING in text)
    assert planted.TESTS in told


def counts_tokens(report: dict[str, Any], script: Ledger) -> None:
    told = {loop["id"]: (loop["tokens_in"], loop["tokens_out"]) for loop in report["loops"]}
    exact = ("loop-1", "loop-3", "loop-4")  # what a broken answer of loop-2's cost is not known to anybody
    assert {loop: told[loop] for loop in exact} == {loop: script.total(loop) for loop in exact}
    assert told["loop-2"][0] >= script.total("loop-2")[0]


def shows_sentences(panes: dict[str, str]) -> None:
    assert "says: Fixed tail." in panes["loop-1"]
    assert "runs: git commit -q -a -m 'Fix derivative'" in panes["loop-2"]
    assert not [line for text in panes.values() for line in text.splitlines() if line.startswith(("{", "["))]


def hides_the_key(box: NightBox, panes: dict[str, str]) -> None:
    """Loop-1 printed it: it may be in the raw log of that session, and nowhere else."""
    folder = box.state / "nights" / box.nights()[-1]
    files = [*box.state.glob("journal.db*"), box.state / "daemon.log", folder / "report.json", folder / "report.md"]
    assert len(files) >= 4
    assert any(KEY in path.read_text() for path in (folder / "loops" / "loop-1" / "logs").glob("*.log"))
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    assert "the key is" in panes["loop-1"]
    assert [loop for loop, text in panes.items() if KEY in text] == []


def _loop(request: Request) -> str:
    return os.path.basename(request.directory)
