"""The README tells the truth: its settings are accepted, its commands run, its picture is what a night prints."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.dashboard import entered
from support.nightbox import NightBox, night_box
from support.repositories import git

from ralphd.agents import command
from ralphd.cli.main import VERBS
from ralphd.core import configfile
from ralphd.core.config import Config
from ralphd.views.metrics import METRICS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
# A stub that speaks Claude Code's stream and really works: the README's night needs no key.
CLAUDE = """#!/bin/sh
read -r prompt
n=$(cat answer.txt); echo $((n + 1)) > answer.txt
git commit -qam "count on"
echo '{"type":"system","subtype":"init","session_id":"s","model":"m","claude_code_version":"2"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"counted","session_id":"s","usage":{"input_tokens":1,"output_tokens":1}}'
"""
NEEDS_A_TERMINAL = {"attach", "top"}


def blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCKS if found == kind]


@pytest.mark.parametrize("text", blocks("toml"))
def test_every_setting_shown_is_accepted(text: str) -> None:
    assert isinstance(configfile.read(text), Config)


def test_all_settings_are_shown() -> None:
    shown = max(blocks("toml"), key=len)
    for section in (configfile.AGENT, configfile.LIMITS, configfile.TASK, configfile.VERIFY, configfile.WORKTREE):
        for name in set(section) - {"resume"}:
            assert re.search(rf"^{name} +=|^{name} =", shown, re.MULTILINE), name


def test_every_metric_is_named() -> None:
    assert [metric.name for metric in METRICS if metric.name not in README] == []


def test_every_line_of_the_protocol_is_understood() -> None:
    [text] = blocks("json")
    for line in text.splitlines():
        assert command.reader().read(line.encode(), 0, len(line)), line


def test_the_two_commands_are_there() -> None:
    for name in ("try", "test", "check"):
        assert (ROOT / "scripts" / name).stat().st_mode & 0o111
    assert "scripts/try" in blocks("sh")[0]
    assert "scripts/test" in blocks("sh")[1]
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == blocks("sh")[1].strip()


def test_every_verb_named_exists() -> None:
    named = set(re.findall(r"`?ralphd ([a-z]+)", README)) - {"runs", "says", "knows"}
    assert {"start", "stop", "report", "status"} <= named
    assert named <= set(VERBS)


def test_the_picture_has_the_sections_of_a_report() -> None:
    [picture] = blocks("text")
    for words in ("better by", "How to take it", "What went wrong", "What was decided, and why", "What is not known"):
        assert words in picture, words


@pytest.mark.slow
def test_the_first_night_runs_as_it_is_written(tmp_path: Path) -> None:
    """Every `ralphd` command of the README in its order, with a stub in Claude Code's place."""
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "answer.txt").write_text("0\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "start")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "claude").write_text(CLAUDE)
    (bin_ / "claude").chmod(0o755)
    with night_box(tmp_path, repo) as box:
        box.env["PATH"] = f"{bin_}:{box.env['PATH']}"
        lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("ralphd ")]
        assert [line.split()[1] for line in lines[:3]] == ["doctor", "init", "doctor"]
        for line in lines[1:]:
            _run(box, shlex.split(line)[1:])
        report = box.report()
        assert report["tasks"][0]["best"]["score"] == 1.0
        assert git(repo, "cat-file", "-t", report["tasks"][0]["best"]["commit"]) == "commit"
        assert "ralphd report --compare NIGHT" in README
        for form in ((), ("--json",), ("--markdown",), ("--html",)):
            told = box.ralphd("report", "--compare", report["night"]["id"], *form).stdout
            assert report["tasks"][0]["best"]["commit"][:12] in told


def _run(box: NightBox, arguments: list[str]) -> None:
    if arguments[0] in NEEDS_A_TERMINAL:
        return
    if arguments[0] == "web":
        _look_in(box, arguments)
        return
    if arguments[0] == "stop":
        box.wait_until(lambda: box.rows()["loop-1"]["best_score"] == 1.0, "loop-1 counted")
    if arguments[0] == "logs":  # who reads the README types more slowly than this
        box.wait_until(lambda: box.rows()["loop-1"]["trajectory"], "loop-1 has a session")
    done = box.ralphd(*arguments, code=None)
    if arguments[0] == "doctor":  # a warning about this machine is no failure of the README
        assert "Traceback" not in done.stderr
    else:
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    if arguments[0] == "init":
        verifier = f"{sys.executable} -c \"import sys; sys.exit(int(open('answer.txt').read()) == 0)\""
        text = f"[night]\nwidth = 2\n[[task]]\n[task.verify]\ncommand = '''{verifier}'''\n"
        (box.repo / "ralphd.toml").write_text(text)
        (box.repo / "PROMPT.md").write_text("Count on.\n")


def _look_in(box: NightBox, arguments: list[str]) -> None:
    """Open the address that is printed, and end it with Ctrl-C: that is all a person does."""
    argv = [sys.executable, "-P", "-m", "ralphd", *arguments]
    with subprocess.Popen(argv, cwd=box.repo, env=box.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        site = entered(process.stdout.readline().decode().strip())
        assert box.nights()[-1] in site.ask("GET", "/report").body
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == (b"", b"")
