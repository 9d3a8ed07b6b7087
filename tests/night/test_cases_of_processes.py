"""What do processes do that agents and their tools start, and what becomes of them?

All parts share one night. Beside it live strangers who look like agents and like us.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cast import bodies, cast, ended, kinds, stranger
from support.loop_of_calls import lives, python
from support.nightbox import NightBox, until
from support.repositories import git

MIB = 1 << 20
TOML = """\
[night]
width = 8
[agent]
cli = "command"
program = "PROGRAM"
[limits]
tool_seconds = 3
tool_memory = "64MiB"
tool_output = "16KiB"
quiet_seconds = 3
result_grace_seconds = 1
[[task]]
name = "main"
[task.verify]
command = "cat score 2>/dev/null || echo 0"
score = 'regex:(\\d+)'
"""
HANGS_AFTER_RESULT = """
cat >/dev/null
if from 2; then alive; fi
echo 7 >score; commit "seven"
echo '{"type": "result", "ok": true, "text": "seven it is"}'
trap '' TERM
sleep 99999 &
echo $! >"$HOME/held"
while pgrep -f "$0" >/dev/null; do sleep 0.2; done
"""
LEAVES_THE_PIPE = """
cat >/dev/null
if from 4; then alive; fi
echo "$RALPHD_TRAJECTORY" >>left; commit "start a server"
(sleep 600 &)
"""
BUSY = "import time; end = time.monotonic() + 8\nwhile time.monotonic() < end: pass"
SILENT_AT_WORK = f"""
cat >/dev/null
if from 2; then alive; fi
{sys.executable} -c {shlex.quote(BUSY)} &
worker=$!
while kill -0 $worker 2>/dev/null; do date >>built; sleep 0.5; done
commit "built in silence"
"""
SILENT_AND_IDLE = "cat >/dev/null\nif from 2; then alive; fi\nexec sleep 99999\n"
ALWAYS_COMMITS = """
cat >/dev/null
if from 9; then alive; fi
sleep 0.3
echo "$RALPHD_TRAJECTORY" >>steps; commit "step $RALPHD_TRAJECTORY"
"""
HOG = python(
    f"held = bytearray(512 * {MIB})\nfor at in range(0, len(held), 4096): held[at] = 1\nimport time; time.sleep(99)"
)
CALLS = f"""
cat >/dev/null
if from 2; then alive; fi
call() {{ "$RALPHD_GUARD" "$1" >out-$2 2>&1; echo "exit $?" >>out-$2; }}
call 'yes >/dev/null' time
call {shlex.quote(HOG)} memory
call '(setsid sleep 777001 &); nohup setsid sleep 777002 >/dev/null 2>&1 & echo going on; sleep 777003' hidden
call 'sleep 777004' same-1
call 'sleep 777004' same-2
call 'seq 1 20000' long
cat "$(sed -n 's/.*\\[ralphd\\].* //p' out-long | head -1)" >spilled
commit "what the calls said"
"""
EXITS = """
cat >/dev/null
case $RALPHD_TRAJECTORY in
1) exit 1 ;;
2) exit 124 ;;
3) exit 137 ;;
4) exit 143 ;;
5) echo 5 >>ends; commit five; kill -9 $$ ;;
6) echo 6 >>ends; commit six; kill -TERM $$; sleep 60 ;;
7) exit 0 ;;
*) alive ;;
esac
"""
HIDES = """
cat >/dev/null
setsid bash -c 'echo $$ >"$HOME/hidden-1"; exec -a opencode sleep 99999' >/dev/null 2>&1 </dev/null &
(env -i HOME="$HOME" setsid bash -c '(trap "" TERM; echo $BASHPID >"$HOME/hidden-2"; exec -a node sleep 99999) &' >/dev/null 2>&1 </dev/null &)
tmux -S "$HOME/agents.sock" -f /dev/null new-session -d 'echo $$ >"$HOME/hidden-3"; exec sleep 99999'
alive
"""
PARTS = {
    "loop-1": HANGS_AFTER_RESULT,
    "loop-2": LEAVES_THE_PIPE,
    "loop-3": SILENT_AT_WORK,
    "loop-4": SILENT_AND_IDLE,
    "loop-5": ALWAYS_COMMITS,
    "loop-6": CALLS,
    "loop-7": EXITS,
    "loop-8": HIDES,
}
SESSIONS = {"loop-1": 1, "loop-2": 3, "loop-3": 1, "loop-4": 1, "loop-5": 8, "loop-6": 1, "loop-7": 7}
pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the night left, after it was stopped."""

    box: NightBox
    report: dict
    ended: dict[str, list[dict]]
    daemons: set[int]
    runners: list[dict[str, int]]
    held_lives: bool  # what held the output of the agent that hung, after that agent's end
    hidden: list[int]
    strangers: list[subprocess.Popen]
    strangers_server: int

    def kinds(self, loop: str) -> list[str]:
        return [body["outcome"]["kind"] for body in self.ended[loop]]

    def row(self, loop: str) -> dict:
        return next(row for row in self.report["loops"] if row["id"] == loop)


def hidden(home: Path) -> list[int]:
    return [int(text) for name in ("1", "2", "3") if (text := read(home / f"hidden-{name}"))]


def read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[subprocess.Popen], int]]:
    """A person's own agent, one with variables that look like ours, and a tmux server with a session named like ours."""
    root = tmp_path_factory.mktemp("strangers")
    tmux = ("tmux", "-S", str(root / "sock"), "-f", "/dev/null")
    like_ours = {"RALPHD_LOOP": "loop-8", "RALPHD_CALL": "1-1", "RALPHD_NONCE": "0" * 32}
    people = [
        stranger("bash", "-c", "exec -a claude sleep 99999"),
        stranger("bash", "-c", "exec -a opencode sleep 99999", **like_ours),
    ]
    subprocess.run([*tmux, "new-session", "-d", "-s", "ralphd", "exec -a claude sleep 99999"], check=True)
    told = subprocess.run([*tmux, "display", "-p", "#{pid}"], check=True, capture_output=True, text=True)
    try:
        yield people, int(told.stdout)
    finally:
        for person in people:
            person.kill()
            person.wait()
        subprocess.run([*tmux, "kill-server"], check=False)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, strangers: tuple[list[subprocess.Popen], int]) -> Iterator[Told]:
    with cast(tmp_path_factory.mktemp("processes"), PARTS, TOML, {"score": "0\n"}) as box:
        box.start("--for", "1h")
        daemons, runners = {box.daemon_pid()}, [box.runners()]
        for loop, count in SESSIONS.items():
            box.wait_until(lambda loop=loop, count=count: len(kinds(box, loop)) >= count, f"{count} sessions of {loop}")
        box.wait_until(lambda: len(hidden(box.home)) == 3, "three hidden processes")
        box.wait_until(lambda: box.rows()["loop-1"]["best_score"] == 7, "the work of loop-1 is judged")
        held_lives = lives(int(read(box.home / "held")))
        daemons.add(box.daemon_pid())
        runners.append(box.runners())
        pids = hidden(box.home)
        assert all(map(lives, pids))
        box.stop()
        yield Told(
            box=box,
            report=box.report(),
            ended={loop: ended(box, loop) for loop in PARTS},
            daemons=daemons,
            runners=runners,
            held_lives=held_lives,
            hidden=pids,
            strangers=strangers[0],
            strangers_server=strangers[1],
        )


def test_an_agent_that_hangs_after_its_result_is_ended_and_its_work_counts(told: Told) -> None:
    """Seen: the result was there, the CLI hung for hours on a `pgrep -f` that found itself, and a time-out threw the work away."""
    first, *_ = told.ended["loop-1"]
    assert first["outcome"]["kind"] == "agent.hung_after_result"
    assert not told.held_lives
    assert told.row("loop-1")["best_score"] == 7
    assert told.row("loop-1")["best_commit"] == first["head_after"]
    assert git(told.box.repo, "show", f"{first['head_after']}:score") == "7"
    assert len(bodies(told.box, "loop-1", "TrajectoryStarted")) >= 2


def test_a_server_that_holds_the_pipe_holds_up_nothing(told: Told) -> None:
    """Seen: the agent had ended, a server it had started kept the pipe, and the reader waited 20 to 80 minutes."""
    first = told.ended["loop-2"][:3]
    assert [body["outcome"]["kind"] for body in first] == ["done.next"] * 3
    assert [body["leftovers"] for body in first] == [1, 1, 1]
    assert all(body["seconds"] < 300 for body in first)


def test_silence_at_work_is_no_hang_and_silence_at_rest_is(told: Told) -> None:
    """Seen: 16 of 17 workers were ended because their log was quiet, while they worked."""
    assert told.kinds("loop-3")[0] == "done.next"
    assert told.ended["loop-3"][0]["seconds"] > 7
    assert told.kinds("loop-4")[0] == "agent.hung"
    assert len(bodies(told.box, "loop-4", "TrajectoryStarted")) >= 2


def test_who_commits_and_leaves_a_clean_tree_is_at_work(told: Told) -> None:
    """Seen: only the dirty tree was looked at; three sessions that had committed everything opened the breaker."""
    assert told.kinds("loop-5")[:8] == ["done.next"] * 8
    assert (told.row("loop-5")["healthy"] >= 8, told.row("loop-5")["commits"] >= 8) == (True, True)


def test_a_session_of_a_third_of_a_second_is_a_session(told: Told) -> None:
    """Seen: whoever succeeded within a second was logged as "failed to start", which cost 30 s, in 16 of 23 rounds."""
    assert bodies(told.box, "loop-5", "Waiting") == []
    assert bodies(told.box, "loop-5", "Held") == []
    assert "agent.start_failed" not in told.row("loop-5")["outcomes"]


def test_a_call_past_a_limit_is_ended_whole_and_its_output_says_why(told: Told) -> None:
    """Seen: the time-out ended the wrapper and not its tree, and the agent read nothing that it could learn from."""
    out = {name: git(told.box.repo, "show", f"{told.ended['loop-6'][0]['head_after']}:out-{name}") for name in
           ("time", "memory", "hidden", "same-1", "same-2", "long")}  # fmt: skip
    assert "KILLED by the time limit" in out["time"]
    assert "3 s" in out["time"]
    assert "KILLED by the memory limit" in out["memory"]
    assert "64.0 MiB" in out["memory"]
    assert out["hidden"].startswith("going on\n")
    ends = {name: text.splitlines()[-1] for name, text in out.items()}
    assert ends == {"time": "exit 124", "memory": "exit 137", "hidden": "exit 124", "same-1": "exit 124",
                    "same-2": "exit 124", "long": "exit 0"}  # fmt: skip
    assert "KILLED by the time limit" in out["same-2"]
    tools = [body["outcome"]["kind"] for body in bodies(told.box, "loop-6", "ToolEnded")]
    assert tools == ["tool.timeout", "tool.memory", "tool.timeout", "tool.timeout", "tool.timeout"]
    assert [left for left in running() if "sleep 77700" in left] == []


def test_what_a_call_printed_past_its_limit_can_be_read(told: Told) -> None:
    """The path that the agent is told leads to all of it, from within the worktree's own session."""
    head = told.ended["loop-6"][0]["head_after"]
    assert git(told.box.repo, "show", f"{head}:spilled").split() == [str(n) for n in range(1, 20001)]
    assert len(git(told.box.repo, "show", f"{head}:out-long")) < 20 * 1024


def test_whatever_an_agent_exits_with_neither_daemon_nor_runner_does(told: Told) -> None:
    """Seen: a child's exit status ended the whole supervisor, without a line."""
    first = told.ended["loop-7"][:7]
    assert [body["outcome"]["detail"].get("code") for body in first[:4]] == [1, 124, 137, 143]
    assert told.kinds("loop-7")[:6] == ["agent.exited"] * 4 + ["agent.signalled"] * 2
    assert [body["outcome"]["detail"]["name"] for body in first[4:6]] == ["SIGKILL", "SIGTERM"]
    assert len(told.daemons) == 1
    assert told.runners[0] == told.runners[1]
    assert told.row("loop-7")["commits"] == 2


def test_what_hid_from_its_agent_is_gone_after_the_stop(told: Told) -> None:
    """Seen: a hang-up of the pane left 200 to 500 MB each behind, under names that nobody looked for."""
    assert len(told.hidden) == 3
    until(lambda: not any(map(lives, told.hidden)), "no hidden process lives", 10)
    assert not Path(told.box.home / "agents.sock").exists() or not any("agents.sock" in line for line in running())


def test_strangers_are_left_alone_whatever_they_are_named(told: Told) -> None:
    """Seen: the clean-up, by name, ended the person's own sessions."""
    assert [person.poll() for person in told.strangers] == [None, None]
    assert lives(told.strangers_server)


def running() -> list[str]:
    """The command line of every process."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
