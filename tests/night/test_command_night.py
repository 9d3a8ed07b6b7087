"""Whole nights through the command line, with any program as the agent: from `start` to a report that is true."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nightbox import NightBox, night_box
from support.repositories import commit, git, repository

from ralphd.core import events, records

VERIFIER = "cat n 2>/dev/null || echo 0"
# Counts one further, commits, and tells so in the protocol of any program.
COUNT = """#!/bin/sh
cat >/dev/null
n=$(($(cat n 2>/dev/null || echo 0) + 1))
echo '{"type":"text","text":"Counting to '$n'."}'
echo $n >n
git add n && git commit -q -m "Count to $n for $RALPHD_LOOP"
echo '{"type":"usage","input":100,"output":7}'
echo '{"type":"result","text":"Counted."}'
sleep 0.4
"""
# The same, in the words of Claude Code's stream.
CLAUDE = f"""#!{sys.executable}
import json, os, subprocess, sys, time
sys.stdin.buffer.readline()
def tell(**event):
    print(json.dumps(event), flush=True)
def block(**content):
    usage = dict(input_tokens=50, output_tokens=4)
    tell(type="assistant", session_id=session, message=dict(id=str(time.time_ns()), type="message", role="assistant",
         model="stub", content=[content], usage=usage))
session = sys.argv[sys.argv.index("--session-id") + 1]
n = int(open("n").read()) + 1 if os.path.exists("n") else 1
tell(type="system", subtype="init", cwd=os.getcwd(), session_id=session, model="stub", claude_code_version="2.1.332")
block(type="text", text=f"Counting to {{n}}.")
block(type="tool_use", id="t1", name="Bash", input=dict(command=f"echo {{n}} >n"))
with open("n", "w") as file:
    file.write(str(n))
tell(type="user", session_id=session,
     message=dict(role="user", content=[dict(type="tool_result", tool_use_id="t1", content="")]))
subprocess.run(["git", "add", "n"], check=True)
subprocess.run(["git", "commit", "-q", "-m", f"Count to {{n}} for {{os.environ['RALPHD_LOOP']}}"], check=True)
tell(type="result", subtype="success", is_error=False, result="Counted.", session_id=session, total_cost_usd=0.01,
     usage=dict(input_tokens=100, output_tokens=8), num_turns=2, terminal_reason="completed")
time.sleep(0.4)
"""
AGENT = {"command": COUNT, "claude": CLAUDE}
TOKENS = {"command": (100, 7), "claude": (100, 8)}

CONFIG = """
[agent]
cli = "{cli}"
program = "./agent"
[[task]]
name = "count"
[task.verify]
command = '''{verifier}'''
score = "regex:([0-9]+)"
{more}
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    """A repository with a prompt; the agent is yet to be written."""
    repo = repository(tmp_path / "repo")
    (repo / "PROMPT.md").write_text("Count one further.\n")
    commit(repo, "Ask")
    with night_box(tmp_path, repo) as box:
        yield box


def agent(box: NightBox, text: str, path: str = "agent") -> None:
    file = box.root / path if path.startswith("bin/") else box.repo / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def configure(box: NightBox, text: str, *, cli: str = "command", verifier: str = VERIFIER, more: str = "") -> None:
    agent(box, text)
    box.configure(CONFIG.format(cli=cli, verifier=verifier, more=more))


def verified(repo: Path, of: str, at: Path, verifier: str = VERIFIER) -> float:
    """What the verifier says of a commit in a fresh clone of the user's repository."""
    git(repo.parent, "clone", "-q", str(repo), str(at))
    git(at, "checkout", "-q", of)
    return float(subprocess.run(["sh", "-c", verifier], cwd=at, capture_output=True, text=True, check=True).stdout)


def is_true(report: dict[str, Any], repo: Path, root: Path) -> None:
    """The schema, and every best score is what the verifier says of its best commit."""
    assert report["schema"] == "ralphd.report/1"
    assert report["night"]["state"] == "ended"
    for loop in report["loops"]:
        assert verified(repo, loop["best_commit"], root / "clones" / loop["id"]) == loop["best_score"], loop
    for task in report["tasks"]:
        best = max(
            (loop for loop in report["loops"] if loop["task"] == task["name"]), key=lambda one: one["best_score"]
        )
        assert task["best"]["score"] == best["best_score"]
        (whole,) = (loop["head"] for loop in report["loops"] if loop["id"] == task["best"]["loop"])
        assert git(repo, "rev-parse", task["ref"]) == whole


@pytest.mark.parametrize("cli", ["command", "claude"])
def test_a_night_from_start_to_a_true_report(box: NightBox, cli: str) -> None:
    configure(box, AGENT[cli], cli=cli)
    before = box.user_files()
    assert "4 of 4 loops run" in box.start("--width", "4", "--for", "10m").stdout
    box.wait_until(lambda: all((row["best_score"] or 0) >= 2 for row in box.rows().values()), "every loop is at 2")
    pane = box.pane_text("loop-1")
    box.stop()
    report = box.report()
    is_true(report, box.repo, box.root)
    assert [loop["id"] for loop in report["loops"]] == ["loop-1", "loop-2", "loop-3", "loop-4"]
    ended = [
        entry for entry in box.journal(records.TrajectoryEnded, "loop-1") if entry.body.outcome.kind == "done.next"
    ]
    assert {(e.body.usage.tokens_in, e.body.usage.tokens_out) for e in ended} == {TOKENS[cli]}
    assert "says: Counting to 1." in pane
    assert not [line for line in pane.splitlines() if "{" in line]
    assert box.user_files() == before
    assert not (box.home / ".local").exists()
    assert os.path.exists(box.state / "journal.db")


def test_a_first_start_needs_neither_configuration_nor_verifier(box: NightBox) -> None:
    """The default agent is found on PATH; nobody judges, so nothing is called the best."""
    agent(box, CLAUDE, "bin/claude")
    box.env["PATH"] = f"{box.root / 'bin'}:{box.env['PATH']}"
    started = box.start("--width", "2")
    assert "no verifier" in started.stderr
    assert "buys little" in started.stderr
    box.wait_for(records.TrajectoryEnded, 2, "loop-1")
    box.wait_for(events.VerdictGiven, 1, "loop-1")
    box.stop()
    report = box.report()
    (task,) = report["tasks"]
    assert (task["name"], task["best"], task["base_score"], task["submissions"]) == ("repo", None, None, 0)
    assert {(loop["best_score"], loop["best_commit"], loop["submissions"]) for loop in report["loops"]} == {
        (None, None, 0)
    }
    verdicts = [entry.body.verdict for entry in box.journal(events.VerdictGiven)]
    assert {(one.unverified, one.score, one.passed) for one in verdicts} == {(True, None, False)}
    heads = {loop["head"] for loop in report["loops"]}
    assert {git(box.repo, "cat-file", "-t", head) for head in heads} == {"commit"}


SEES = """#!/bin/sh
cat >/dev/null
cp .env seen 2>/dev/null; cat src/a.py new.txt >>seen 2>/dev/null; ls -d tests src >>seen 2>&1
git add -A && git commit -q -m See
sleep 600
"""


def seen(box: NightBox) -> str:
    """What the agent of the first loop found in its worktree."""
    box.wait_until(lambda: box.rows()["loop-1"]["head"] not in {None, base(box)}, "the agent has committed")
    return git(box.worktree("loop-1"), "show", "HEAD:seen")


def base(box: NightBox) -> str:
    (task,) = box.journal(events.TaskAdded)
    return task.body.task.base


def test_uncommitted_work_is_left_out_and_that_is_said(box: NightBox) -> None:
    configure(box, SEES)
    (box.repo / "src" / "a.py").write_text("a = 3\n")
    (box.repo / "new.txt").write_text("new\n")
    started = box.start("--width", "1")
    assert "uncommitted paths are left out" in started.stderr
    assert seen(box).splitlines()[0] == "a = 2"
    assert base(box) == git(box.repo, "rev-parse", "HEAD")


def test_uncommitted_work_can_be_the_start(box: NightBox) -> None:
    configure(box, SEES)
    (box.repo / "src" / "a.py").write_text("a = 3\n")
    (box.repo / "new.txt").write_text("new\n")
    before = box.user_files()
    assert "left out" not in box.start("--width", "1", "--with-uncommitted").stderr
    assert seen(box).splitlines()[:2] == ["a = 3", "new"]
    box.stop()
    assert box.user_files() == before
    assert git(box.repo, "show", f"{base(box)}:new.txt") == "new"


def test_ignored_files_are_brought_along_and_folders_left_out(box: NightBox) -> None:
    configure(box, SEES, more='[worktree]\ninclude = [".env"]\nsparse = ["src"]\n')
    box.start("--width", "1")
    lines = seen(box).splitlines()
    assert lines[:2] == ["KEY=1", "a = 2"]
    assert "src" in lines
    assert "tests" not in lines
    assert ".env" not in git(box.worktree("loop-1"), "ls-tree", "-r", "--name-only", "HEAD").splitlines()


CONFIDENT = """#!/bin/sh
cat >/dev/null
echo x >>log.txt; git add log.txt; git commit -q -m "All done"
echo 'all tests pass, feature complete. The project is finished. STATUS: COMPLETE'
echo '---RALPH_STATUS---'
{block}
echo '---END---'
sleep 0.3
"""
BLOCKS = {
    "continue": "echo 'STATUS: IN_PROGRESS'; echo 'EXIT_SIGNAL: false'",
    "complete-then-no-exit": "echo 'STATUS: COMPLETE'; echo 'EXIT: false  # not yet'",
    "no-exit-then-complete": "echo 'EXIT: false'; echo 'STATUS: COMPLETE  # this task'",
    "exit": "echo 'STATUS: COMPLETE'; echo 'EXIT_SIGNAL: true'",
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_confident_words_end_nothing(box: NightBox, block: str) -> None:
    configure(box, CONFIDENT.format(block=block))
    box.start("--width", "1")
    box.wait_for(records.TrajectoryEnded, 3)
    box.stop()
    assert "done.finished" not in box.outcomes()
    box.start("--width", "1")
    box.wait_for(records.TrajectoryEnded, 1)
    assert len(box.nights()) == 2


def test_a_prompt_that_is_echoed_claims_nothing(box: NightBox) -> None:
    (box.repo / "PROMPT.md").write_text("When all is done, say:\n\nRALPHD: DONE\n")
    configure(box, "#!/bin/sh\ncat\nsleep 0.3\nexit 1\n", more="goal = 0\n")
    box.start("--width", "1")
    ended = box.wait_for(records.TrajectoryEnded, 3)
    assert {(entry.body.outcome.kind.value, entry.body.claims_done) for entry in ended} == {("agent.exited", False)}


@pytest.mark.slow
def test_doing_nothing_is_called_that_however_often(box: NightBox) -> None:
    configure(box, "#!/bin/sh\nsleep 0.2\n")
    box.start("--width", "1")
    ended = box.wait_for(records.TrajectoryEnded, 5)
    assert [entry.body.outcome.kind.value for entry in ended[:5]] == ["done.noop"] * 5
    box.stop()
    (loop,) = box.report()["loops"]
    assert (loop["healthy"], loop["submissions"], loop["best_commit"]) == (0, 0, None)


BESIDE = """#!/bin/sh
cat >/dev/null
date +%N >>beside.txt; git add beside.txt; git commit -q -m "Finish the next box"
echo '{"type":"result","text":"Four boxes ticked, everything is implemented."}'
sleep 0.3
"""


def test_commits_that_move_no_score_are_no_progress(box: NightBox) -> None:
    """They keep the loop going all the same: its tree is clean and its branch has moved."""
    configure(box, BESIDE)
    box.start("--width", "1")
    box.wait_for(records.TrajectoryEnded, 5)
    box.wait_for(events.VerdictGiven, 3)
    assert box.loops()["loop-1"]["state"] == "running"
    box.stop()
    report = box.report()
    (task,), (loop,) = report["tasks"], report["loops"]
    assert (task["improved"], task["improved_by"]) == (False, None)
    assert {entry.body.outcome.kind.value for entry in box.journal(records.TrajectoryEnded)} <= {
        "done.next",
        "done.stopped",
    }
    assert loop["commits"] >= 3
    assert (task["submissions"], loop["submissions"]) == (0, 0)
    assert report["totals"]["healthy_with_submission"] == 0


def test_a_killed_daemon_disturbs_no_loop_and_loses_nothing(box: NightBox) -> None:
    configure(box, COUNT)
    box.start("--width", "3", "--for", "10m")
    box.wait_for(records.TrajectoryEnded, 4)
    night, runners, daemon = box.nights(), box.runners(), box.daemon_pid()
    os.kill(daemon, signal.SIGKILL)
    box.wait_until(lambda: not box.owned(), "the daemon is dead")
    told = {loop: len(box.records(loop)) for loop in runners}
    box.wait_until(lambda: all(len(box.records(loop)) > told[loop] + 8 for loop in runners), "the loops run on alone")
    assert box.status_code() == 3
    again = box.start()
    assert f"night {night[0]} is open and its daemon is gone" in again.stderr
    box.wait_for(records.TrajectoryEnded, 12)
    assert (box.nights(), box.runners()) == (night, runners)
    assert box.daemon_pid() != daemon
    box.stop()
    for loop in runners:
        written = [(record["seq"], record["type"]) for record in box.records(loop)]
        stored = [(entry.seq, type(entry.body).__name__) for entry in box.journal(loop=loop) if entry.seq]
        assert stored == written
    report = box.report()
    is_true(report, box.repo, box.root)
    assert report["outcomes"]["daemon.restarted"] == 1


def test_a_daemon_killed_while_it_verifies_leaves_no_verifier_and_no_gap(box: NightBox) -> None:
    """The verdict that was under way is asked for again, and the verifier that nobody waits for any more is ended."""
    stuck = box.root / "stuck"
    once = f"[ ! -e n ] || [ -e {stuck} ] || {{ echo $$ >{stuck}; sleep 500; }}"
    configure(box, COUNT + "sleep 600\n", verifier=f"{once}; {VERIFIER}")
    box.start("--width", "1")
    box.wait_until(lambda: stuck.exists() and stuck.read_text(), "the first commit is being judged")
    os.kill(box.daemon_pid(), signal.SIGKILL)
    box.wait_until(lambda: not box.owned(), "the daemon is dead")
    box.start()
    box.wait_until(lambda: box.rows()["loop-1"]["best_score"] == 1, "the commit has its verdict")
    box.wait_until(lambda: not os.path.exists(f"/proc/{stuck.read_text().strip()}"), "the old verifier has gone")
    box.stop()
    given = [entry.body.verdict for entry in box.journal(events.VerdictGiven, "loop-1")]
    assert [(one.score, one.kind) for one in given] == [(1, None)]


def test_what_was_said_before_the_daemon_died_ends_nothing_after(box: NightBox) -> None:
    (box.repo / "PROMPT.md").write_text("The first question.\n")
    done = 'echo \'{"type":"result","done":true,"text":"RALPHD: DONE"}\'\n'
    configure(box, f"#!/bin/sh\ncat >got.$$; mv got.$$ got\n{done}sleep 0.3\n", more="goal = 9\n")
    box.start("--width", "1")
    box.wait_for(events.ClaimSettled, 1)
    os.kill(box.daemon_pid(), signal.SIGKILL)
    box.wait_until(lambda: not box.owned(), "the daemon is dead")
    (box.repo / "PROMPT.md").write_text("The second question.\n")
    box.start()
    got = box.worktree("loop-1") / "got"
    box.wait_until(lambda: "The second question." in got.read_text(), "a session is asked the second question")
    box.wait_for(records.TrajectoryEnded, 4)
    box.stop()
    assert "done.finished" not in box.outcomes()
    (loop,) = box.report()["loops"]
    assert loop["outcomes"]["verify.false_done"] >= 1


HIDES = """#!/bin/sh
cat >/dev/null
trap '' TERM HUP INT
setsid sh -c 'trap "" TERM HUP INT; exec -a opencode sleep 7777' &
(setsid sh -c 'trap "" TERM; cd /; sleep 7777 & wait' >/dev/null 2>&1 &) &
echo hidden
sleep 7777
"""


def test_stop_ends_what_hides_and_nobody_else(box: NightBox) -> None:
    """A stranger by the name of an agent in a session and a tmux server of its own lives on."""
    configure(box, HIDES.replace("#!/bin/sh", "#!/bin/bash"))
    stranger = agent_of_somebody_else(box)
    theirs = ["tmux", "-S", str(box.state.parent / "theirs"), "-f", os.devnull]
    subprocess.run([*theirs, "new-session", "-d", "-s", "ralphd", "sleep 7777"], check=True, env=box.env_of_strangers())
    try:
        box.start("--width", "2")
        box.wait_until(lambda: "hidden" in box.pane_text("loop-1"), "the agent has hidden its children")
        box.wait_until(lambda: len([one for one in box.left() if "7777" in one]) >= 6, "they run")
        box.stop()
        box.assert_nothing_left()
        assert stranger.poll() is None
        assert subprocess.run([*theirs, "has-session", "-t", "=ralphd"], check=False).returncode == 0
    finally:
        stranger.kill()
        stranger.wait()
        subprocess.run([*theirs, "kill-server"], check=False)


def agent_of_somebody_else(box: NightBox) -> subprocess.Popen[bytes]:
    path = box.root / "bin" / "claude"
    path.parent.mkdir()
    path.symlink_to("/bin/sleep")
    return subprocess.Popen([str(path), "7777"], env=box.env_of_strangers(), cwd=box.repo)


FAILS = """#!/bin/sh
cat >/dev/null
n=$(($(cat n 2>/dev/null || echo 0) + 1)); echo $n >n; git add n; git commit -q -m "Count to $n"
case $n in 1) exit 1 ;; 2) exit 124 ;; 3) exit 137 ;; 4) exit 143 ;; 5) kill -9 $$ ;; esac
sleep 600
"""


def test_no_way_to_end_ends_the_night(box: NightBox) -> None:
    configure(box, FAILS)
    box.start("--width", "1")
    daemon, runners = box.daemon_pid(), box.runners()
    ended = box.wait_for(records.TrajectoryEnded, 5)
    assert (box.daemon_pid(), box.runners()) == (daemon, runners)
    assert {entry.body.outcome.kind.family for entry in ended} == {"agent"}
    assert all(entry.body.outcome.evidence for entry in ended)


REGRETS = """#!/bin/sh
cat >/dev/null
[ ! -e n ] || exit 0
echo 9 >n; git add n; git commit -q -m "Nine"
until [ -e {go} ]; do sleep 0.1; done
echo 1 >n; git commit -q -a --amend -m "One"
"""


def test_the_best_commit_can_be_taken_though_its_loop_left_it_behind(box: NightBox) -> None:
    go = box.root / "go"
    configure(box, REGRETS.format(go=go))
    box.start("--width", "1")
    box.wait_until(lambda: box.rows()["loop-1"]["best_score"] == 9, "nine is verified")
    go.touch()
    box.wait_until(lambda: box.rows()["loop-1"]["score"] == 1, "one is verified")
    box.stop()
    report = box.report()
    is_true(report, box.repo, box.root)
    (task,), (loop,) = report["tasks"], report["loops"]
    assert (loop["best_score"], loop["best_commit"] != loop["head"]) == (9, True)
    git(box.repo, *shlex.split(task["take"][0])[1:])
    assert (box.repo / "n").read_text() == "9\n"


def test_a_night_that_reaches_its_goal_ends_by_itself(box: NightBox) -> None:
    configure(box, COUNT, more="goal = 3\n")
    box.start("--width", "2")
    box.wait_until(lambda: not box.owned(), "the daemon has gone by itself")
    box.assert_nothing_left()
    report = box.report()
    is_true(report, box.repo, box.root)
    (task,) = report["tasks"]
    assert (report["night"]["why_ended"], task["goal_reached"]) == ("goal", True)
    assert task["best"]["score"] >= 3


def test_a_night_ends_when_its_time_is_up(box: NightBox) -> None:
    configure(box, COUNT)
    box.start("--width", "2", "--for", "8s")
    box.wait_until(lambda: not box.owned(), "the daemon has gone by itself")
    box.assert_nothing_left()
    report = box.report()
    is_true(report, box.repo, box.root)
    assert report["night"]["why_ended"] == "time"
    assert {loop["outcomes"].get("done.stopped", 0) for loop in report["loops"]} <= {0, 1}


REFUSED = """#!/bin/sh
cat >/dev/null
[ $RALPHD_LOOP != loop-1 ] || [ -e {mended} ] || {{ echo '{{"type":"error","status":401,"error":"authentication_error"}}'; exit 0; }}
exec ./count
"""


def test_a_refused_key_holds_every_loop_until_it_is_mended(box: NightBox) -> None:
    """Though only one of them has met it yet."""
    mended = box.root / "mended"
    agent(box, COUNT, "count")
    commit(box.repo, "Bring the counter")
    configure(box, REFUSED.format(mended=mended))
    box.start("--width", "2")
    box.wait_until(lambda: {row["state"] for row in box.rows().values()} == {"paused"}, "both loops are held")
    assert "inference.auth" in box.outcomes()
    mended.touch()
    box.ralphd("resume")
    box.wait_until(lambda: all(row["best_score"] for row in box.rows().values()), "both go on")
    box.stop()
    report = box.report()
    is_true(report, box.repo, box.root)
    assert report["outcomes"]["inference.auth"] == 1


TELLTALE = """#!/bin/sh
cat >/dev/null
echo "{\\"type\\":\\"text\\",\\"text\\":\\"keys: $PASSED and $SERVICE_API_KEY\\"}"
echo "keys: $PASSED and $SERVICE_API_KEY" >&2
exit 1
"""


def test_what_opens_doors_is_shown_to_nobody(box: NightBox) -> None:
    """Whether it was passed on or written into ralphd.toml: it stays out of pane, journal, log and report."""
    secrets = {"PASSED": "hunter2-of-the-shell", "SERVICE_API_KEY": "hunter2-of-the-file"}
    box.env["PASSED"] = secrets["PASSED"]
    configure(box, TELLTALE)
    text = (box.repo / "ralphd.toml").read_text()
    given = f'env = {{ SERVICE_API_KEY = "{secrets["SERVICE_API_KEY"]}" }}\nenv_pass = ["PASSED"]\n'
    box.configure(text.replace("[[task]]", f"{given}[[task]]"))
    box.start("--width", "1")
    box.wait_for(records.TrajectoryEnded, 2)
    pane = box.pane_text("loop-1")
    box.stop()
    night = box.state / "nights" / box.nights()[-1]
    logs = [path.read_text() for path in (night / "loops" / "loop-1" / "logs").iterdir()]
    assert all(any(secret in text for text in logs) for secret in secrets.values())
    files = [*box.state.glob("journal.db*"), box.state / "daemon.log", night / "report.json", night / "report.md"]
    assert "keys: " in pane
    for secret in secrets.values():
        assert secret not in pane
        assert [path.name for path in files if secret.encode() in path.read_bytes()] == []


def test_a_stop_ends_the_night_though_the_daemon_dies_over_it(box: NightBox) -> None:
    """Its last commits are judged and its results brought over all the same."""
    configure(box, COUNT, verifier=f"[ ! -e n ] || sleep 2; {VERIFIER}")
    box.start("--width", "1")
    box.wait_for(records.TrajectoryEnded, 2)
    stopping = subprocess.Popen(
        [sys.executable, "-P", "-m", "ralphd", "stop"], cwd=box.repo, env=box.env, stderr=subprocess.PIPE
    )
    box.wait_for(records.RunnerStopped, 1)
    os.kill(box.daemon_pid(), signal.SIGKILL)
    stopping.communicate()
    assert stopping.returncode == 0
    box.assert_nothing_left()
    report = box.report()
    is_true(report, box.repo, box.root)
    assert (len(box.nights()), report["night"]["why_ended"]) == (1, "stopped")


@pytest.mark.slow
def test_nights_from_two_state_folders_lose_no_result(box: NightBox, tmp_path: Path) -> None:
    """Both are the first of their day; a third one begins when the results of those are there already."""
    configure(box, COUNT.replace("for $RALPHD_LOOP", "for $RALPHD_NONCE"))
    found = []
    for name in ("second", "third"):
        (tmp_path / name).mkdir()
    with night_box(tmp_path / "second", box.repo) as second, night_box(tmp_path / "third", box.repo) as third:
        for one in (box, second):
            one.start("--width", "1")
            one.wait_until(lambda one=one: one.rows()["loop-1"]["best_score"], "it has a result")
        assert box.nights() == second.nights()
        for one in (box, second):
            one.stop()
            found += [loop["best_commit"] for loop in one.report()["loops"]]
        third.start("--width", "1")
        assert third.nights() != box.nights()
    for best in found:
        assert git(box.repo, "for-each-ref", "--contains", best, "refs/ralphd/"), best


def test_one_night_serves_two_repositories(box: NightBox) -> None:
    other = repository(box.root / "other")
    (other / "PROMPT.md").write_text("Count here, too.\n")
    commit(other, "Ask")
    agent(box, COUNT)
    task = "[[task]]\nname = {name}\nrepo = {repo}\n[task.verify]\ncommand = {verifier}\nscore = 'regex:([0-9]+)'\n"
    box.configure(
        '[agent]\ncli = "command"\nprogram = "./agent"\n'
        + task.format(name="'here'", repo="'.'", verifier=json.dumps(VERIFIER))
        + task.format(name="'there'", repo=json.dumps(str(other)), verifier=json.dumps(VERIFIER))
    )
    box.start("--width", "2")
    box.wait_until(lambda: all((row["best_score"] or 0) >= 2 for row in box.rows().values()), "both loops are at 2")
    box.stop()
    report = box.report()
    assert [(loop["id"], loop["task"]) for loop in report["loops"]] == [("here-1", "here"), ("there-1", "there")]
    for loop, repo in zip(report["loops"], (box.repo, other), strict=True):
        assert verified(repo, loop["best_commit"], box.root / "clones" / loop["id"]) == loop["best_score"]
    for task, repo in zip(report["tasks"], (box.repo, other), strict=True):
        assert git(repo, "rev-parse", task["ref"]) == task["best"]["commit"]
