"""The daemon is killed wherever it can be, in real nights: nothing is lost or doubled, and no agent notices."""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.adopting import Adopted, adopt, distribution, late
from support.invariants import Ledger, assert_each_record_once, assert_one_outcome_each
from support.nightbox import NightBox, night_box
from support.repositories import commit, git, repository

from ralphd.core import clocks, events, records
from ralphd.daemon import failpoints, tick
from ralphd.edges.journal import JournalReader
from ralphd.edges.processes import identity
from ralphd.edges.tmux_socket import peer_pid, socket_path

VERIFIER = "cat n 2>/dev/null || echo 0"
# Counts one further, claims that all is done (which the verifier refutes each time, so notes are left), and is quick.
CLAIMS = """#!/bin/sh
cat >/dev/null
n=$(($(cat n 2>/dev/null || echo 0) + 1))
echo $n >n
git add n && git commit -q -m "Count to $n"
echo '{"type":"result","done":true,"text":"RALPHD: DONE"}'
sleep 0.5
"""
CONFIG = """
[agent]
cli = "command"
program = "./agent"
[[task]]
name = "count"
[task.verify]
command = '''cat n 2>/dev/null || echo 0'''
score = "regex:([0-9]+)"
goal = 1000000
"""
AT_START = ("night_cloned", "night_written")
# Those that a spawn passes: one loop loses its runner first.
AT_SPAWN = ("leftovers_ended", "old_windows_closed", "worktrees_made", "runners_assigned", "windows_opened")
AT_THE_END = (
    "closing_begun",
    "closing_leftovers_ended",
    "delivered",
    "server_ended",
    "end_submitted",
)
AFTER_THE_END = ("end_stored", "reported")  # a night each: who died there has nothing to take up
ASKED_FOR = {"order_written": ("resume", "loop-1"), "assignment_written": ("restart", "loop-2")}
ENDS_WELL = {"done.next", "done.noop", "done.stopped", "done.finished", "verify.false_done"}


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    repo = repository(tmp_path / "repo")
    (repo / "PROMPT.md").write_text("Count one further.\n")
    (repo / "agent").write_text(CLAIMS)
    (repo / "agent").chmod(0o755)
    commit(repo, "Ask")
    with night_box(tmp_path, repo) as box:
        box.configure(CONFIG)
        yield box


# ------------------------------------------------------------------ what must hold


def written(box: NightBox) -> dict[str, list[int]]:
    return {loop: [record["seq"] for record in box.records(loop)] for loop in box.runners()}


def runner_processes(box: NightBox) -> Counter[str]:
    """How many runners each loop has, by what runs and not by what anybody wrote down."""
    found: Counter[str] = Counter()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            names = [number for number, word in enumerate(argv) if word.endswith(b"pane/runner.py")]
            if names and argv[names[0] + 1].startswith(os.fsencode(box.state)):
                found[Path(os.fsdecode(argv[names[0] + 1])).name] += 1
    return found


def reachable(box: NightBox) -> set[str]:
    (task,) = box.journal(events.TaskAdded)
    bare = Path(task.body.task.night_repository) / "repo.git"
    return set(git(bare, "rev-list", "--all").split())


class Watched:
    """A box whose journal and runners' records are read on from where they were left the last time."""

    def __init__(self, box: NightBox) -> None:
        self.box = box
        self.ledger = Ledger()
        self.offsets: dict[str, int] = {}

    def must_hold(self) -> None:
        # The journal first: what it holds has been written down before.
        night = self.box.nights()[-1]
        with contextlib.closing(JournalReader.open(str(self.box.state / "journal.db"))) as reader:
            entries = list(reader.entries(night, self.ledger.last_id))
        for loop in self.box.runners():
            self.ledger.wrote(loop, self._written_since(loop))
        self.ledger.took(entries)
        must_be_sound(self.box)

    def _written_since(self, loop: str) -> list[int]:
        with (self.box.folder(loop) / "records.jsonl").open("rb") as file:
            file.seek(self.offsets.get(loop, 0))
            whole, _, _ = file.read().rpartition(b"\n")
        if whole:
            self.offsets[loop] = self.offsets.get(loop, 0) + len(whole) + 1
        return [json.loads(line)["seq"] for line in whole.splitlines()]


def must_hold(box: NightBox) -> None:
    entries = box.journal()
    assert_one_outcome_each(entries)
    assert_each_record_once(entries, written(box))
    must_be_sound(box)


def must_be_sound(box: NightBox) -> None:
    # A runner that starts an agent is two for the moment between fork and exec.
    box.wait_until(lambda: max(runner_processes(box).values(), default=0) <= 1, "no loop has two runners", 20)
    with contextlib.closing(sqlite3.connect(f"file:{box.state}/journal.db?mode=ro", uri=True)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def must_hold_at_the_end(box: NightBox) -> None:
    entries = box.journal()
    assert_one_outcome_each(entries, at_rest=True)
    assert_each_record_once(entries, written(box), whole=True)
    assert len(box.journal(events.NightEnded)) == 1
    counted, told = Counter(box.outcomes()), box.report()["outcomes"]
    assert sum(told.values()) == sum(counted.values())
    settled = {"done.finished", "verify.false_done"}  # a settled claim replaces its trajectory's outcome
    assert {k: n for k, n in told.items() if k not in settled and not k.startswith("done.")} == {
        k: n for k, n in counted.items() if k not in settled and not k.startswith("done.")
    }


def die_at(box: NightBox, failpoint: str, *arguments: str, verb: str = "start") -> None:
    """Let daemons that this verb leaves behind die there."""
    box.env[failpoints.VARIABLE] = f"{failpoint}:kill"
    try:
        box.ralphd(verb, *arguments, code=None)
    finally:
        del box.env[failpoints.VARIABLE]


def dies(box: NightBox, failpoint: str) -> None:
    box.wait_until(lambda: not box.owned(), f"the daemon dies at {failpoint}", 60)
    assert died_at(box)[-1:] == [failpoint], "it died of something else"


def died_at(box: NightBox) -> list[str]:
    """The failpoints that daemons of this box reached, in order."""
    said = re.findall(rf"^{failpoints.SAID} (\w+)$", (box.state / "daemon.log").read_text(), re.MULTILINE)
    return [str(name) for name in said]


def kill_runner(box: NightBox, loop: str) -> None:
    os.kill(box.runners()[loop], signal.SIGKILL)


# ------------------------------------------------------------------ every failpoint


TIMES = int(os.environ.get("RALPHD_TEST_TIMES", "1"))


@pytest.mark.slow
@pytest.mark.timeout(1800)  # over thirty starts, on a machine that may be crowded
@pytest.mark.parametrize("time_", range(1, TIMES + 1))
def test_a_daemon_that_dies_at_any_step_loses_and_doubles_nothing(box: NightBox, time_: int) -> None:
    """RALPHD_TEST_TIMES asks for it so often. One night whose daemon is killed at each failpoint in turn; loop-1's runner lives through all of it but the end."""
    # Slower than the verifier on a crowded machine: a claim that a newer one overtakes is never refuted, and no note left.
    (box.repo / "agent").write_text(CLAIMS.replace("sleep 0.5", "sleep 2"))
    for failpoint in AT_START:
        die_at(box, failpoint, "--width", "2")
        dies(box, failpoint)
    for failpoint in AT_SPAWN:
        die_at(box, failpoint)
        dies(box, failpoint)
        must_hold(box)
    box.start()
    box.wait_for(records.TrajectoryEnded, 1, "loop-1")
    runner, seen = box.runners()["loop-1"], reachable(box)
    rest = [name for name in failpoints.NAMES if name not in {*AT_START, *AT_SPAWN, *AT_THE_END, *AFTER_THE_END}]
    for failpoint in rest:
        kill_daemon(box)
        die_at(box, failpoint)
        if failpoint in ASKED_FOR:
            box.ralphd(*ASKED_FOR[failpoint], code=None)
        dies(box, failpoint)
        must_hold(box)
        now = reachable(box)
        assert seen <= now
        seen = now
    box.start()
    assert box.runners()["loop-1"] == runner, "the runner of loop-1 was disturbed"
    ended = box.journal(records.TrajectoryEnded, "loop-1")
    assert {entry.body.outcome.kind.value for entry in ended} <= ENDS_WELL
    box.wait_until(lambda: set(runner_processes(box).values()) == {1}, "both loops run")
    must_hold(box)
    kill_daemon(box)
    die_at(box, AT_THE_END[0])
    die_at(box, AT_THE_END[1], verb="stop")  # it finds its daemon dead, and closes the night with another one
    for before, failpoint in itertools.pairwise(AT_THE_END[1:]):
        dies(box, before)
        must_hold(box)
        die_at(box, failpoint)
    dies(box, AT_THE_END[-1])
    box.ralphd("stop", code=None)  # the end may have been stored before the daemon died, and then nothing is open
    must_hold_at_the_end(box)
    assert seen <= reachable(box)
    delivered = {line.split("/")[-1] for line in git(box.repo, "for-each-ref", "refs/ralphd/").splitlines()}
    assert {"loop-1", "loop-2"} <= delivered
    for failpoint in AFTER_THE_END:
        box.start("--width", "1")
        kill_daemon(box)
        die_at(box, failpoint)
        die_at(box, failpoint, verb="stop")
        dies(box, failpoint)
        must_hold_at_the_end(box)
    assert Counter(died_at(box)) == dict.fromkeys(failpoints.NAMES, 1)


def kill_daemon(box: NightBox) -> None:
    """Kill whatever daemon of this box runs; one that lost a race for the state may be about to leave besides."""

    def gone() -> bool:
        if box.owned():
            with contextlib.suppress(ProcessLookupError):
                os.kill(own_pid(box), signal.SIGKILL)
        return not box.owned()

    box.wait_until(gone, "the daemon is dead", 30)


def own_pid(box: NightBox) -> int:
    """The pid of this box's daemon by what runs: the lock may have been taken a moment ago, and be unwritten."""
    ours = f"RALPHD_STATE={box.state}".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            daemon = b"--word" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if daemon and ours in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return int(pid)
    raise ProcessLookupError


def test_the_failpoints_in_the_code_are_those_that_have_a_scenario() -> None:
    """The night above dies at each of NAMES; so one that the code has and NAMES doesn't would never be tried."""
    package = Path(failpoints.__file__).parents[1]
    found = {name for path in package.rglob("*.py") for name in passed_in(path.read_text())}
    assert found == set(failpoints.NAMES)


def passed_in(code: str) -> set[str]:
    """The failpoints that a module passes: every text in a call of `hit`, and those of the table that it looks up."""
    tree = ast.parse(code)
    calls = [
        node.args for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "hit"
    ]
    texts = [text for arguments in calls for node in arguments for text in ast.walk(node)]
    if any(getattr(text, "id", "") == "STORED" for text in texts):
        return {text.value for text in texts if isinstance(text, ast.Constant)} | set(tick.STORED.values())
    return {text.value for text in texts if isinstance(text, ast.Constant)}


def test_a_failpoint_that_nobody_tries_would_be_seen() -> None:
    assert passed_in('def go():\n    hit("one")\n    hit("two" if x else "three")\n    other("four")') == {
        "one",
        "two",
        "three",
    }


@pytest.mark.parametrize("text", ["no_such_place:kill", "acted:explode", "acted:kill:0", "acted:kill:often", "acted"])
def test_a_wrong_failpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no such failpoint"):
        failpoints.parse(text)


def test_a_failpoint_acts_at_the_time_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    failpoints.hit("acted")  # off
    monkeypatch.setattr(failpoints, "armed", failpoints.parse("acted:raise:2"))
    failpoints.hit("settling")
    failpoints.hit("acted")
    with pytest.raises(failpoints.Broken):
        failpoints.hit("acted")
    failpoints.hit("acted")


# ------------------------------------------------------------------ random moments

KILLS = int(os.environ.get("RALPHD_TEST_KILLS", "20"))
WIDTH = int(os.environ.get("RALPHD_TEST_WIDTH", "8"))
READY_S = 3.0


def kill_while_it_starts(box: NightBox, after_s: float) -> None:
    """Kill the daemon that runs, and the next one while it comes up, wherever it is."""
    kill_daemon(box)
    argv = [sys.executable, "-m", "ralphd", "start"]
    with subprocess.Popen(argv, cwd=box.repo, env=box.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        time.sleep(after_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(own_pid(box), signal.SIGKILL)
    kill_daemon(box)  # it was not there yet


@pytest.mark.slow
@pytest.mark.timeout(max(1800, 90 * KILLS))  # a crowded machine takes a minute for one
def test_a_daemon_killed_at_random_moments_under_load(box: NightBox, capsys: pytest.CaptureFixture[str]) -> None:
    """RALPHD_TEST_KILLS and RALPHD_TEST_WIDTH ask for more of it."""
    seed = random.randrange(1 << 32)
    moments, watched = random.Random(seed), Watched(box)
    box.start("--width", str(WIDTH), "--for", "2h")
    box.wait_for(records.TrajectoryEnded, WIDTH)
    runners = box.runners()
    took: list[Adopted] = []
    for number in range(KILLS):
        if number % 2:
            kill_while_it_starts(box, moments.uniform(0.0, 1.0))
            took.append(adopt(box, WIDTH))
        time.sleep(moments.uniform(0.0, 2.0))  # no hope in it: any moment will do
        os.kill(box.daemon_pid(), signal.SIGKILL)
        box.wait_until(lambda: not box.owned(), "the daemon is dead", 30)
        took.append(adopt(box, WIDTH))
        watched.must_hold()
    with capsys.disabled():
        print(f"\n{KILLS} kills under {WIDTH} loops, {len(box.journal())} entries, {len(took)} adoptions")
        print(distribution(took))
    assert box.runners() == runners, f"seed {seed}"
    # A runner that starts an agent is two for the moment between fork and exec.
    box.wait_until(lambda: runner_processes(box) == dict.fromkeys(runners, 1), "each loop has one runner", 60)
    box.stop()
    must_hold_at_the_end(box)
    assert box.report()["outcomes"]["daemon.restarted"] >= KILLS
    ended = {entry.body.outcome.kind.value for entry in box.journal(records.TrajectoryEnded)}
    assert ended <= ENDS_WELL, f"seed {seed}"
    # By the clock only on a machine that has nothing else to do; what it takes of a processor is the same on each.
    assert late([one.cpu_s for one in took]) < READY_S


# ------------------------------------------------------------------ frozen, and asked to go over and over


@pytest.mark.slow
def test_a_frozen_daemon_costs_no_loop_anything(box: NightBox) -> None:
    box.start("--width", "2")
    box.wait_for(records.TrajectoryEnded, 2)
    runners, daemon = box.runners(), box.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    told = {loop: len(box.records(loop)) for loop in runners}
    time.sleep(clocks.STOPPED_S + 3.0)  # longer than a busy machine makes a pass wait
    assert all(len(box.records(loop)) > told[loop] for loop in runners), "the loops run on"
    os.kill(daemon, signal.SIGCONT)
    box.wait_until(lambda: "host.suspended" in box.outcomes(), "the gap is noted")
    box.wait_until(lambda: box.glance()["fleet"]["running"] == 2, "it answers again")
    assert (box.runners(), box.daemon_pid()) == (runners, daemon)
    box.stop()
    must_hold_at_the_end(box)
    assert box.outcomes().count("host.suspended") == 1
    assert {e.body.outcome.kind.value for e in box.journal(records.TrajectoryEnded)} <= ENDS_WELL


TERMS = int(os.environ.get("RALPHD_TEST_TERMS", "3"))


@pytest.mark.slow
def test_a_daemon_asked_to_go_again_and_again_signals_no_agent(box: NightBox) -> None:
    """RALPHD_TEST_TERMS asks for so many daemons, each told five times."""
    box.start("--width", "2")
    box.wait_for(records.TrajectoryEnded, 2)
    runners = box.runners()
    for _ in range(TERMS):
        daemon = box.daemon_pid()
        who = identity(daemon)
        for _ in range(5):
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon, signal.SIGTERM)
        began = time.monotonic()
        box.wait_until(lambda who=who, daemon=daemon: identity(daemon) != who, "it goes", 60)
        print(f"gone after {time.monotonic() - began:.1f} s")
        box.start()
    assert box.runners() == runners
    box.stop()
    must_hold_at_the_end(box)
    assert {e.body.outcome.kind.value for e in box.journal(records.TrajectoryEnded)} <= ENDS_WELL


@pytest.mark.slow
def test_of_many_starts_over_one_open_night_one_takes_it_up(box: NightBox) -> None:
    box.start("--width", "2")
    runners = box.runners()
    for _ in range(3):
        kill_daemon(box)
        argv = [sys.executable, "-m", "ralphd", "start"]
        starts = [
            subprocess.Popen(argv, cwd=box.repo, env=box.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(5)
        ]
        assert sorted(start.wait() for start in starts) == [0, 75, 75, 75, 75]
        must_hold(box)
    assert len(box.nights()) == 1
    assert box.runners() == runners


@pytest.mark.slow
def test_a_stopped_loop_stays_stopped_though_everything_died(box: NightBox) -> None:
    """Seen: a worker that was done was found dead after a reboot, started again, and added commits."""
    box.start("--width", "2")
    box.wait_for(records.TrajectoryEnded, 1, "loop-1")
    box.ralphd("stop", "loop-1")
    box.wait_until(lambda: box.rows()["loop-1"]["state"] == "stopped", "loop-1 has stopped")
    box.wait_for(records.RunnerStopped, 1, "loop-1")
    head = git(box.repo, "-C", str(box.worktree("loop-1")), "rev-parse", "HEAD")
    kill_daemon(box)
    server = peer_pid(socket_path(str(box.state), box.env))
    assert server is not None
    os.kill(server, signal.SIGKILL)
    before = box.runners()["loop-2"]
    box.start()
    box.wait_until(lambda: box.runners()["loop-2"] != before, "loop-2 has a new runner")
    box.wait_until(lambda: box.rows()["loop-2"]["state"] == "running", "loop-2 runs again")
    assert box.loops()["loop-1"]["state"] == "stopped"
    assert git(box.repo, "-C", str(box.worktree("loop-1")), "rev-parse", "HEAD") == head
    spawned = [e.loop for e in box.journal(events.ActionIntended) if e.body.type == "SpawnRunner"]
    assert sorted(spawned) == ["loop-1", "loop-2", "loop-2"]


# ------------------------------------------------------------------ another version of it


@pytest.mark.slow
def test_loops_of_an_older_version_are_adopted_by_a_newer_one(box: NightBox) -> None:
    """The runners go on with the code that they were started with, whatever the daemon runs now."""
    older = box.root / "older"
    newer = Path(failpoints.__file__).parents[2]
    for name in ("ralphd", "prompts", "migrations"):
        shutil.copytree(newer / name, older / name, ignore=shutil.ignore_patterns("__pycache__"))
    init = older / "ralphd" / "__init__.py"
    init.write_text(re.sub(r'__version__ = ".*"', '__version__ = "0.0.1"', init.read_text()))
    box.env["PYTHONPATH"] = str(older)
    box.start("--width", "2")
    box.wait_for(records.TrajectoryEnded, 2)
    assert box.status()["daemon"]["version"] == "0.0.1"
    runners = box.runners()
    os.kill(box.daemon_pid(), signal.SIGTERM)
    box.wait_until(lambda: not box.owned(), "the older daemon has gone", 30)
    del box.env["PYTHONPATH"]
    box.start()
    before = len(box.journal(records.TrajectoryEnded))
    box.wait_for(records.TrajectoryEnded, before + 4)
    assert box.status()["daemon"]["version"] != "0.0.1"
    assert box.runners() == runners
    assert {entry.body.version for entry in box.journal(records.RunnerStarted)} == {"0.0.1"}
    box.stop()
    must_hold_at_the_end(box)
    assert {e.body.outcome.kind.value for e in box.journal(records.TrajectoryEnded)} <= ENDS_WELL
