"""The daemon is killed wherever it can be, in real nights: nothing is lost or doubled, and no agent notices."""

from __future__ import annotations

import contextlib
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
from support.invariants import assert_each_record_once, assert_one_outcome_each
from support.nightbox import NightBox, night_box
from support.repositories import commit, git, repository

from ralphd.core import clocks, events, records
from ralphd.daemon import failpoints
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
sleep ${NAP:-0.5}
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
    "end_stored",
)
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
            if len(argv) > 2 and argv[-3].endswith(b"pane/runner.py") and argv[-2].startswith(os.fsencode(box.state)):
                found[Path(os.fsdecode(argv[-2])).name] += 1
    return found


def reachable(box: NightBox) -> set[str]:
    (task,) = box.journal(events.TaskAdded)
    bare = Path(task.body.task.night_repository) / "repo.git"
    return set(git(bare, "rev-list", "--all").split())


def must_hold(box: NightBox) -> None:
    entries = box.journal()
    assert_one_outcome_each(entries)
    assert_each_record_once(entries, written(box))
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


def kill_runner(box: NightBox, loop: str) -> None:
    os.kill(box.runners()[loop], signal.SIGKILL)


# ------------------------------------------------------------------ every failpoint


@pytest.mark.slow
def test_a_daemon_that_dies_at_any_step_loses_and_doubles_nothing(box: NightBox) -> None:
    """One night whose daemon is killed at each failpoint in turn; loop-1's runner lives through all of it but the end."""
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
    rest = [name for name in failpoints.NAMES if name not in {*AT_START, *AT_SPAWN, *AT_THE_END, "reported"}]
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
    for failpoint in AT_THE_END[2:]:
        dies(box, failpoint)
        must_hold(box)
        die_at(box, failpoint)
    dies(box, AT_THE_END[-1])
    must_hold_at_the_end(box)
    assert seen <= reachable(box)
    delivered = {line.split("/")[-1] for line in git(box.repo, "for-each-ref", "refs/ralphd/").splitlines()}
    assert {"loop-1", "loop-2"} <= delivered
    box.start("--width", "1")  # the last one is reached only where the one before was passed
    kill_daemon(box)
    die_at(box, "reported")
    die_at(box, "reported", verb="stop")
    dies(box, "reported")
    must_hold_at_the_end(box)


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


def test_every_failpoint_is_in_the_code_once_at_least() -> None:
    package = Path(failpoints.__file__).parents[1]
    code = "\n".join(path.read_text() for path in package.rglob("*.py") if path.name != "failpoints.py")
    missing = [name for name in failpoints.NAMES if f'"{name}"' not in code]
    assert missing == []


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


def adopted_after_s(box: NightBox) -> float:
    """Start a daemon and return after how long it says that every loop runs."""
    began = time.monotonic()
    said = box.start().stdout
    assert f"{WIDTH} of {WIDTH} loops run" in said
    return time.monotonic() - began


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
    moments = random.Random(seed)
    box.start("--width", str(WIDTH), "--for", "2h")
    box.wait_for(records.TrajectoryEnded, WIDTH)
    runners = box.runners()
    took: list[float] = []
    for number in range(KILLS):
        if number % 2:
            kill_while_it_starts(box, moments.uniform(0.0, 1.0))
            took.append(adopted_after_s(box))
        time.sleep(moments.uniform(0.0, 2.0))  # no hope in it: any moment will do
        os.kill(box.daemon_pid(), signal.SIGKILL)
        box.wait_until(lambda: not box.owned(), "the daemon is dead", 30)
        took.append(adopted_after_s(box))
        must_hold(box)
    assert box.runners() == runners, f"seed {seed}"
    assert runner_processes(box) == dict.fromkeys(runners, 1)
    box.stop()
    must_hold_at_the_end(box)
    assert box.report()["outcomes"]["daemon.restarted"] >= KILLS
    ended = {entry.body.outcome.kind.value for entry in box.journal(records.TrajectoryEnded)}
    assert ended <= ENDS_WELL, f"seed {seed}"
    took.sort()
    with capsys.disabled():
        middle, late = took[len(took) // 2], took[min(len(took) - 1, int(len(took) * 0.95))]
        print(f"\nadopted {WIDTH} loops {KILLS} times: median {middle:.2f} s, p95 {late:.2f} s")


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
    box.wait_until(lambda: box.status()["fleet"]["running"] == 2, "it answers again")
    assert (box.runners(), box.daemon_pid()) == (runners, daemon)
    box.stop()
    must_hold_at_the_end(box)
    assert box.outcomes().count("host.suspended") == 1
    assert {e.body.outcome.kind.value for e in box.journal(records.TrajectoryEnded)} <= ENDS_WELL


@pytest.mark.slow
def test_a_daemon_asked_to_go_again_and_again_signals_no_agent(box: NightBox) -> None:
    box.start("--width", "2")
    box.wait_for(records.TrajectoryEnded, 2)
    runners = box.runners()
    for _ in range(3):
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
    box.wait_until(lambda: box.loops()["loop-1"]["state"] == "stopped", "loop-1 has stopped")
    box.wait_for(records.RunnerStopped, 1, "loop-1")
    head = git(box.repo, "-C", str(box.worktree("loop-1")), "rev-parse", "HEAD")
    kill_daemon(box)
    server = peer_pid(socket_path(str(box.state), box.env))
    assert server is not None
    os.kill(server, signal.SIGKILL)
    before = box.runners()["loop-2"]
    box.start()
    box.wait_until(lambda: box.runners()["loop-2"] != before, "loop-2 has a new runner")
    box.wait_until(lambda: box.loops()["loop-2"]["state"] == "running", "loop-2 runs again")
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
