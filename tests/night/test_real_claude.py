"""The real Claude Code CLI, told what to do by the scripted model only, works in a real project."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import planted, real_claude
from support.chapters import cheat, repair
from support.model_script import (
    Script,
    bash,
    fault,
    once,
    reset_mid_stream,
    say,
    session,
    stories,
    story,
    using,
)
from support.model_server import ModelServer, serving
from support.planted import Planted

pytestmark = [pytest.mark.real, pytest.mark.slow]

FULL = (1, 6)  # steps after which the context is full; two in a row would be called thrashing
WRAPPER = """#!/bin/sh
case "$1" in
*/shell-snapshots/*) ;;
*) exec /bin/bash -c "$1" ;;
esac
echo some output
echo "[guard] tool call killed after 3 s: it ran past its limit" >&2
exit 124
"""


@pytest.fixture
def project(tmp_path: Path) -> Planted:
    return planted.plant(str(tmp_path / "loop-1"))


def drive(server: ModelServer, cwd: str, home: Path, prompt: str = "Fix a bug.", **more: str) -> real_claude.Run:
    return real_claude.run(prompt, cwd=cwd, env=real_claude.environment(server.base_url, str(home), **more))


def in_loop(*steps: object) -> Script:
    return stories({"loop-1": story(session(*steps))})


def test_it_reads_edits_tests_and_commits(project: Planted, tmp_path: Path) -> None:
    bug = project.bugs[0]
    with serving(in_loop(*repair(bug))) as server:
        run = drive(server, project.repo, tmp_path / "home")
    assert run.status == 0, run.stderr
    assert planted.git(project.repo, "log", "-1", "--format=%s") == f"Fix {bug.name}"
    assert planted.git(project.repo, "diff", "--name-only", project.commit, "HEAD") == bug.file
    assert planted.verify(project.repo).passed == planted.expected_passed((bug,))
    assert server.contains("1 passed")
    assert not server.strangers


def test_its_stream_says_what_happened(project: Planted, tmp_path: Path) -> None:
    with serving(in_loop(*(using(step, tokens_in=50) for step in repair(project.bugs[0])))) as server:
        run = drive(server, project.repo, tmp_path / "home")
    said = run.kinds()
    assert said[0] == "system/init"
    assert said[-1] == "result/success"
    assert (said.count("assistant"), said.count("user")) == (5, 4)
    assert run.events[0]["cwd"] == project.repo
    result = run.events[-1]
    assert (result["is_error"], result["terminal_reason"]) == (False, "completed")
    assert (result["num_turns"], result["usage"]["input_tokens"], result["result"]) == (5, 250, "Fixed tail.")
    assert [block.get("is_error", False) for block in run.tool_results()] == [False] * 4


def test_every_request_says_where_it_is_from(project: Planted, tmp_path: Path) -> None:
    planted.git(project.repo, "checkout", "-q", "-b", "ralphd/n1/loop-1")
    with serving(in_loop(bash("echo first result"), say("done"))) as server:
        run = drive(server, project.repo, tmp_path / "home", prompt="The prompt's exact words.")
    requests = [request for request in server.seen() if request.kind == "main"]
    assert [(request.turn, request.attempt) for request in requests] == [(0, 0), (1, 0)]
    assert {request.directory for request in requests} == {project.repo}
    assert {request.branch for request in requests} == {"ralphd/n1/loop-1"}
    assert {request.session_id for request in requests} == {run.events[0]["session_id"]}
    assert {request.prompt for request in requests} == {"The prompt's exact words."}
    assert requests[1].news == "first result"


def test_two_sessions_in_one_place_are_two_chapters(project: Planted, tmp_path: Path) -> None:
    first, second = project.bugs[:2]
    with serving(stories({"loop-1": story(session(*repair(first)), session(*repair(second)))})) as server:
        for _ in range(2):
            assert drive(server, project.repo, tmp_path / "home").status == 0
    assert planted.verify(project.repo).passed == planted.expected_passed((first, second))


def test_loops_on_one_server_do_not_mix_up(project: Planted, tmp_path: Path) -> None:
    other = planted.plant(str(tmp_path / "loop-2"))
    script = stories({"loop-1": story(repair(planted.BUGS[1])), "loop-2": story(repair(planted.BUGS[2]))})
    with serving(script) as server, ThreadPoolExecutor() as pool:
        runs = pool.map(drive, [server, server], [project.repo, other.repo], [tmp_path / "h1", tmp_path / "h2"])
        assert [run.status for run in runs] == [0, 0]
    for place, bug in ((project, planted.BUGS[1]), (other, planted.BUGS[2])):
        assert planted.git(place.repo, "log", "-1", "--format=%s") == f"Fix {bug.name}"
        assert planted.verify(place.repo).passed == planted.expected_passed((bug,))


def test_it_edits_the_tests_when_told_to(project: Planted, tmp_path: Path) -> None:
    with serving(in_loop(*cheat())) as server:
        assert drive(server, project.repo, tmp_path / "home").status == 0
    assert planted.git(project.repo, "diff", "--name-only", project.commit, "HEAD") == planted.CHEAT.file
    assert planted.verify(project.repo).passed == planted.expected_passed((planted.CHEAT.bug,))


def test_it_gets_over_an_overload_and_a_reset(project: Planted, tmp_path: Path) -> None:
    steps = (
        once(fault(529), then=bash("echo survived the overload")),
        once(fault(429, retry_after_s=1), then=bash("echo survived the limit")),
        once(reset_mid_stream(), then=say("survived the reset")),
    )
    with serving(in_loop(*steps)) as server:
        run = drive(server, project.repo, tmp_path / "home")
    assert (run.status, run.events[-1]["result"]) == (0, "survived the reset")
    assert [retry["error_status"] for retry in run.of("system", "api_retry")][:2] == [529, 429]
    assert server.contains("survived the limit")


def test_a_refused_key_ends_it_with_an_error(project: Planted, tmp_path: Path) -> None:
    with serving(in_loop(fault(401, "invalid x-api-key"))) as server:
        run = drive(server, project.repo, tmp_path / "home", CLAUDE_CODE_MAX_RETRIES="0")
    assert (run.status, run.events[-1]["is_error"], run.events[-1]["api_error_status"]) == (1, True, 401)


def test_the_reason_a_shell_prefix_prints_is_in_the_next_request(project: Planted, tmp_path: Path) -> None:
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(WRAPPER)
    os.chmod(wrapper, stat.S_IRWXU)
    with serving(in_loop(bash("echo the command itself"), say("I see."))) as server:
        run = drive(server, project.repo, tmp_path / "home", CLAUDE_CODE_SHELL_PREFIX=str(wrapper))
    assert run.status == 0
    told = next(request for request in server.seen() if request.turn == 1)
    assert told.news == "Exit code 124\nsome output\n[guard] tool call killed after 3 s: it ran past its limit"
    assert next(run.tool_results())["is_error"] is True


def test_the_story_goes_on_after_compactions(project: Planted, tmp_path: Path) -> None:
    """The window is pinned to its least, 100 000 tokens, at which the client compacts past 67 000."""
    steps = [using(bash(f"echo step {number}"), tokens_in=80_000 if number in FULL else 100) for number in range(10)]
    with serving(in_loop(*steps, say("the end"))) as server:
        run = drive(server, project.repo, tmp_path / "home", CLAUDE_CODE_AUTO_COMPACT_WINDOW="100000")
    assert (run.status, run.events[-1]["result"]) == (0, "the end")
    assert len(run.of("system", "compact_boundary")) == 2
    assert [server.contains(f"step {number}") for number in range(10)] == [True] * 10
    turns = [request.turn for request in server.seen() if request.kind == "main"]
    assert turns == list(range(11))
