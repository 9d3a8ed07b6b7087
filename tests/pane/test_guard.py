"""The wrapper of a tool call is invisible: what goes in and comes out is the command's own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest
from support.loop_of_calls import GUARD, run_calls

HARD = (
    """printf '%s|' "a  b" 'it'\\''s' "$(echo sub)" `echo tick` $'new\\nline' "🦊" "\\\\" '*' -- "-n" '!' '#'; echo"""
)


def bare(argv, **kwargs):
    return subprocess.run(argv, capture_output=True, check=False, timeout=60, **kwargs)


@pytest.mark.parametrize("status", [0, 1, 3, 124, 137, 255])
def test_the_exit_status_is_the_commands_own(tmp_path, status):
    ran = run_calls(tmp_path / "c", f'$GUARD "echo out; exit {status}"; echo "rc $?"')
    assert ran.out == f"out\nrc {status}\n"
    (closed,) = ran.named("CallClosed")
    assert closed["status"] == status
    assert ran.named("CallKilled") == []


def test_a_command_that_dies_by_a_signal_looks_as_under_a_plain_shell(tmp_path):
    ran = run_calls(tmp_path / "c", "$GUARD 'kill -SEGV $$'; echo \"rc $?\"")
    assert ran.out == f"rc {128 + 11}\n"


def test_quoting_survives(tmp_path):
    expected = bare(["bash", "-c", HARD]).stdout.decode()
    assert expected.startswith("a  b|it's|sub|tick|new\nline|🦊|\\|*|--|-n|!|#|")
    assert run_calls(tmp_path / "c", f"$GUARD {shlex.quote(HARD)}").out == expected


def test_it_serves_as_a_shell_and_for_a_plain_program(tmp_path):
    ran = run_calls(
        tmp_path / "c",
        """
        $GUARD -c 'echo "$0 $1"' zero one
        $GUARD -lc 'shopt -q login_shell && echo login'
        $GUARD -- printf '%s.' 'a b' '$HOME'
        """,
    )
    assert ran.out == "zero one\nlogin\na b.$HOME."
    assert len(ran.named("CallClosed")) == 3


def test_stdin_reaches_the_command_and_output_keeps_its_bytes(tmp_path):
    ran = run_calls(tmp_path / "c", r"""printf 'a\0b\n\nno end' | $GUARD 'cat' | od -An -c""")
    assert ran.out.split() == [*"a", "\\0", *"b", "\\n", "\\n", *"no", *"end"]


def test_closed_streams_are_no_trouble(tmp_path):
    ran = run_calls(tmp_path / "c", '$GUARD "cat; echo out" <&-; $GUARD "echo lost; exit 3" >&- 2>&-; echo rc $?')
    assert (ran.out, ran.err) == ("out\nrc 3\n", "")


def test_both_streams_keep_their_order_when_they_share_a_file(tmp_path):
    ran = run_calls(tmp_path / "c", "$GUARD 'for n in 1 2 3; do echo o$n; echo e$n >&2; done' 2>&1")
    assert ran.out.split() == ["o1", "e1", "o2", "e2", "o3", "e3"]


def test_separate_streams_stay_separate(tmp_path):
    ran = run_calls(tmp_path / "c", "$GUARD 'echo out; echo err >&2'")
    assert (ran.out, ran.err) == ("out\n", "err\n")


@pytest.mark.parametrize("resets", [True, False])
def test_signals_are_not_ignored_inside(tmp_path, resets):
    """A shell starts background commands with INT and QUIT ignored: tests that send INT would hang."""
    env = {} if resets else {"RALPHD_GUARD_ENV": ""}
    ran = run_calls(tmp_path / "c", "$GUARD 'grep SigIgn /proc/self/status'", env=env)
    assert int(ran.out.split()[1], 16) & 0b110 == 0


def test_a_daemon_that_keeps_its_output_open_does_not_hold_up_the_client(tmp_path):
    ran = run_calls(tmp_path / "c", 'x=$($GUARD "echo started; sleep 1000 & exit 0"); echo "got $x"')
    assert ran.out == "got started\n"
    assert len(ran.left) == 1
    assert ran.still == []


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"RALPHD_CALLS": "/nonexistent", "RALPHD_RUNNER": str(os.getpid())},
        {"RALPHD_CALLS": "FIFO", "RALPHD_RUNNER": ""},
        {"RALPHD_CALLS": "FIFO", "RALPHD_RUNNER": "-1"},
        {"RALPHD_CALLS": "FIFO", "RALPHD_RUNNER": "DEAD"},
    ],
)
def test_without_a_runner_the_command_runs_all_the_same(tmp_path, env):
    dead = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    dead.wait()
    os.mkfifo(tmp_path / "bell")
    env = {name: value.replace("FIFO", str(tmp_path)).replace("DEAD", str(dead.pid)) for name, value in env.items()}
    ran = bare([GUARD, "echo out; echo err >&2; exit 5"], env={**os.environ, **env})
    assert (ran.stdout, ran.stderr, ran.returncode) == (b"out\n", b"err\n", 5)


def test_lines_that_are_not_tool_calls_pass_through(tmp_path):
    """claude runs hooks and MCP servers through the same prefix: only lines with its snapshot are tool calls."""
    ran = run_calls(
        tmp_path / "c",
        """
        $GUARD 'echo hook; echo "[$RALPHD_CALL]"'
        $GUARD 'true /shell-snapshots/ && echo "[${RALPHD_CALL:+in}]"'
        """,
        match="/shell-snapshots/",
    )
    assert ran.out == "hook\n[]\n[in]\n"
    assert len(ran.named("CallClosed")) == 1


def test_the_command_is_told_as_the_agent_typed_it(tmp_path):
    typed = "echo 'it'\\''s' && ls"
    line = f"source /h/.claude/shell-snapshots/s.sh 2>/dev/null || true && eval {shlex.quote(typed)} < /dev/null && pwd -P >| /dev/null"
    ran = run_calls(tmp_path / "c", f"$GUARD {shlex.quote(line + ' && sleep 2')} >/dev/null")
    assert ran.named("CallOpened")[0]["command"] == typed


def test_the_first_bash_of_path_guards_and_what_runs_inside_finds_the_real_one(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env bash\necho script $# $BASH; exit 7\n")
    script.chmod(0o755)
    links = tmp_path / "bin"
    links.mkdir()
    (links / "bash").symlink_to(GUARD)
    line = f"{script} a b; echo rc $?; bash {script} c; echo 'echo piped' | bash; bash -c 'exit 5'; echo $?; type -p bash; exit 3"
    ran = run_calls(
        tmp_path / "c",
        f"""
        PATH={links}:$PATH
        {script} outside
        bash {script} outside two
        bash -c {shlex.quote(line)}
        echo rc $?
        echo typed | bash -c 'read -r word; echo "$word ${{RALPHD_CALL:+guarded}} $0"' zero
        """,
    )
    real = shutil.which("bash", path=os.environ["PATH"])
    assert ran.out.splitlines() == [
        f"script 1 {real}",
        f"script 2 {real}",
        f"script 2 {real}",
        "rc 7",
        f"script 1 {real}",
        "piped",
        "5",
        real,
        "rc 3",
        "typed guarded zero",
    ]
    # Two wrappers, each of which ends in its own time: by pid and start, in the order in which they began.
    ended = {
        tuple(map(int, closed["call_id"].split("-")))[::-1]: closed["status"] for closed in ran.named("CallClosed")
    }
    assert [ended[call] for call in sorted(ended)] == [3, 0]
    assert ran.named("CallOpened")[0]["command"].startswith(f"{script} a b; echo rc")


def test_a_line_that_names_a_bash_is_a_line(tmp_path):
    ran = run_calls(tmp_path / "c", "$GUARD 'echo /usr/bin/bash:-c'")
    assert ran.out == "/usr/bin/bash:-c\n"


def test_a_call_of_gemini_is_told_as_the_model_typed_it(tmp_path):
    wrapped = "shopt -u extglob; _bgpids_file=/tmp/x\n(\n  trap 'jobs -p > /dev/null' EXIT\necho one\nsleep 2\n)\n__code=$?\nexit $__code"
    ran = run_calls(tmp_path / "c", f"$GUARD -c {shlex.quote(wrapped)} >/dev/null")
    assert ran.named("CallOpened")[0]["command"] == "echo one sleep 2"


def test_a_loop_started_from_within_a_call_has_calls_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("RALPHD_CALL", "1-1")
    ran = run_calls(tmp_path / "c", '$GUARD "exit 3"')
    assert len(ran.named("CallClosed")) == 1


def test_a_call_inside_a_call_is_the_outer_one(tmp_path):
    ran = run_calls(tmp_path / "c", "$GUARD '$GUARD \"echo inner; exit 4\"; exit $?'; echo rc $?")
    assert ran.out == "inner\nrc 4\n"
    assert len(ran.named("CallClosed")) == 1


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_a_signal_to_the_wrapper_ends_the_tree_and_shows_what_was_printed(tmp_path, name):
    mark = tmp_path / "pids"
    mark.mkdir()
    ran = run_calls(
        tmp_path / "c",
        f"""
        set -m  # else the shell starts the wrapper with INT ignored
        $GUARD 'echo before; trap "" TERM INT HUP; (setsid sleep 1000 &); echo $$ >{mark}/ready; sleep 1000' & wrapper=$!
        until [ -e {mark}/ready ]; do sleep 0.02; done
        kill -{name} $wrapper; wait $wrapper; echo "rc $?"
        """,
    )
    number = {"TERM": 15, "INT": 2, "HUP": 1}[name]
    assert ran.out == f"before\nrc {128 + number}\n"
    assert ran.left == []


def test_a_file_to_append_to_is_written_at_once(tmp_path):
    """claude reads it when its own time is up and kills the wrapper: what was printed by then must be there."""
    shown = tmp_path / "shown"
    shown.touch()
    ran = run_calls(
        tmp_path / "c",
        f"""
        $GUARD 'echo out; echo err >&2; sleep 1000' >>{shown} 2>&1 & wrapper=$!
        until grep -q err {shown}; do sleep 0.02; done
        kill -9 $wrapper; wait $wrapper 2>/dev/null
        $GUARD 'echo more; exit 3' >>{shown} 2>&1; echo "rc $?"
        $GUARD 'echo separate >&2' >>{shown}
        """,
    )
    assert shown.read_text() == "out\nerr\nmore\n"
    assert (ran.out, ran.err) == ("rc 3\n", "separate\n")


def test_a_killed_wrapper_takes_its_tree_along(tmp_path):
    """A client's own time limit kills the wrapper with SIGKILL: what it ran must not live on."""
    ran = run_calls(
        tmp_path / "c",
        f"""
        $GUARD '(setsid sleep 1000 &); touch {tmp_path}/ready; sleep 1000' & wrapper=$!
        until [ -e {tmp_path}/ready ]; do sleep 0.02; done
        sleep 0.1; kill -9 $wrapper; wait $wrapper 2>/dev/null; sleep 1.5
        """,
    )
    assert ran.left == []
    (closed,) = ran.named("CallClosed")
    assert closed["status"] is None
