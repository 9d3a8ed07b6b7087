"""The runner against streams, silences, files and clocks that mean it no good."""

from __future__ import annotations

import json
import os
import pty
import signal
import sys
import time
from pathlib import Path

import pytest
from support.paneloop import RUNNER, PaneLoop, until

WORK = "date +%N >>file.txt\n"


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


def peak_kib(pid: int) -> int:
    return next(
        int(line.split()[1])
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )


def agent_of(body: str) -> str:
    return f"#!{sys.executable} -S\nimport os,sys,time\nw=lambda data: os.write(1, data)\n{body}\nopen('file.txt','a').write('x')\n"


def test_an_endless_line_costs_no_memory_and_its_beginning_and_end_are_logged(make):
    loop = make(agent_of("w(b'A'*9)\nfor _ in range(300): w(b'x'*1048576)\nw(b'Z'*9)"))
    runner = loop.start()
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["outcome"]["kind"] == "done.next"
    assert peak_kib(runner.pid) < 64 << 10
    loop.stop()
    pieces = sorted(name for name in os.listdir(loop.folder / "logs") if name.startswith("001-00001.log"))
    assert pieces == ["001-00001.log", "001-00001.log.2", "001-00001.log.3", "001-00001.log.4"]
    assert Path(ended["log"]).read_bytes()[:10] == b"A" * 9 + b"x"
    assert (loop.folder / "logs" / pieces[-1]).read_bytes()[-10:] == b"x" + b"Z" * 9


def test_a_line_of_five_megabytes_is_read_whole(make):
    text = "y" * 5_000_000
    loop = make(
        agent_of(
            f"import json\nw2=os.fdopen(1,'w')\nw2.write(json.dumps({{'type':'result','ok':True,'text':'y'*{len(text)}+'\\nRALPHD: DONE'}}))\nw2.flush()"
        )
    )
    loop.start()
    assert loop.wait_for("TrajectoryEnded")[0]["claims_done"] is True


@pytest.mark.parametrize(
    "stream",
    [
        b"\x1b]52;c;aGk=\x07\x1b[?1049h\x9b31m\xff\xfe\0\xe2\x80\xae\n" * 50,
        b'{"type":"text","text":"a"}{"type":"text","text":"b"}\n{"type":"te',
        b'{"type":"text","text":"' + "e\u0301".encode() * 100 + "\u0301".encode() * 100_000 + b'"}\n',
        b"[" * 200_000 + b"\n" + b'{"a":' * 100_000 + b"\n",
        b'{"type":"usage","input":1e999,"output":-5,"cost_usd":"x"}\n{"type":[]}\nnull\n',
        b'{"type":"call","id":{"a":1},"tool":5}\n{"type":"return"}\n{"type":"error","status":"\\u0000","retry_after_s":1e300}\n' * 3,
        b"",
    ],
    ids=["bytes", "glued and cut", "combining", "nested", "numbers", "shapes", "nothing"],
)  # fmt: skip
def test_no_stream_breaks_a_session_or_reaches_the_terminal_raw(make, stream):
    loop = make(f"#!/bin/sh\ncat $ROOT/stream\n{WORK}exit 7\n")
    (loop.root / "stream").write_bytes(stream)
    runner = loop.start()
    until(lambda: loop.records("TrajectoryEnded") or loop.records("AttemptEnded"))
    assert "this turn broke" not in loop.text()
    assert runner.poll() is None
    shown = (loop.root / "pane.txt").read_bytes()
    assert not set(shown) & (set(range(32)) - {10, 13} | {127})
    assert "\u202e" not in shown.decode()


def test_logs_that_are_replaced_by_links_and_fifos_are_neither_followed_nor_waited_for(make):
    loop = make(
        "#!/bin/sh\nL=$RALPHD_CALLS/../logs\n"
        "for n in 1 2 3 4; do rm -f $L/001-0000$n.log; ln -s $ROOT/victim $L/001-0000$n.log; done\n"
        "for n in 5 6; do rm -f $L/001-0000$n.log; mkfifo $L/001-0000$n.log; done\necho noise\n" + WORK,
    )  # fmt: skip
    (loop.root / "victim").write_text("precious\n")
    loop.start()
    loop.wait_for("TrajectoryEnded", 7)
    loop.stop()
    assert (loop.root / "victim").read_text() == "precious\n"


def test_forged_records_change_nothing(make):
    loop = make(
        "#!/bin/sh\necho '{\"seq\":40,\"at\":1,\"generation\":1,\"trajectory\":1,\"nonce\":\"0\",\"type\":\"TrajectoryEnded\",\"body\":{}}'"
        " >>$RALPHD_CALLS/../records.jsonl\n" + WORK + "exit 3\n",
    )  # fmt: skip
    loop.start()
    loop.wait_for("TrajectoryEnded", 2)
    loop.stop()
    ends = loop.records("TrajectoryEnded")
    assert all(end["body"]["outcome"]["kind"] != "done.finished" and end["nonce"] != "0" for end in ends)
    assert ends[0]["seq"] > 40


def test_a_loop_folder_that_lost_its_parts_gets_them_back(make):
    loop = make(
        "#!/bin/sh\nrm -rf $RALPHD_CALLS/../logs $RALPHD_CALLS/../tmp $RALPHD_CALLS/../prompts $RALPHD_CALLS/../notes\n"
        + WORK
    )
    loop.start()
    loop.wait_for("TrajectoryEnded", 3)
    assert set(loop.outcomes()) == {"done.next"}


CLAUDE = r"""#!/bin/sh
say() { printf '%s\n' "$1"; }
n=$(cat $ROOT/n 2>/dev/null || echo 0); echo $((n + 1)) >$ROOT/n
echo "$*" >>$ROOT/argv; head -n 1 >$ROOT/stdin.$n
say '{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","model":"m","claude_code_version":"2"}'
say '{"type":"system","subtype":"status","status":"requesting","session_id":"s"}'
if [ $n = 0 ]; then exec sleep 600; fi
date +%N >>file.txt
say '{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"text","text":"Done so far."}],"usage":{"input_tokens":3,"output_tokens":1}}}'
say '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"Done so far.","num_turns":1,"usage":{"input_tokens":30,"output_tokens":10},"total_cost_usd":0.5}'
sleep 600
"""


def test_a_silent_stream_is_cut_and_the_next_attempt_resumes_the_session(make):
    loop = make(CLAUDE, cli="claude", limits={"stream_s": 1.0, "result_grace_s": 0.5})
    loop.start()
    ended = loop.wait_for("TrajectoryEnded")[0]
    loop.stop()
    assert loop.bodies("AttemptEnded")[0]["outcome"]["kind"] == "inference.stalled"
    assert ended["attempts"] == 2
    assert ended["usage"]["tokens_in"] == 30
    first, second = (loop.root / "argv").read_text().splitlines()[:2]
    assert "--session-id" in first
    assert "--resume 11111111-1111-4111-8111-111111111111" in second
    assert b"Go on exactly where you were" in (loop.root / "stdin.1").read_bytes()
    assert b"Do the next thing." in (loop.root / "stdin.0").read_bytes()


@pytest.mark.slow
def test_a_frozen_runner_does_not_take_its_agents_for_hung(make):
    loop = make("#!/bin/sh\necho hello\nexec sleep 12.5\n", limits={"quiet_s": 6.0})
    runner = loop.start()
    until(lambda: "hello" in loop.text())
    time.sleep(3.5)  # two looks at the idle tree
    runner.send_signal(signal.SIGSTOP)
    time.sleep(8)  # the time itself is the matter here
    runner.send_signal(signal.SIGCONT)
    assert loop.wait_for("TrajectoryEnded")[0]["outcome"]["kind"] == "done.noop"
    assert loop.bodies("Repaired")[-1]["outcome"]["kind"] == "host.suspended"


def test_an_agent_that_spoils_the_files_beside_its_index_breaks_nothing(make):
    loop = make(
        '#!/bin/sh\nrm -f "$(git rev-parse --git-dir)/ralphd-stamp"\nmkdir "$(git rev-parse --git-dir)/ralphd-stamp"\n'
        + WORK
    )
    loop.start()
    loop.wait_for("TrajectoryEnded", 3)
    assert loop.outcomes()[:3] == ["done.next"] * 3


def test_a_tool_call_past_its_limit_is_killed_recorded_and_the_session_goes_on(make):
    loop = make(
        f'#!/bin/sh\n[ -e $ROOT/told ] && exec sleep 600\n$RALPHD_GUARD "sleep 600" >$ROOT/told 2>&1\necho "exit $?" >>$ROOT/told\n{WORK}',
        limits={"tool_seconds": 0.5},
    )
    loop.start()
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert loop.bodies("ToolEnded")[0]["outcome"]["kind"] == "tool.timeout"
    assert ended["outcome"]["kind"] == "done.next"
    assert ended["calls"] == 1
    told = (loop.root / "told").read_text()
    assert "KILLED by the time limit" in told
    assert told.endswith("exit 124\n")


def test_a_tool_call_that_runs_long_is_not_silence(make):
    loop = make(f'#!/bin/sh\n$RALPHD_GUARD "sleep 5"\n{WORK}', limits={"quiet_s": 1.0})
    loop.start()
    assert loop.wait_for("TrajectoryEnded")[0]["outcome"]["kind"] == "done.next"


def test_a_full_disk_costs_no_record_and_ends_no_loop(make):
    """A quota of the runner's own stands in for a full disk: it meets ENOSPC or EFBIG where it writes."""
    loop = make(agent_of("for _ in range(40): w(b'x'*65536)"))
    limit = (
        sys.executable,
        "-c",
        "import os,resource,sys; resource.setrlimit(resource.RLIMIT_FSIZE,(1<<20,1<<20)); os.execv(sys.argv[1],sys.argv[1:])",
    )
    runner = loop.start(wrapper=limit)
    loop.wait_for("TrajectoryEnded")
    assert runner.poll() is None
    assert "the log is incomplete" in until(lambda: "incomplete" in loop.text() and loop.text())
    assert loop.stop() == 0


def test_a_broken_order_changes_nothing_and_the_next_good_one_counts(make):
    loop = make("#!/bin/sh\nsleep 600\n")
    runner = loop.start()
    loop.wait_for("AgentStarted")
    for text in ("{", json.dumps({"serial": "x"}), json.dumps({"serial": 9, "want": "explode"}), "[" * 100_000):
        (loop.folder / "order.json").write_text(text)
        loop.ring()
    assert runner.poll() is None
    assert loop.stop() == 0


def test_an_agent_starts_with_no_signal_ignored_and_none_blocked(make):
    loop = make("#!/bin/sh\nexec sleep 600\n")  # a shell that forks blocks signals itself for a moment
    loop.start()
    pid = loop.wait_for("AgentStarted")[0]["pid"]
    until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
    status = Path(f"/proc/{pid}/status").read_text()
    masks = {
        line.split(":")[0]: int(line.split()[1], 16)
        for line in status.splitlines()
        if line.startswith(("SigBlk", "SigIgn"))
    }
    ours = (1 << 31) - 1  # 32 and 33 belong to the C library
    assert {name: mask & ours for name, mask in masks.items()} == {"SigBlk": 0, "SigIgn": 0}


def test_a_worktree_that_goes_during_a_wait_is_repaired_not_held(make):
    loop = make(
        '#!/bin/sh\n[ -e $ROOT/gone ] && exec sleep 600\ntouch $ROOT/gone\nrm -rf $PWD\necho \'{"type":"error","status":529}\'\nexit 1\n'
    )
    loop.start()
    loop.wait_for("AgentStarted", 2)
    assert loop.outcomes() == ["git.worktree_gone"]
    assert loop.bodies("Repaired")[0]["outcome"]["kind"] == "git.worktree_gone"
    assert not loop.records("Held")


def test_ctrl_c_while_the_loop_is_paused_does_not_cut_the_next_session(make):
    loop = make("#!/bin/sh\nsleep 600\n")
    loop.order("paused", bell=False)
    runner = loop.start()
    loop.wait_for("Held")
    runner.send_signal(signal.SIGINT)
    time.sleep(0.3)  # an absence can only be waited for
    loop.order("running")
    loop.wait_for("AgentStarted")
    time.sleep(0.3)
    assert not loop.records("TrajectoryEnded")


def test_keys_in_the_pane_reach_nobody_and_ctrl_c_works_after_any_of_them(make):
    loop = make("#!/bin/sh\n:>$ROOT/got; echo ready\ncat >$ROOT/got\nsleep 600\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-E", str(RUNNER), str(loop.folder)])
    try:
        seen = b""
        while b"ready" not in seen:
            seen += os.read(terminal, 4096)
        for _ in range(20):
            os.write(terminal, b"rm -rf /\r\x13\x1a\x1c\x04" * 100)
        os.write(terminal, b"\x03")
        assert "Ctrl-C" in loop.wait_for("Held")[0]["why"]
        while b"paused: Ctrl-C" not in seen:
            seen += os.read(terminal, 4096)
        assert b"rm -rf" not in seen
        assert (loop.root / "got").read_bytes().count(b"rm") == 0
        os.close(terminal)  # the pane is closed
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        if os.path.exists(f"/proc/{pid}"):
            os.kill(pid, signal.SIGKILL)
    assert loop.records()[-1]["body"]["why"].startswith("SIGHUP")


def test_a_pause_during_a_wait_keeps_the_trajectory(make):
    loop = make('#!/bin/sh\necho \'{"type":"error","status":429,"error":"rate_limit","retry_after_s":500}\'\nexit 1\n')
    loop.start()
    loop.wait_for("Waiting")
    loop.order("paused")
    loop.wait_for("Held")
    loop.order("running")
    loop.wait_for("AgentStarted", 2)
    assert len(loop.records("TrajectoryStarted")) == 1
    assert not loop.records("TrajectoryEnded")


def test_a_working_session_tells_how_far_it_is(make):
    loop = make(
        '#!/bin/sh\necho \'{"type":"usage","input":7,"output":3}\'\necho \'{"type":"compaction"}\'\nsleep 600\n'
    )
    loop.start()
    told = loop.wait_for("Progressed")[0]
    assert (told["usage"]["tokens_in"], told["usage"]["tokens_out"], told["compactions"]) == (7, 3, 1)
    assert told["output_bytes"] > 50


def test_a_turn_that_breaks_costs_its_session_and_is_typed(make):
    loop = make("#!/bin/sh\nexec sleep 600\n", cli="nobody")
    runner = loop.start()
    waiting = loop.wait_for("Waiting", 2)
    assert {body["kind"] for body in waiting} <= {"agent.unknown", "agent.crash_loop"}
    assert runner.poll() is None
    assert "no adapter called 'nobody'" in loop.text()
    assert loop.stop() == 0
