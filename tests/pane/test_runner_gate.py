"""Runners that share an account, and what they do while inference refuses: real processes, a gate in a real folder."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.paneloop import PaneLoop, until

LIMITS = {"backoff_min_s": 0.2, "backoff_max_s": 0.4}
# Is refused until there is a file `up`, then answers and works. Notes when each request began and ended.
AGENT = """#!/bin/sh
cat >/dev/null
echo "$NAME begin" >>$SHARED/log
sleep 0.2
if [ -e $SHARED/up ]; then
    echo '{"type":"text","text":"at last"}'
    date +%N >>file.txt; git commit -qam on; sleep 0.2
    exit 0
fi
echo "$NAME end" >>$SHARED/log
cat $SHARED/refusal
exit 1
"""
OVERLOADED = '{"type":"error","status":529,"error":"overloaded_error","message":"Overloaded"}'
FAR = '{"type":"error","status":429,"error":"quota","message":"You have hit your session limit, resets in 5h"}'


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "shared"
    (folder / "gates").mkdir(parents=True, mode=0o700)
    (folder / "refusal").write_text(OVERLOADED)
    return folder


@pytest.fixture
def make(tmp_path, shared):
    loops: list[PaneLoop] = []

    def start(name: str, agent: str = AGENT, **more) -> PaneLoop:
        root = tmp_path / name
        root.mkdir()
        (root / "gates").symlink_to(shared / "gates")  # a loop's night is the folder above its own
        env = {"SHARED": str(shared), "NAME": name, "WAITS": more.pop("waits", "3")}
        limits = {**LIMITS, **more.pop("limits", {})}
        loop = PaneLoop(root, agent, env=env, limits=limits, **{"account": "acc", **more})
        loops.append(loop)
        loop.start()
        return loop

    yield start
    for loop in loops:
        loop.clean_up()


def log(shared: Path) -> list[str]:
    path = shared / "log"
    return path.read_text().splitlines() if path.exists() else []


def test_while_inference_refuses_one_loop_asks_at_a_time_and_an_answer_lets_all_go_on(make, shared):
    loops = [make(name) for name in ("a", "b", "c", "d")]
    for loop in loops:
        loop.wait_for("Waiting")
    since = len(log(shared))
    until(lambda: len(log(shared)) >= since + 16, "eight more requests")
    steps = [line.split()[1] for line in log(shared)[since:]]
    steps = steps[steps.index("begin") :]  # one may have begun before all of them waited
    assert steps == ["begin", "end"] * (len(steps) // 2) + ["begin"] * (len(steps) % 2)
    (shared / "up").touch()
    for loop in loops:
        loop.wait_for("TrajectoryEnded")
        assert loop.outcomes()[0] == "done.next"
        assert len(loop.bodies("TrajectoryStarted")) <= len(loop.bodies("TrajectoryEnded")) + 1
        assert {body["outcome"]["kind"] for body in loop.bodies("AttemptEnded")} <= {"inference.overloaded"}
    assert {body["account"] for what in ("RunnerStarted", "AgentStarted") for body in loops[0].bodies(what)} == {"acc"}


def test_a_runner_that_is_killed_while_it_tries_hands_the_turn_on(make, shared):
    one = make("one")
    one.wait_for("AttemptEnded")
    one.write_agent("#!/bin/sh\ntouch $SHARED/hangs\nexec sleep 600\n")
    until((shared / "hangs").exists, "it tries")
    other = make("other")
    other.wait_for("Waiting")
    (shared / "up").touch()
    one.processes[-1].kill()
    one.processes[-1].wait()
    other.wait_for("TrajectoryEnded")
    assert other.outcomes()[0] == "done.next"


def test_a_person_s_now_has_inference_asked_whatever_the_limit_said(make, shared):
    (shared / "refusal").write_text(FAR)
    one, other = make("one"), make("other")
    (attempt,) = one.wait_for("AttemptEnded")
    assert attempt["wait_s"] > 4.9 * 3600
    assert "resets_at" in attempt["outcome"]["detail"]
    until(lambda: one.bodies("Waiting") and other.bodies("Waiting"), "both wait")
    asked = len(log(shared))
    one.order("running", retry=True, ask=True)
    until(lambda: len(log(shared)) == asked + 2, "it was asked once more, in vain")
    assert len(one.wait_for("AttemptEnded", 2)) == 2
    (shared / "up").touch()
    other.order("running", retry=True, ask=True)
    assert one.wait_for("TrajectoryEnded")
    assert other.wait_for("TrajectoryEnded")
    assert one.outcomes()[0] == other.outcomes()[0] == "done.next"


def test_another_address_is_taken_over_while_inference_is_waited_for(make, shared):
    (shared / "refusal").write_text(FAR)
    loop = make("one")
    loop.wait_for("Waiting")
    (shared / "up").touch()
    loop.assign(replace(loop.assignment, account="another", env={**loop.assignment.env, "NAME": "elsewhere"}))
    loop.wait_for("TrajectoryEnded")
    assert loop.outcomes()[0] == "done.next"
    assert log(shared)[:3] == ["one begin", "one end", "elsewhere begin"]


# Waits by itself, as Claude Code does for an overload; the second process goes on with the same session.
CLAUDE = f"""#!{sys.executable}
import json, os, sys, time
sys.stdin.readline()
def tell(**event):
    print(json.dumps(event), flush=True)
with open(os.environ["SHARED"] + "/argv", "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
again = "--resume" in sys.argv
session = sys.argv[sys.argv.index("--resume" if again else "--session-id") + 1]
if not again and len(open(os.environ["SHARED"] + "/argv").readlines()) > 1:
    time.sleep(600)  # one session is enough; another one would be refused anew
tell(type="system", subtype="init", session_id=session, model="stub")
if not again:
    for attempt in range(1, int(os.environ["WAITS"]) + 1):
        wait = dict(attempt=attempt, max_retries=9, retry_delay_ms=3600000 if attempt == 3 else 100)
        tell(type="system", subtype="api_retry", error_status=529, error="overloaded", **wait)
        time.sleep(0.1)
    time.sleep(600)
tell(type="assistant", message=dict(id="m", role="assistant", model="stub", content=[dict(type="text", text="Well.")]))
tell(type="result", subtype="success", is_error=False, result="Done.", session_id=session, terminal_reason="completed")
"""


def test_a_client_that_would_wait_by_itself_leaves_that_to_the_gate_and_its_session_goes_on(make, shared):
    loop = make("one", CLAUDE, cli="claude", waits="2")
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert (ended["attempts"], ended["outcome"]["detail"]["own_retries"]["overloaded"]) == (2, 2)
    (attempt,) = loop.bodies("AttemptEnded")
    detail = {"status": 529, "message": "overloaded", "client_wait_s": 0.1}
    assert (attempt["outcome"]["kind"], attempt["outcome"]["detail"]) == ("inference.overloaded", detail)
    assert attempt["wait_s"] >= 0.1
    first, second = [json.loads(line) for line in (shared / "argv").read_text().splitlines()][:2]
    assert second[second.index("--resume") + 1] == first[first.index("--session-id") + 1]
    gate = json.loads((shared / "gates" / "acc").read_text())["gate"]
    assert (gate["refusals"], gate["before"]) == (0, 1)


def test_a_client_that_waits_by_itself_is_told_counted_and_cut_short_by_a_person_s_now(make, shared):
    loop = make("one", CLAUDE, cli="claude", account="")  # nobody shares its limits, so nobody asks for it
    until(lambda: any(body["client_waits"] == "overloaded" for body in loop.bodies("Progressed")), "it is told")
    loop.order("running", retry=True, ask=True)
    (attempt,) = loop.wait_for("AttemptEnded")
    assert (attempt["outcome"]["kind"], attempt["outcome"]["detail"]) == ("inference.overloaded", {"asked_anew": True})
    ended = loop.wait_for("TrajectoryEnded")[0]
    assert ended["attempts"] == 2
    retries = ended["outcome"]["detail"]["own_retries"]
    assert retries.pop("waited_s") > 0.2
    assert retries == {"overloaded": 3}
    first, second = [json.loads(line) for line in (shared / "argv").read_text().splitlines()][:2]
    assert second[second.index("--resume") + 1] == first[first.index("--session-id") + 1]
