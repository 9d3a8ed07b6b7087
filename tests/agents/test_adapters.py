"""The adapters as the runner meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ralphd.agents import NAMES, Turn, adapter
from ralphd.agents.claude import compact_percent
from ralphd.core.errors import UsageError
from ralphd.core.exchange import Assignment, Limits

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TURN = Turn(session="11111111-2222-4333-8444-555555555555", guard="/state/guard", tmp="/state/tmp", home="/state/agent")


def assignment(**known):
    given = {"cli": "claude", "program": "/opt/claude", "env": {"PATH": "/bin"}, **known}
    places = dict.fromkeys(("night", "loop", "task", "folder", "worktree", "night_repository", "branch"), "x")
    return Assignment(generation=1, base="c", prompt="p", preamble="q", nonce="n", **places, **given)


@pytest.mark.parametrize("name", NAMES)
def test_every_adapter_keeps_the_contract(name):
    found = adapter(name)
    launch = found.launch(assignment(cli=name, args=("--more",)), TURN)
    assert all(isinstance(part, str) for part in launch.argv)
    assert launch.argv[-1] == "--more"
    assert launch.env["PATH"].split(":")[-1] == "/bin"
    assert isinstance(found.guarded_lines, str)
    assert isinstance(found.TELLS.resume, bool)
    assert found.reader() is not found.reader()
    assert found.reader().read(b"\xff\0{", 0, 3)


def test_an_unknown_cli_is_refused_with_what_there_is():
    with pytest.raises(UsageError, match=f"'nonesuch'; there are: {', '.join(NAMES)}"):
        adapter("nonesuch")


@pytest.mark.parametrize("name", NAMES)
def test_only_the_asked_adapter_is_imported_and_nothing_fat(name):
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); from ralphd.agents import adapter; adapter(sys.argv[2]);"
        "import ralphd.core.classify; print(json.dumps(sorted(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-I", "-S", "-E", "-c", code, ROOT, name], capture_output=True, check=True)
    loaded = set(json.loads(out.stdout))
    fat = {"typing", "subprocess", "pathlib", "tempfile", "random", "datetime", "logging", "shutil", "argparse"}
    assert not loaded & (fat | {"threading", "asyncio", "hashlib", "ralphd.demo"})
    others = {f"ralphd.agents.{other}" for other in NAMES if other != name} - {"ralphd.agents.command"}
    assert not loaded & others
    assert f"ralphd.agents.{name}" in loaded


def test_claude_begins_a_session_and_takes_it_up_again():
    first = adapter("claude").launch(assignment(model="claude-opus-5-5"), TURN).argv
    assert first[:2] == ("/opt/claude", "-p")
    assert first[2:6] == ("--input-format", "stream-json", "--output-format", "stream-json")
    assert {"--verbose", "--include-partial-messages", "--dangerously-skip-permissions"} <= set(first)
    assert first[first.index("--session-id") + 1] == TURN.session
    assert first[first.index("--model") + 1] == "claude-opus-5-5"
    again = Turn(session=TURN.session, attempt=2, resume=True)
    resumed = adapter("claude").launch(assignment(), again).argv
    assert resumed[resumed.index("--resume") + 1] == TURN.session
    assert "--session-id" not in resumed
    assert "--model" not in resumed


def test_the_prompt_is_never_an_argument():
    assert "p" not in adapter("claude").launch(assignment(), TURN).argv


def test_claude_gets_the_limits_that_the_guard_needs_whatever_the_person_set():
    env = {"BASH_MAX_TIMEOUT_MS": "1", "CLAUDE_CODE_SHELL_PREFIX": "mine", "CLAUDE_CODE_MAX_RETRIES": "7"}
    told = adapter("claude").launch(assignment(env=env, limits=Limits(tool_seconds=12.5)), TURN).env
    assert told["BASH_DEFAULT_TIMEOUT_MS"] == told["BASH_MAX_TIMEOUT_MS"] == "42500"
    assert told["CLAUDE_CODE_SHELL_PREFIX"] == "/state/guard"
    assert told["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"
    assert told["CLAUDE_CODE_MAX_RETRIES"] == "7"
    assert told["CLAUDE_CODE_RETRY_WATCHDOG"] == "1"


@pytest.mark.parametrize("uid", [0, 1000])
def test_only_root_says_that_it_is_in_a_sandbox(monkeypatch, uid):
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert ("IS_SANDBOX" in adapter("claude").launch(assignment(), TURN).env) is (uid == 0)


@pytest.mark.parametrize(
    ("model", "env", "window"),
    [
        ("claude-opus-5-5", {}, 1_000_000),
        ("claude-opus-4-8[1m]", {}, 1_000_000),
        ("claude-sonnet-4-5[1m]", {}, 1_000_000),
        ("claude-haiku-4-5", {}, 200_000),
        ("claude-sonnet-4-6", {}, 200_000),
        ("claude-opus-5-5", {"CLAUDE_CODE_DISABLE_1M_CONTEXT": "1"}, 200_000),
        ("claude-opus-5-5", {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "200000"}, 200_000),
        ("claude-opus-5-5", {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "many"}, 1_000_000),
    ],
)
def test_the_context_is_compacted_at_seventy_percent_of_its_window(model, env, window):
    """The CLI takes its percentage of the window less 20 000 tokens (measured: 200k at 77.78 gives 140 004)."""
    threshold = (window - 20_000) * float(compact_percent(model, env)) / 100
    assert threshold == pytest.approx(0.7 * window, rel=0.0005)


def test_a_model_of_unknown_window_is_never_compacted_later_than_that():
    for window in (100_000, 200_000, 400_000, 1_000_000):
        assert (window - 20_000) * float(compact_percent("", {})) / 100 <= 0.7005 * window


def test_a_tiny_window_gets_a_percentage_the_cli_accepts():
    assert 0 < float(compact_percent("my-model", {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "21000"})) <= 100


def test_the_demo_runs_the_shipped_program_isolated():
    argv = adapter("demo").launch(assignment(cli="demo", program="ignored"), TURN).argv
    assert argv[:4] == (sys.executable, "-I", "-S", "-E")
    assert argv[4] == os.path.join(ROOT, "ralphd", "demo", "agent.py")


def test_any_program_runs_with_its_own_arguments():
    launch = adapter("command").launch(assignment(cli="command", program="sh", args=("-c", "true")), TURN)
    assert launch.argv == ("sh", "-c", "true")
    assert launch.env == {"PATH": "/bin"}


@pytest.mark.parametrize("name", ["gemini", "qwen"])
def test_a_cli_that_takes_bash_from_path_finds_the_guard_there_first(name):
    turn = Turn(session=TURN.session, guard="/state/guard", home="/state/loop/agent")
    launch = adapter(name).launch(assignment(cli=name, env={"PATH": "/bin", "HOME": "/home/me"}), turn)
    assert [(file.path, file.link) for file in launch.files if file.link] == [("bin/bash", "/state/guard")]
    assert launch.env["PATH"] == "/state/loop/agent/bin:/bin"
    assert launch.env["HOME"] == "/home/me"


@pytest.mark.parametrize("name", ["gemini", "qwen"])
def test_gemini_and_qwen_begin_a_session_and_take_it_up_again(name):
    first = adapter(name).launch(assignment(cli=name, model="some-model"), TURN).argv
    assert {"--yolo", "stream-json"} <= set(first)
    assert first[first.index("--session-id") + 1] == TURN.session
    assert first[first.index("--model") + 1] == "some-model"
    resumed = adapter(name).launch(assignment(cli=name), Turn(session=TURN.session, attempt=2, resume=True)).argv
    assert resumed[resumed.index("--resume") + 1] == TURN.session
    assert not {"--session-id", "--model"} & set(resumed)


def test_qwen_keeps_its_context_while_it_waits_unless_the_person_says_otherwise():
    assert adapter("qwen").launch(assignment(cli="qwen"), TURN).env["QWEN_CODE_UNATTENDED_RETRY"] == "1"
    told = adapter("qwen").launch(assignment(cli="qwen", env={"QWEN_CODE_UNATTENDED_RETRY": "0"}), TURN).env
    assert told["QWEN_CODE_UNATTENDED_RETRY"] == "0"
