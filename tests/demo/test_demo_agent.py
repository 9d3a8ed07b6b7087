"""Does the demo agent really do what it says, and does what goes wrong really go wrong?"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest

import ralphd.demo.agent as agent_file
from ralphd.demo.agent import LADDER, TROUBLES, moves_text, session_of
from ralphd.demo.repository import build

AGENT = agent_file.__file__
FIELDS = {
    "begin": {"session", "model"},
    "text": {"text"},
    "call": {"id", "tool", "command"},
    "return": {"id", "text", "error", "exit"},
    "error": {"status", "error", "message"},
    "result": {"ok", "text", "done"},
}

# Says which calls came through it; ends an exact search within a second, as a limit would.
GUARD = """#!/bin/sh
echo "$1" >>"$GUARD_LOG"
case $1 in
*--exact*) timeout -s KILL 1 sh -c "$1" || { echo "[ralphd] 96 MiB is the limit"; echo "[ralphd] Instead: less"; exit 137; } ;;
*) exec sh -c "$1" ;;
esac
"""


@pytest.fixture
def repo(tmp_path):
    (tmp_path / "home").mkdir()
    build(str(tmp_path / "demo"))
    return tmp_path / "demo"


@pytest.fixture
def guard(tmp_path):
    script = tmp_path / "guard"
    script.write_text(GUARD)
    script.chmod(0o755)
    return {"RALPHD_GUARD": str(script), "GUARD_LOG": str(tmp_path / "guarded.log")}


def session(repo, loop="x-5", trajectory=1, env=None):
    """One session, as the runner starts it; a loop's number is taken modulo 4, so x-5 is the first."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(repo.parent / "home")}
    environ |= {"RALPHD_LOOP": loop, "RALPHD_TRAJECTORY": str(trajectory)} | (env or {})
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-E", AGENT],
        input=b"the task",
        cwd=repo,
        env=environ,
        capture_output=True,
        check=False,
        timeout=200,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def git(repo, *args):
    return subprocess.run(["git", *args], cwd=repo, check=True, capture_output=True, text=True).stdout.strip()


def length(repo):
    command = [sys.executable, "-I", "score.py"]
    said = subprocess.run(command, cwd=repo, check=True, capture_output=True, text=True).stdout
    return int(said.removeprefix("length: "))


def of(lines, kind):
    return [line for line in lines if line["type"] == kind]


def test_an_honest_session_commits_a_shorter_tour_and_says_so(repo):
    code, lines, errors = session(repo)
    assert (code, errors) == (0, "")
    assert length(repo) < 12_000
    assert git(repo, "log", "-1", "--format=%s") == f"Shorten the tour to {length(repo)}"
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "diff", "--name-only", "HEAD~1").split() == ["NOTES.md", "tour.txt"]
    assert lines[-1] == {
        "type": "result", "ok": True, "text": f"From 22205 to {length(repo)}. There is more to find.", "done": False
    }  # fmt: skip


def test_every_line_is_in_the_protocol_and_no_usage_is_made_up(repo):
    _, lines, _ = session(repo)
    assert all(set(line) == {"type"} | FIELDS[line["type"]] for line in lines)
    assert [line["id"] for line in of(lines, "call")] == [line["id"] for line in of(lines, "return")]
    assert lines[0]["type"] == "begin"


def test_loops_differ_and_a_session_can_be_repeated(tmp_path):
    (tmp_path / "home").mkdir()
    searches = {}
    for folder, loop in (("a", "x-5"), ("b", "x-5"), ("c", "x-6")):
        build(str(tmp_path / folder))
        commands = [line["command"] for line in of(session(tmp_path / folder, loop)[1], "call")]
        searches[folder] = [command for command in commands if "--seed" in command]
    assert searches["a"] == searches["b"]
    assert not set(searches["a"]) & set(searches["c"])


def test_every_call_goes_through_the_guard(repo, guard):
    code, lines, _ = session(repo, env=guard)
    assert code == 0
    guarded = (repo.parent / "guarded.log").read_text().splitlines()
    assert [line["command"] for line in of(lines, "call")] == [said for said in guarded if "diff --quiet" not in said]


@pytest.mark.parametrize(("loop", "method"), [("x-1", "order"), ("x-2", "table")])
def test_an_ended_call_is_read_and_followed_by_smaller_ones(repo, guard, loop, method):
    code, lines, _ = session(repo, loop, 2, guard)
    ended = [line for line in of(lines, "return") if line["error"]]
    assert (code, [line["exit"] for line in ended]) == (0, [137])
    assert any(line["text"].endswith("(exit 137): [ralphd] 96 MiB is the limit") for line in of(lines, "text"))
    commands = [line["command"] for line in of(lines, "call")]
    assert commands[int(ended[0]["id"]) - 1].endswith(f"--exact {method}")
    assert "--rounds" in commands[int(ended[0]["id"])]
    assert length(repo) < 12_000


@pytest.mark.slow
def test_without_a_guard_a_call_that_never_ends_is_ended_all_the_same(repo):
    code, lines, _ = session(repo, "x-1", 2)
    assert (code, [line["exit"] for line in of(lines, "return") if line["error"]]) == (0, [124])


def test_the_exact_table_really_takes_the_memory(repo, monkeypatch):
    """More than the demo's limit of 96 MiB, and not so much that a machine without a guard suffers."""
    monkeypatch.chdir(repo)
    quiet = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    command = [sys.executable, "-I", "solve.py", "--exact", "table"]
    pid = os.posix_spawn(sys.executable, command, dict(os.environ), file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert 150 * 1024 < usage.ru_maxrss < 700 * 1024


def test_a_refused_request_is_reported_and_the_next_attempt_goes_on(repo):
    code, lines, _ = session(repo, "x-3", 2)
    assert (code, [line["type"] for line in lines]) == (1, ["begin", "error"])
    assert (lines[1]["status"], lines[1]["error"]) == (None, "connection")
    assert re.fullmatch(r"connect to 127\.0\.0\.1:\d+: Connection refused", lines[1]["message"])
    assert git(repo, "status", "--porcelain") == ""
    code, lines, _ = session(repo, "x-3", 2)
    assert (code, lines[-1]["type"]) == (0, "result")


def test_a_false_claim_is_a_claim_and_nothing_more(repo):
    code, lines, _ = session(repo, "x-1", 3)
    assert (code, lines[-1]["ok"], lines[-1]["done"]) == (0, True, True)
    assert length(repo) > 7542


def test_a_crash_is_a_signal_and_loses_no_work(repo):
    code, lines, _ = session(repo, "x-2", 3)
    assert code == -signal.SIGSEGV
    assert of(lines, "result") == []
    assert git(repo, "status", "--porcelain") == "M tour.txt"
    session(repo, "x-2", 4)
    assert git(repo, "log", "-1", "--format=%s") == f"Shorten the tour to {length(repo)}"


def test_a_leftover_process_outlives_its_session(repo):
    code, lines, _ = session(repo, "x-4", 2)
    assert code == 0
    left = int(re.fullmatch(r"watching as (\d+)", of(lines, "return")[-1]["text"])[1])
    try:
        assert os.readlink(f"/proc/{left}/cwd") == str(repo)
    finally:
        os.kill(left, signal.SIGTERM)


def test_tampering_is_committed_and_undone_by_the_next_session(repo):
    given = (repo / "score.py").read_text()
    _, lines, _ = session(repo, "x-3", 3)
    assert git(repo, "diff", "--name-only", "HEAD~1") == "score.py"
    assert length(repo) == 7542
    assert lines[-1]["done"] is False
    session(repo, "x-3", 4)
    assert (repo / "score.py").read_text() == given
    assert git(repo, "diff", "--name-only", git(repo, "rev-list", "--max-parents=0", "HEAD"), "--", "score.py") == ""
    assert length(repo) > 7542


def test_a_broken_tour_is_taken_from_the_last_commit_again(repo):
    (repo / "tour.txt").write_text("nonsense")
    code, _, _ = session(repo)
    assert code == 0
    assert length(repo) < 12_000


def test_a_plan_that_is_used_up_is_widened(repo):
    (repo / "NOTES.md").write_text("- session 4, seeds 1 to 3: 9000 -> 9000\n")
    _, lines, _ = session(repo, trajectory=5)
    assert '\nMOVES = ("swap", "two_opt")' in (repo / "solve.py").read_text()
    assert any("used up" in line["text"] for line in of(lines, "text"))
    assert length(repo) < 8500


def test_the_optimum_is_claimed_when_it_is_reached(repo):
    best = """0 48 31 44 18 40 7 8 9 42 32 50 10 51 13 12 46 25 26 27 11 24 3 5 14 4 23 47 37 36 39 38 35 34 33 43 45 15 28 49
    19 22 29 1 6 41 20 16 2 17 30 21"""
    (repo / "tour.txt").write_text(best)
    _, lines, _ = session(repo)
    assert lines[-1]["done"] is True
    assert git(repo, "log", "-1", "--format=%s") == "Shorten the tour to 7542"


def test_the_users_git_configuration_has_no_say(repo):
    home = repo.parent / "home"
    (home / ".gitconfig").write_text(f"[commit]\ngpgsign = true\n[core]\nhooksPath = {home}\n")
    (home / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (home / "pre-commit").chmod(0o755)
    session(repo)
    assert git(repo, "log", "-1", "--format=%an %s") == f"ralphd demo Shorten the tour to {length(repo)}"


def test_each_trouble_happens_within_three_trajectories_of_four_loops():
    for first in (0, 1, 7):
        loops = [f"berlin52-{number:02}" for number in range(first, first + 4)]
        met = [
            session_of({"RALPHD_LOOP": loop, "RALPHD_TRAJECTORY": str(trajectory)}).trouble
            for loop in loops
            for trajectory in (1, 2, 3)
        ]
        assert sorted(filter(None, met)) == sorted(TROUBLES.values())


@pytest.mark.parametrize("environ", [{}, {"RALPHD_LOOP": ""}, {"RALPHD_LOOP": "x", "RALPHD_TRAJECTORY": "-1"}])
def test_it_runs_by_hand_without_the_runners_environment(environ):
    assert session_of(environ).trajectory == 1


def test_the_plans_are_texts_that_solve_py_starts_from(repo):
    assert f"\nMOVES = {moves_text(LADDER[0])} " in (repo / "solve.py").read_text()
    assert all(shlex.quote(moves_text(plan)) == f"'{moves_text(plan)}'" for plan in LADDER)
