"""How mini-swe-agent is started, what our class adds to it, and what its events say beyond the recordings."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest
from support.readings import facts, reading, signals

from ralphd.agents import Turn, mini
from ralphd.core.classify import classify
from ralphd.core.exchange import Assignment, Limits
from ralphd.core.outcomes import Kind
from ralphd.core.signals import Began, Called, Resulted, Returned, Said, Unread, Used
from ralphd.pane.files import lay

TURN = Turn(session="11111111-2222-4333-8444-555555555555", guard="/state/guard", tmp="/t", home="/state/agent")
# As much of mini-swe-agent 2.4.6 as our class touches; its model answers with the commands in $COMMANDS.
STUB = {
    "minisweagent/__init__.py": "__version__ = '2.4.6'\n",
    "minisweagent/agents/__init__.py": "",
    "minisweagent/environments/__init__.py": "",
    "minisweagent/exceptions.py": """
class FormatError(Exception):
    def __init__(self, *messages):
        self.messages = messages
class Submitted(FormatError): pass
class RateLimitError(Exception):
    status_code = 429
RateLimitError.__module__ = "litellm.exceptions"
""",
    "minisweagent/environments/local.py": """
import subprocess
from minisweagent.exceptions import Submitted
class LocalEnvironment:
    def __init__(self, *, timeout=30): self.timeout = timeout
    def execute(self, action, cwd="", *, timeout=None):
        done = subprocess.run(["/bin/sh", "-c", action["command"]], text=True, stdout=-1, stderr=-2)
        if "COMPLETE_TASK" in done.stdout:
            raise Submitted({"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": ""}})
        return {"output": done.stdout, "returncode": done.returncode}
""",
    "minisweagent/agents/default.py": """
import json
from minisweagent.exceptions import FormatError, Submitted
class DefaultAgent:
    def __init__(self, model, env, *, config):
        self.model, self.env, self.config, self.messages, self.extra_template_vars = model, env, config, [], {}
    def add_messages(self, *messages):
        self.messages.extend(messages)
        return list(messages)
    def run(self, task="", **known):
        self.extra_template_vars |= {"task": task}
        self.messages = []
        self.add_messages({"role": "system", "content": "s"}, {"role": "user", "content": f"Please: {task}"})
        while self.messages[-1]["role"] != "exit":
            try:
                message = self.query()
                outputs = [self.env.execute(action) for action in message["extra"]["actions"]]
                self.add_messages(*({"role": "tool", "content": output["output"]} for output in outputs))
            except (FormatError, Submitted) as ended:
                self.add_messages(*ended.messages)
            except Exception as error:
                self.add_messages({"role": "exit", "content": str(error), "extra": {}})
                raise
            finally:
                self.config.output_path.write_text(json.dumps({"messages": self.messages}))
        return self.messages[-1]["extra"]
    def query(self):
        return self.add_messages(self.model.query(self.messages))[0]
""",
    "mini.py": """
import importlib, json, os, pathlib, sys
from types import SimpleNamespace
from minisweagent.exceptions import FormatError, RateLimitError
told = dict(zip(sys.argv[1:], sys.argv[2:]))
find = lambda name: getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])
class Model:
    config = SimpleNamespace(model_name="openai/scripted")
    answers = iter(json.loads(os.environ["COMMANDS"]))
    def format_message(self, **message): return message
    def query(self, messages):
        json.dump(messages, open(os.environ["SEEN"], "w"))
        command = next(self.answers)
        extra = {"response": {"usage": {"prompt_tokens": 10, "completion_tokens": 2}}, "cost": 0.5}
        if command == "429": raise RateLimitError("slow down")
        if command == "talk": raise FormatError({"role": "user", "content": "use a tool", "extra": extra})
        return {"role": "assistant", "content": "I run it", "extra": {**extra, "actions": [{"command": command}]}}
path = pathlib.Path(told["--output"])
agent = find(told["--agent-class"])(Model(), find(told["--environment-class"])(timeout=330), config=SimpleNamespace(output_path=path))
agent.run(told["--task"])
""",
}
GUARD = """#!/bin/sh
[ "$1" = -c ] && echo "guarded $PYTHONPATH" && exec sh -c "$2"
"""
FINISH = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def assignment(**known):
    places = dict.fromkeys(("night", "loop", "task", "folder", "worktree", "night_repository", "branch"), "x")
    given = {"cli": "mini", "program": "/opt/mini", "env": {"PATH": "/bin", "HOME": "/home/me"}, **known}
    return Assignment(generation=1, base="c", prompt="p", preamble="q", nonce="n", **places, **given)


def lines(*events):
    return b"".join(json.dumps({"ralphd": kind, **known}).encode() + b"\n" for kind, known in events)


@pytest.fixture
def run(tmp_path):
    """Runs our class in the stub on these commands; gives what it printed and what the model saw last."""
    for path, text in STUB.items():
        (tmp_path / "stub" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "stub" / path).write_text(text)
    guard = tmp_path / "guard"
    guard.write_text(GUARD)
    guard.chmod(0o755)

    def go(*commands, prompt=b"Do it.", resume=False, **more):
        env = {"PATH": os.environ["PATH"], "RALPHD_GUARD": str(guard), **more}
        env |= {"COMMANDS": json.dumps(commands), "SEEN": str(tmp_path / "seen")}
        turn = Turn(session="s", guard=str(guard), home=str(tmp_path / "agent"), resume=resume)
        launch = mini.launch(assignment(env=env, program=str(tmp_path / "stub" / "mini.py")), turn)
        lay(turn.home, launch.files)
        done = subprocess.run(
            [sys.executable, *launch.argv], env=launch.env, input=prompt, capture_output=True, check=False
        )
        assert not done.returncode or b"RateLimitError" in done.stderr, done.stderr
        return done.stdout, json.loads((tmp_path / "seen").read_text())

    return go


def test_nobody_is_asked_and_nothing_stops_it_for_money():
    launch = mini.launch(assignment(model="openai/gpt-5", limits=Limits(tool_seconds=60)), TURN)
    told = dict(zip(launch.argv[1:], launch.argv[2:], strict=False))
    assert {"--yolo", "--exit-immediately"} < set(launch.argv)
    assert (told["--cost-limit"], told["--model"], told["--task"]) == ("0", "openai/gpt-5", "-")
    assert told["--output"].startswith("/state/agent/")
    assert "environment.timeout=90" in launch.argv
    assert launch.env["MSWEA_CONFIGURED"] == "true"


def test_the_persons_environment_is_kept_and_python_finds_our_class_first():
    env = {"PYTHONPATH": "/mine", "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "9"}
    told = mini.launch(assignment(env=env), TURN).env
    assert told["MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT"] == "9"
    assert told["PYTHONPATH"] == "/state/agent/mini:/mine"


def test_our_class_is_python_that_mini_can_run():
    (file,) = mini.launch(assignment(), TURN).files
    assert file.path == "mini/ralphd_mini.py"
    ast.parse(file.text, feature_version=(3, 10))  # the oldest that mini-swe-agent runs on


def test_a_session_is_told_step_by_step(run):
    out, seen = run("echo 'it''s' \"quoted\"; exit 3", FINISH, prompt="Do it, Zoë.".encode() + b"x" * 300_000)
    told = [signal for signal in signals("mini", out) if not isinstance(signal, Unread)]
    kinds = [Began, Used, Said, Called, Returned, Used, Said, Called, Returned, Resulted]
    assert [type(signal) for signal in told] == kinds
    assert told[3].command == "echo 'it''s' \"quoted\"; exit 3"
    assert told[4].text.endswith("\nits quoted\n")
    assert told[4].is_error
    assert seen[1]["content"].startswith("Please: Do it, Zoë.xxx")
    assert len(seen[1]["content"]) > 300_000
    fold = reading("mini", out)
    assert (fold.tokens_in, fold.tokens_out, fold.cost_usd, fold.calls) == (20, 4, 1.0, 2)
    assert fold.result.ok
    assert not fold.open_calls


@pytest.mark.parametrize(("env", "path"), [({}, ""), ({"PYTHONPATH": "/mine"}, "/mine")])
def test_each_command_is_guarded_and_python_has_its_own_path_back(run, env, path):
    out, _ = run("true", FINISH, **env)
    (first, *_) = [signal for signal in signals("mini", out) if isinstance(signal, Returned)]
    assert first.text == f"guarded {path}\n"


def test_an_answer_that_was_no_good_is_paid_for_too(run):
    out, _ = run("talk", FINISH)
    assert reading("mini", out).tokens_in == 20


def test_a_session_that_failed_is_taken_up_where_it_was(run):
    out, _ = run("echo first", "429")
    known = facts("mini", out, exit_code=1)
    assert classify(known).kind is Kind.RATE_LIMITED
    out, seen = run(FINISH, prompt=b"Go on.", resume=True)
    assert [message["role"] for message in seen] == ["system", "user", "assistant", "tool", "user"]
    assert seen[1]["content"] == "Please: Do it."
    assert seen[-1]["content"] == "Go on."
    assert reading("mini", out).result.ok


def test_only_libraries_that_ask_the_model_tell_of_inference():
    trouble = {"error": "RateLimitError", "status": 429, "message": "rate limit exceeded"}
    ours = lines(("begin", {}), ("error", {**trouble, "module": "litellm.exceptions"}))
    assert classify(facts("mini", ours, exit_code=1)).kind is Kind.RATE_LIMITED
    theirs = lines(("begin", {}), ("call", {"id": 1}), ("error", {**trouble, "module": "jinja2.exceptions"}))
    assert classify(facts("mini", theirs, exit_code=1)).kind is Kind.EXITED


def test_the_claim_may_stand_in_the_answer_or_in_what_was_submitted():
    def claims(status="Submitted", **known):
        return reading("mini", lines(("result", {"status": status, **known}))).result.claims_done

    assert claims(text="Well.\nRALPHD: DONE")
    assert claims(text="Well.", submission="RALPHD: DONE\n")
    assert not claims(text="RALPHD: DONE is what I may not say yet")
    assert not claims(status="LimitsExceeded", text="RALPHD: DONE")


def test_lines_of_others_are_plain_text_whatever_they_look_like():
    others = b'{"type":"error","status":429}\n{"error":{"message":"overloaded"}}\nRateLimitError: no\n'
    assert {type(signal) for signal in signals("mini", others)} == {Unread}


def test_hostile_values_are_no_values():
    for value in (None, 5, [], {}, True, "x" * 100_000, 1e308):
        for kind in ("begin", "text", "call", "return", "usage", "error", "result"):
            names = (
                "model",
                "version",
                "text",
                "id",
                "command",
                "exit",
                "usage",
                "cost_usd",
                "error",
                "module",
                "status",
            )
            found = signals("mini", lines((kind, dict.fromkeys(names, value))))
            assert all(0 <= signal.start <= signal.end for signal in found), (kind, value)
            assert found or kind == "usage", (kind, value)  # no figure is no usage, not one of 0
