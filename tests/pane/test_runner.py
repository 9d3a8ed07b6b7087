from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.paneloop import RUNNER, PaneLoop, git, until

COMMIT = "#!/bin/sh\ndate +%N >>file.txt\ngit commit -qam work\n"


@pytest.fixture
def make(tmp_path):
    made = []

    def build(agent: str, **more) -> PaneLoop:
        root = tmp_path / str(len(made))
        root.mkdir()
        made.append(PaneLoop(root, agent, **more))
        return made[-1]

    yield build
    for loop in made:
        loop.clean_up()


def test_sessions_follow_each_other_and_each_has_one_typed_end(make):
    loop = make(COMMIT)
    loop.start()
    ended = loop.wait_for("TrajectoryEnded", 3)
    assert loop.stop() == 0
    assert [body["outcome"]["kind"] for body in ended[:3]] == ["done.next"] * 3
    assert ended[1]["head_before"] == ended[0]["head_after"] != ended[1]["head_after"]
    seqs = [record["seq"] for record in loop.records()]
    assert seqs == list(range(1, len(seqs) + 1))
    starts, ends = ([r["nonce"] for r in loop.records(f"Trajectory{what}")] for what in ("Started", "Ended"))
    assert starts == ends
    assert len(set(starts)) == len(starts)
    assert loop.records()[-1]["type"] == "RunnerStopped"


def test_a_second_runner_leaves_the_loop_to_the_first(make):
    loop = make("#!/bin/sh\nsleep 600\n")
    loop.start()
    loop.wait_for("AgentStarted")
    twin = loop.start()
    assert twin.wait(30) == 75
    assert "another runner owns this loop" in loop.text()
    assert len(loop.records("RunnerStarted")) == 1


def test_the_prompt_reaches_the_agent_byte_for_byte_between_preamble_and_notes(make):
    loop = make("#!/bin/sh\ncat >$ROOT/got\nsleep 600\n")
    exact = b"caf\xc3\xa9 \xff\xfe \x00 RALPHD: DONE\r\n\n"
    loop.prompt.write_bytes(exact)
    (loop.folder / "notes" / "2-b.md").write_text("second")
    (loop.folder / "notes" / "1-a.md").write_text("first")
    loop.start()
    started = loop.wait_for("TrajectoryStarted")[0]
    got = until(lambda: (loop.root / "got").exists() and (loop.root / "got").read_bytes())
    assert got.startswith(b"You are one of many.\n\n" + exact)
    assert got.index(b"first") < got.index(b"second")
    assert started["prompt_bytes"] == len(exact)
    assert (
        started["prompt_sha256"]
        == subprocess.run(["sha256sum", loop.prompt], capture_output=True, text=True, check=True).stdout[:64]
    )
    assert sorted(os.listdir(loop.folder / "notes" / "used")) == ["1-a.md", "2-b.md"]


def test_the_agent_gets_exactly_the_environment_that_was_meant_for_it(make):
    loop = make("#!/bin/sh\nsleep 600\n")
    loop.start(LEAK="1", ANTHROPIC_API_KEY="canary")
    pid = loop.wait_for("AgentStarted")[0]["pid"]
    environ = until(lambda: Path(f"/proc/{pid}/environ").read_text())  # empty until the kernel has set the program up
    names = {entry.split("=")[0] for entry in environ.split("\0") if entry}
    ours = {name for name in names if name.startswith("RALPHD_")}
    assert names - ours == set(loop.assignment.env) | {"TMPDIR"}
    assert ours >= {
        "RALPHD_NIGHT", "RALPHD_LOOP", "RALPHD_TRAJECTORY", "RALPHD_NONCE", "RALPHD_CALLS", "RALPHD_LIMIT_SECONDS",
        "RALPHD_LIMIT_MEMORY", "RALPHD_LIMIT_OUTPUT", "RALPHD_RUNNER", "RALPHD_GUARD", "RALPHD_GUARD_MATCH",
    }  # fmt: skip


def test_an_agent_runs_in_a_session_of_its_own_without_a_stray_descriptor(make):
    loop = make(
        "#!/bin/sh\nset -- $(cat /proc/$$/stat)\necho $$ $6 $(ls /proc/self/fd) >$ROOT/draft\nmv $ROOT/draft $ROOT/me\nsleep 600\n",
    )
    loop.start()
    pid, session, *fds = until(lambda: (loop.root / "me").exists() and (loop.root / "me").read_text().split())
    assert pid == session
    assert fds == ["0", "1", "2", "3"]  # the last is the listing's own


@pytest.mark.parametrize("code", [1, 124, 137, 143])
def test_no_exit_status_of_an_agent_ends_the_runner(make, code):
    loop = make(f"#!/bin/sh\nexit {code}\n")
    runner = loop.start()
    ended = loop.wait_for("TrajectoryEnded", 2)
    assert runner.poll() is None
    assert {body["outcome"]["kind"] for body in ended} <= {"agent.exited", "agent.signalled", "agent.unknown"}


def test_a_signal_that_ends_an_agent_is_named(make):
    loop = make("#!/bin/sh\nkill -SEGV $$\n")
    loop.start()
    assert loop.wait_for("TrajectoryEnded")[0]["outcome"]["kind"] == "agent.signalled"


def test_quick_crashes_in_a_row_slow_down_and_become_a_crash_loop(make):
    loop = make("#!/bin/sh\nexit 3\n", limits={"backoff_min_s": 1.0, "backoff_max_s": 300.0})
    loop.start()
    loop.wait_for("Waiting", 3)
    untils = [(r["at"], r["body"]["until"]) for r in loop.records("Waiting")[:3]]
    assert [round(end - at) for at, end in untils] == [1, 2, 4]


def test_an_agent_that_commits_in_a_blink_is_healthy(make):
    loop = make(COMMIT)
    loop.start()
    assert loop.wait_for("TrajectoryEnded")[0]["outcome"]["kind"] == "done.next"
    assert not loop.records("Waiting")


def test_doing_nothing_is_typed_noop_and_slows_down(make):
    loop = make("#!/bin/sh\nexit 0\n")
    loop.start()
    # The first may come within the same tick of the file clock as the checkout, and so look like work.
    assert [body["outcome"]["kind"] for body in loop.wait_for("TrajectoryEnded", 4)][1:] == ["done.noop"] * 3
    assert loop.records("Waiting")


def test_an_echo_of_the_prompt_never_claims_that_all_is_done(make):
    loop = make("#!/bin/sh\ncat\nexit 1\n")
    loop.prompt.write_text("When all is done, end with the line\nRALPHD: DONE\n")
    loop.start()
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["claims_done"] is False
    assert not ended["outcome"]["kind"].startswith("done.")


def test_a_program_that_is_not_there_holds_the_loop_until_it_is_told_to_try_again(make):
    loop = make(COMMIT, program="/nowhere/agent")
    loop.start()
    held = loop.wait_for("Held")[0]
    assert held["kind"] == "agent.start_failed"
    assert loop.outcomes() == ["agent.start_failed"]
    loop.assign(replace(loop.assignment, program=str(loop.agent)))
    loop.order("running", retry=True)
    loop.wait_for("TrajectoryEnded", 2)
    assert loop.outcomes()[1] == "done.next"


# What an agent leaves behind.


def test_a_child_that_keeps_the_pipe_holds_up_nothing_and_is_ended(make):
    loop = make("#!/bin/sh\necho start\n(sleep 600 &)\ndate +%N >>file.txt\n")
    loop.start()
    began = time.monotonic()
    ended = loop.wait_for("TrajectoryEnded", 2)
    assert time.monotonic() - began < 30
    assert ended[0]["leftovers"] == 1
    [first, *_] = [body["outcome"] for body in loop.bodies("Repaired")]
    assert (first["kind"], first["detail"]) == ("agent.leftover_processes", {"processes": 1})
    assert "ended 1 process that the session left behind" in loop.text()
    assert loop.stop() == 0
    assert loop.left() == []


def test_a_child_that_floods_the_pipe_after_the_end_holds_up_nothing(make):
    loop = make("#!/bin/sh\ndate +%N >>file.txt\nyes &\nsleep 0.2\n")
    loop.start()
    assert loop.wait_for("TrajectoryEnded", 2)[0]["leftovers"] == 1


def test_daemons_that_hide_from_the_agent_are_found_and_ended(make):
    hide = "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nos.closerange(0,99)\ntime.sleep(600)\n"
    loop = make(
        f"#!/bin/sh\ndate +%N >>file.txt\n{sys.executable} -c '{hide}'\nenv -i sh -c 'exec sleep 600' &\nsleep 0.3\n"
    )
    loop.start()
    assert loop.wait_for("TrajectoryEnded")[0]["leftovers"] == 2
    loop.stop()
    assert loop.left() == []


def test_an_agent_that_does_not_exit_after_its_result_is_ended_and_its_work_kept(make):
    loop = make(
        COMMIT + 'echo \'{"type":"result","ok":true,"text":"finished"}\'\nsleep 600 &\ntrap "" TERM\nsleep 600\n',
        limits={"result_grace_s": 0.5},
    )
    loop.start()
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "agent.hung_after_result"
    assert ended["head_after"] != ended["head_before"]
    git("merge-base", "--is-ancestor", ended["head_after"], "ralphd/n1/one", cwd=loop.bare)
    loop.stop()
    assert loop.left() == []


def test_silence_with_an_idle_tree_is_hung(make):
    loop = make("#!/bin/sh\necho hello\nexec sleep 600\n", limits={"quiet_s": 1.0})
    loop.start()
    assert loop.wait_for("TrajectoryEnded")[0]["outcome"]["kind"] == "agent.hung"


def test_silence_with_a_working_child_is_not_hung(make):
    busy = "import time\nend=time.monotonic()+6\nwhile time.monotonic()<end: pass\n"
    loop = make(f"#!/bin/sh\n{sys.executable} -c '{busy}'\ndate +%N >>file.txt\n", limits={"quiet_s": 1.0})
    loop.start()
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "done.next"
    assert ended["seconds"] > 5


def test_ten_compactions_end_a_trajectory_and_a_fresh_one_starts(make):
    loop = make('#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10; do echo \'{"type":"compaction"}\'; done\nsleep 600\n')
    loop.start()
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "done.compaction_limit"
    assert ended["compactions"] == 10
    loop.wait_for("TrajectoryStarted", 2)


# Inference.

OVERLOADED = """#!/bin/sh
n=$(cat $ROOT/n 2>/dev/null || echo 0); echo $((n + 1)) >$ROOT/n
if [ $n -lt 4 ]; then echo '{"type":"error","status":529,"error":"overloaded","message":"Overloaded"}'; exit 1; fi
date +%N >>file.txt
git commit -qam work
sleep 600
"""


def test_overload_is_asked_again_for_ever_within_one_trajectory(make):
    loop = make(OVERLOADED)
    loop.start()
    loop.wait_for("AgentStarted", 5)
    assert [body["attempt"] for body in loop.bodies("AttemptEnded")] == [1, 2, 3, 4]
    assert {body["outcome"]["kind"] for body in loop.bodies("AttemptEnded")} == {"inference.overloaded"}
    assert len(loop.records("TrajectoryStarted")) == 1
    loop.stop()
    ended = loop.bodies("TrajectoryEnded")
    assert [body["attempts"] for body in ended] == [5]


def test_a_wait_named_by_the_server_is_kept_and_cut_short_by_an_order(make):
    loop = make('#!/bin/sh\necho \'{"type":"error","status":429,"error":"rate_limit","retry_after_s":500}\'\nexit 1\n')
    loop.start()
    wait = loop.wait_for("Waiting")[0]
    assert wait["kind"] == "inference.rate_limited"
    assert wait["until"] - time.time() > 400
    loop.order("running", retry=True)
    loop.wait_for("AgentStarted", 2)
    assert loop.wait_for("AttemptEnded")[0]["wait_s"] >= 500


def test_stop_during_a_wait_ends_the_trajectory_as_stopped(make):
    loop = make('#!/bin/sh\necho \'{"type":"error","status":429,"error":"rate_limit","retry_after_s":500}\'\nexit 1\n')
    loop.start()
    loop.wait_for("Waiting")
    assert loop.stop() == 0
    assert loop.outcomes() == ["done.stopped"]


def test_a_limit_told_in_plain_words_with_exit_status_0_is_waited_out_once(make):
    """Seen: it counted as a round that went well, and the next came six seconds later, again and again."""
    loop = make('#!/bin/sh\necho x >>$ROOT/asked\necho "You\'ve hit your session limit, resets in 3h"\n')
    loop.start()
    (attempt,) = loop.wait_for("AttemptEnded")
    assert attempt["outcome"]["kind"] == "inference.quota"
    assert 2.9 * 3600 < attempt["wait_s"] < 3.2 * 3600
    loop.wait_for("Waiting")
    loop.stop()
    assert (loop.root / "asked").read_text() == "x\n"
    assert loop.outcomes() == ["done.stopped"]


def test_a_refused_key_holds_the_loop_until_it_is_told_to_try_again(make):
    loop = make('#!/bin/sh\necho \'{"type":"error","status":401,"error":"authentication_error"}\'\nexit 1\n')
    loop.start()
    assert loop.wait_for("Held")[0]["kind"] == "inference.auth"
    assert loop.outcomes() == ["inference.auth"]
    loop.order("running", retry=True)
    loop.wait_for("Held", 2)


def test_what_an_attempt_did_before_inference_failed_counts_for_its_trajectory(make):
    loop = make(
        "#!/bin/sh\nif [ -e $ROOT/asked ]; then exit 0; fi\ntouch $ROOT/asked\ndate +%N >>file.txt; git commit -qam work\n"
        """echo '{"type":"error","status":529,"error":"overloaded"}'; exit 1\n"""
    )
    loop.start()
    ended = loop.wait_for("TrajectoryEnded", 2)
    assert [(body["attempts"], body["outcome"]["kind"]) for body in ended[:2]] == [(2, "done.next"), (1, "done.noop")]


# Orders.


def test_pause_waits_for_the_end_of_the_session_and_resume_goes_on(make):
    loop = make(COMMIT + "while [ ! -e $ROOT/go ]; do sleep 0.05; done\n")
    loop.start()
    loop.wait_for("AgentStarted")
    loop.order("paused", why="lunch")
    (loop.root / "go").touch()
    assert loop.wait_for("Held")[0] == {"kind": "", "why": "lunch"}
    assert loop.outcomes() == ["done.next"]
    loop.order("running")
    loop.wait_for("TrajectoryStarted", 2)


def test_pause_now_ends_the_session_and_keeps_its_work(make):
    loop = make(COMMIT + "echo ready\nsleep 600\n")
    loop.start()
    until(lambda: "ready" in loop.text())
    loop.order("paused", now=True)
    loop.wait_for("Held")
    ended = loop.bodies("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "done.stopped"
    assert ended["head_after"] != ended["head_before"]
    assert loop.stop() == 0


def test_an_order_is_heeded_even_when_the_bell_was_removed(make):
    loop = make("#!/bin/sh\nrm -f $RALPHD_CALLS/bell\nsleep 600\n")
    runner = loop.start()
    loop.wait_for("AgentStarted")
    loop.order("stopped", bell=False, now=True)
    assert runner.wait(60) == 0
    assert loop.outcomes() == ["done.stopped"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_loop_and_everything_that_it_started(make, number):
    loop = make("#!/bin/sh\nsleep 600 &\nsetsid sleep 600 &\ntrap '' TERM\necho ready\nwait\nsleep 600\n")
    runner = loop.start()
    until(lambda: "ready" in loop.text())
    runner.send_signal(number)
    assert runner.wait(60) == 0
    assert loop.outcomes() == ["done.stopped"]
    assert loop.records()[-1]["body"]["why"].startswith(number.name)
    assert loop.left() == []


def test_ctrl_c_ends_this_session_and_pauses_the_loop(make):
    loop = make("#!/bin/sh\necho ready\nsleep 600\n")
    runner = loop.start()
    until(lambda: "ready" in loop.text())
    runner.send_signal(signal.SIGINT)
    assert "Ctrl-C" in loop.wait_for("Held")[0]["why"]
    assert "paused: Ctrl-C was pressed in the pane" in loop.text()
    assert runner.poll() is None
    loop.order("running")
    loop.wait_for("TrajectoryStarted", 2)


def test_a_missing_prompt_holds_the_loop_until_it_is_back(make):
    loop = make(COMMIT)
    loop.prompt.unlink()
    loop.start()
    assert "is gone" in loop.wait_for("Held")[0]["why"]
    loop.prompt.write_text("back")
    loop.wait_for("TrajectoryEnded")


def test_a_prompt_that_is_a_link_is_refused(make):
    loop = make(COMMIT)
    loop.prompt.rename(loop.root / "secret")
    loop.prompt.symlink_to(loop.root / "secret")
    loop.start()
    assert "symbolic link" in loop.wait_for("Held")[0]["why"]
    assert not loop.records("TrajectoryStarted")


# A runner that died.


def test_a_killed_runner_leaves_one_typed_end_and_the_next_one_goes_on(make):
    loop = make(COMMIT + "echo ready\nsleep 600\n")
    first = loop.start()
    until(lambda: "ready" in loop.text())
    first.kill()
    first.wait()
    assert loop.left()
    loop.start()
    loop.wait_for("TrajectoryStarted", 2)
    ends = loop.records("TrajectoryEnded")
    assert [(r["trajectory"], r["body"]["outcome"]["kind"]) for r in ends] == [(1, "tmux.pane_lost")]
    assert ends[0]["nonce"] == loop.records("TrajectoryStarted")[0]["nonce"]
    assert ends[0]["body"]["leftovers"] >= 1
    assert [r["trajectory"] for r in loop.records("TrajectoryStarted")] == [1, 2]


def test_what_an_earlier_runner_recorded_never_ends_the_next_one(make):
    loop = make(COMMIT + 'echo \'{"type":"result","ok":true,"text":"RALPHD: DONE"}\'\n')
    first = loop.start()
    assert loop.wait_for("TrajectoryEnded")[0]["claims_done"] is True
    first.kill()
    first.wait()
    before = len(loop.outcomes())
    loop.prompt.write_text("Another task.\n")
    loop.start()
    loop.wait_for("TrajectoryEnded", before + 2)


# The worktree.


def test_a_worktree_that_its_agent_removed_is_checked_out_again(make):
    loop = make(
        "#!/bin/sh\nif [ -e file.txt ] && [ ! -e $ROOT/done ]; then touch $ROOT/done; rm -rf $PWD; exit 0; fi\nsleep 600\n"
    )
    loop.start()
    repaired = loop.wait_for("Repaired")[0]
    assert repaired["outcome"]["kind"] == "git.worktree_gone"
    loop.wait_for("AgentStarted", 2)
    assert (loop.worktree / "file.txt").exists()


def test_a_branch_that_moved_back_is_put_back(make):
    loop = make(
        "#!/bin/sh\nif [ -e $ROOT/third ]; then sleep 600; fi\n"
        "if [ -e $ROOT/second ]; then git reset -q --hard HEAD~1; touch $ROOT/third; exit 0; fi\n"
        "touch $ROOT/second\ndate +%N >>file.txt\ngit commit -qam work\n",
    )
    loop.start()
    assert loop.wait_for("Repaired")[0]["outcome"]["kind"] == "git.branch_moved"
    loop.wait_for("AgentStarted", 3)
    assert git("rev-parse", "ralphd/n1/one", cwd=loop.bare) == loop.bodies("TrajectoryEnded")[0]["head_after"]


BACK_AT_THE_END = """#!/bin/sh
if [ -e $ROOT/second ]; then git reset -q --hard HEAD~1; touch $ROOT/moved; sleep 600; fi
touch $ROOT/second
date +%N >>file.txt
git commit -qam work
"""


def test_a_branch_that_the_last_session_moved_back_is_put_back_when_the_loop_stops(make):
    loop = make(BACK_AT_THE_END)
    loop.start()
    until((loop.root / "moved").exists)
    loop.order("stopped", now=True)
    loop.wait_for("RunnerStopped")
    assert [body["outcome"]["kind"] for body in loop.bodies("Repaired")] == ["git.branch_moved"]
    assert git("rev-parse", "ralphd/n1/one", cwd=loop.bare) == loop.bodies("TrajectoryEnded")[0]["head_after"]


def test_a_branch_that_the_last_session_renamed_is_there_again_before_a_pause_begins(make):
    loop = make(
        "#!/bin/sh\nif [ -e $ROOT/second ]; then git branch -m other; touch $ROOT/moved; sleep 600; fi\n"
        "touch $ROOT/second\ndate +%N >>file.txt\ngit commit -qam work\n"
    )
    loop.start()
    until((loop.root / "moved").exists)
    loop.order("paused", now=True)
    loop.wait_for("Held")
    assert git("rev-parse", "ralphd/n1/one", cwd=loop.bare) == loop.bodies("TrajectoryEnded")[0]["head_after"]
    assert loop.stop() == 0


def test_a_branch_that_was_moved_back_during_a_pause_is_left_as_it_is_when_the_loop_stops(make):
    loop = make("#!/bin/sh\ndate +%N >>file.txt\ngit commit -qam work\n")
    loop.start()
    loop.wait_for("TrajectoryEnded", 2)
    loop.order("paused")
    loop.wait_for("Held")
    git("reset", "-q", "--hard", "HEAD~1", cwd=loop.worktree)
    tip = git("rev-parse", "HEAD", cwd=loop.worktree)
    assert loop.stop() == 0
    assert loop.bodies("Repaired") == []
    assert git("rev-parse", "ralphd/n1/one", cwd=loop.bare) == tip


def test_a_new_generation_begins_at_its_commit_and_what_was_there_is_saved(make):
    loop = make("#!/bin/sh\necho precious >>file.txt\necho new >untracked.txt\necho ready\nsleep 600\n")
    loop.start()
    until(lambda: "ready" in loop.text())
    loop.write_agent("#!/bin/sh\nsleep 600\n")
    loop.assign(replace(loop.assignment, generation=2, reset_to=loop.base))
    loop.order("running", now=True)
    loop.wait_for("Prepared", 2)
    ref = loop.bodies("Repaired")[-1]["ref"]
    assert "precious" in git("show", f"{ref}:file.txt", cwd=loop.bare)
    assert git("show", f"{ref}:untracked.txt", cwd=loop.bare) == "new"
    loop.wait_for("AgentStarted", 2)
    assert (loop.worktree / "file.txt").read_text() == "one\n"
    assert not (loop.worktree / "untracked.txt").exists()
    assert {r["generation"] for r in loop.records("TrajectoryStarted")} == {1, 2}


def test_a_runner_uses_no_number_that_the_journal_has(make):
    """After a power cut the journal may hold records that the loop's file has lost."""
    loop = make("#!/bin/sh\ncat >/dev/null\n", after_seq=500, after_trajectory=7)
    loop.start()
    loop.wait_for("TrajectoryStarted")
    assert (loop.records()[0]["seq"], loop.records("TrajectoryStarted")[0]["trajectory"]) == (501, 8)
    assert loop.stop() == 0


# One of many that come back at once.


def test_a_runner_that_is_to_begin_late_does_and_does_nothing_before(make):
    loop = make("#!/bin/sh\ncat >/dev/null\n")
    loop.start("1.5")
    loop.wait_for("TrajectoryStarted")
    (runner,), session = loop.records("RunnerStarted"), loop.records("TrajectoryStarted")[0]
    assert session["at"] - runner["at"] >= 1.5
    assert "begins in 1.5 s" in loop.text()
    assert loop.stop() == 0


@pytest.mark.parametrize("what", ["stopped", "paused"])
def test_a_runner_that_is_to_begin_late_is_told_meanwhile_what_else_is_wanted(make, what):
    loop = make("#!/bin/sh\ncat >/dev/null\n")
    process = loop.start("86400")
    until(lambda: "begins in" in loop.text())
    loop.order(what)
    if what == "paused":
        loop.wait_for("Held")
        loop.order("running")
        loop.wait_for("TrajectoryEnded")
        loop.stop()
    loop.wait_for("RunnerStopped")
    assert process.wait(30) == 0
    assert bool(loop.records("TrajectoryStarted")) == (what == "paused")


@pytest.mark.parametrize("words", [["soon"], ["-1"], ["nan"], ["inf"], ["1", "2"]])
def test_a_runner_that_is_told_nonsense_says_how_it_is_used(make, words):
    loop = make("#!/bin/sh\n")
    assert loop.start(*words).wait(30) == 2
    assert "usage: runner.py LOOPDIR [SECONDS_LATE]" in loop.text()
    assert loop.records() == []


# What it costs.


def _children_free_memory_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_Dirty"))


HEAVY = {"typing", "inspect", "subprocess", "pathlib", "tempfile", "random", "datetime", "logging", "shutil", "argparse",
         "threading", "asyncio", "hashlib", "_hashlib", "socket", "sqlite3", "tokenize", "ast", "importlib.util",
         "collections", "operator", "reprlib", "keyword", "copy"}  # fmt: skip


def test_the_runner_loads_no_heavy_module():
    code = f"import runpy,sys\nsys.argv=['x']\nsys.path.insert(0,{str(RUNNER.parents[2])!r})\nimport ralphd.pane.begin,ralphd.agents.claude,ralphd.pane.mend\nprint(*sys.modules)".replace(
        "runpy,", ""
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-E", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert HEAVY & set(loaded.split()) == set()


def test_a_runner_at_work_takes_little_memory(make):
    loop = make("#!/bin/sh\ncat\necho ready\nsleep 600\n")
    loop.start()  # compiles what was never compiled, which would count
    loop.wait_for("AgentStarted")
    loop.stop()
    loop.order("running", bell=False)
    runner = loop.start()
    loop.wait_for("AgentStarted", 2)
    assert _children_free_memory_kib(runner.pid) < 6.5 * 1024


@pytest.mark.parametrize(
    ("says", "model"),
    [
        ('{"type":"begin","model":"told-2"}\n{"type":"usage","input":7,"output":3}', "told-2"),
        ('{"type":"usage","input":7,"output":3}', "chosen-1"),
        ("no tokens", ""),
    ],
)
def test_tokens_are_told_with_the_model_that_used_them(make, says, model):
    loop = make(f"#!/bin/sh\necho '{says}'\n", model="chosen-1")
    loop.start()
    usage = loop.wait_for("TrajectoryEnded")[0]["usage"]
    assert (usage["model"], usage["tokens_in"]) == (model, 7 if model else None)


def test_what_an_attempt_cost_is_unknown_as_soon_as_one_of_them_tells_tokens_and_no_cost(make):
    """What was told would be less than it cost; a price list makes more of all the tokens."""
    loop = make(
        """#!/bin/sh
n=$(cat $ROOT/n 2>/dev/null || echo 0); echo $((n + 1)) >$ROOT/n
if [ $n = 1 ]; then cost=; else cost=',"cost_usd":0.5'; fi
echo '{"type":"usage","input":10,"output":1'"$cost"'}'
if [ $n -lt 2 ]; then echo '{"type":"error","status":529,"error":"overloaded","message":"busy"}'; exit 1; fi
"""
    )
    loop.start()
    usage = loop.wait_for("TrajectoryEnded", 2)
    assert [(body["attempts"], body["usage"]["tokens_in"], body["usage"]["cost_usd"]) for body in usage[:2]] == [
        (3, 30, None),
        (1, 10, 0.5),
    ]
