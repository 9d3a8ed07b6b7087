"""The verbs that need no night: help, init, doctor, guard, classify."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.livenight import LiveNight, listing, until

from ralphd.cli.main import VERBS
from ralphd.cli.setup import guess_verifier, settings
from ralphd.core import configfile
from ralphd.pane import cgroup


@pytest.fixture
def bare(tmp_path):
    """A repository and a state folder that nothing has been done with."""
    return LiveNight(tmp_path)


def test_help_lists_every_verb_in_order(bare):
    """As a night meets them, each with a whole line."""
    lines = bare.good("--help").splitlines()
    listed = [line.split() for line in lines[lines.index("Commands:") + 1 :] if line.startswith("  ")][: len(VERBS)]
    assert [words[0] for words in listed] == list(VERBS)
    assert not [words for words in listed if words[-1].endswith("...")]


def test_a_wrong_command_line_is_exit_2(bare):
    """Click's own refusals, by its own words."""
    for args in (
        ["no-such-verb"],
        ["status", "--nope"],
        ["restart"],
        ["classify", "x"],
        ["journal", "nonsense"],
        ["guard"],
    ):
        done = bare.ralphd(*args)
        assert done.returncode == 2, args
        assert "Usage: ralphd" in done.stderr
        assert "Traceback" not in done.stderr


# ---------------------------------------------------------------------------------------------- init


def test_init_writes_what_is_missing_and_only_that(bare):
    """The person's own files stay; what was written is a valid configuration."""
    bare.toml.unlink()
    bare.good("init")
    assert configfile.read(bare.toml.read_text()).tasks[0].prompt == "PROMPT.md"
    assert (bare.repo / "PROMPT.md").read_text() == "Count on.\n"
    before = bare.toml.read_text()
    told = json.loads(bare.good("init", "--json"))
    assert (told["wrote"], told["kept"]) == ([], ["ralphd.toml", "PROMPT.md"])
    assert bare.toml.read_text() == before


def test_init_writes_at_the_top_and_never_through_a_link(bare):
    """From a folder inside; a dangling link is something that is there."""
    inside = bare.repo / "deep"
    inside.mkdir()
    bare.toml.unlink()
    (bare.repo / "PROMPT.md").unlink()
    (bare.repo / "PROMPT.md").symlink_to(bare.root / "elsewhere")
    said = bare.good("init", cwd=inside)
    assert bare.toml.exists()
    assert not (bare.root / "elsewhere").exists()
    assert f"cd {bare.repo}" in said
    assert listing(inside) == []


def test_init_outside_a_repository_is_refused(bare):
    """Exit 2, one line, nothing written."""
    done = bare.ralphd("init", cwd=bare.root)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert not (bare.root / "ralphd.toml").exists()


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "pytest"),
        ({"tests/test_a.py": ""}, "pytest"),
        ({"package.json": '{"scripts": {"test": "jest"}}', "package-lock.json": "{}"}, "npm test"),
        ({"Cargo.toml": ""}, "cargo test"),
        ({"go.mod": "module x"}, "go test ./..."),
        ({"Makefile": "all:\n\ttrue\ntest: all\n\ttrue\n"}, "make test"),
        ({"Makefile": "check:\n"}, "make check"),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, ""),
        ({"Makefile": "test := 1\nall:\n"}, ""),
        ({"package.json": "[1]", "pyproject.toml": "[broken"}, ""),
        ({"package.json": '{"scripts": ["test"]}'}, ""),
        ({}, ""),
    ],
)
def test_the_verifier_is_guessed_from_what_is_there(tmp_path, files, command):
    """The first sign counts; of nothing, or of a placeholder, nothing is made up. What is written can be read."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    guess = guess_verifier(str(tmp_path))
    assert (command in guess.command) if command else guess is None
    read = configfile.read(settings(guess))
    assert read.tasks[0].verify.command == (guess.command if guess else "")


def test_a_fifo_in_place_of_a_project_file_is_not_waited_for(tmp_path):
    """Who looks must not hang."""
    os.mkfifo(tmp_path / "package.json")
    assert guess_verifier(str(tmp_path)) is None


# -------------------------------------------------------------------------------------------- doctor


def test_doctor_is_content_with_what_a_start_needs(bare):
    """Exit 0, a line a check, and no state is made by looking."""
    told = json.loads(bare.good("doctor", "--json"))
    assert told["ok"] is True
    levels = {check["check"]: check["level"] for check in told["checks"]}
    assert {
        levels[name] for name in ("python", "git", "tmux", "config", "repository", "prompt", "verifier", "agent")
    } == {"ok"}
    assert not bare.state.exists()
    assert len(bare.good("doctor").splitlines()) == len(told["checks"])


def test_doctor_names_the_way_out_of_everything_at_once(bare):
    """Exit 1; a wrong configuration hides none of the other findings."""
    bare.toml.write_text("[night]\nwide = 3\n")
    (bare.repo / "PROMPT.md").unlink()
    bare.state.mkdir()
    bare.state.chmod(0o777)
    done = bare.ralphd("doctor")
    assert done.returncode == 1
    fails = [line for line in done.stdout.splitlines() if line.startswith("fail")]
    assert any("did you mean width?" in line for line in fails)
    assert any("PROMPT.md: no such file" in line for line in fails)
    assert any("chmod 700" in line for line in fails)


def test_doctor_says_nothing_of_an_agent_that_a_broken_file_names(bare):
    """The default agent may not be installed, and nobody asked for it."""
    bare.toml.write_text(bare.toml.read_text() + "[task.verifier]\ncommand = 'true'\n")
    done = bare.ralphd("doctor", "--json", env={"PATH": "/usr/bin:/bin"})
    found = {check["check"]: (check["level"], check["found"]) for check in json.loads(done.stdout)["checks"]}
    assert found["config"][0] == "fail"
    assert found["agent"] == found["verifier"] == ("warn", "not looked at, for ralphd.toml can't be read")


def test_doctor_tells_whether_the_kernel_holds_the_memory_of_tool_calls(bare):
    """And leaves no group behind."""
    checks = {check["check"]: check for check in json.loads(bare.good("doctor", "--json"))["checks"]}
    group = cgroup.make("ralphd-test-of-doctor")
    assert checks["cgroup"]["level"] == "ok"
    assert ("the kernel holds" in checks["cgroup"]["found"]) is (group is not None)
    if group is not None:
        assert cgroup.remove(group)
        assert not [name for name in os.listdir(os.path.dirname(group)) if name.startswith("ralphd-doctor-")]


def test_doctor_without_git_or_tmux(bare):
    """An empty PATH is a finding, not an accident."""
    (bare.root / "bin").mkdir()
    done = bare.ralphd("doctor", "--json", env={"PATH": str(bare.root / "bin")})
    assert (done.returncode, done.stderr) == (1, "")
    levels = {check["check"]: check["level"] for check in json.loads(done.stdout)["checks"]}
    assert (levels["git"], levels["tmux"], levels["repository"], levels["python"]) == ("fail", "fail", "fail", "ok")


# --------------------------------------------------------------------------------------------- guard


def test_guard_passes_output_and_exit_status_on(bare):
    """Both streams, stdin, and the command's own options."""
    done = bare.ralphd("guard", "--", "sh", "-c", "cat; echo err >&2; exit 7", stdin=None, input="in\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in\n", "err\n")
    assert bare.good("guard", "echo", "--help", "-n").strip() == "--help -n"


def test_guard_ends_what_takes_too_long(bare):
    """The limit of ralphd.toml, or the one that is given: exit 124, with the reason."""
    done = bare.ralphd("guard", "--seconds", "0.3", "--", "sleep", "60")
    assert done.returncode == 124
    assert "KILLED by the time limit" in done.stderr
    bare.toml.write_text("[limits]\ntool_seconds = 0.3\n")
    assert bare.ralphd("guard", "sleep", "60").returncode == 124


def test_guard_ends_what_takes_too_much(bare):
    """Exit 137."""
    code = "import time; held = b'x' * (200 << 20); time.sleep(60)"
    done = bare.ralphd("guard", "--memory", "100MiB", "--", sys.executable, "-c", code)
    assert done.returncode == 137
    assert "KILLED by the memory limit" in done.stderr


def test_guard_refuses_wrong_limits(bare):
    """Exit 2 and what is wrong."""
    for args in (
        ("--seconds", "-1"),
        ("--seconds", "nan"),
        ("--seconds", "inf"),
        ("--memory", "much"),
        ("--config", "none.toml"),
    ):
        done = bare.ralphd("guard", *args, "--", "true")
        assert done.returncode == 2, (args, done)
        assert done.stderr.startswith("ralphd: "), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    assert bare.ralphd("guard", "--", "no-such-program").returncode == 127


def test_guard_takes_its_command_with_it(bare):
    """A person's SIGTERM ends the whole tree."""
    guard = bare.popen("guard", "--", "sh", "-c", "echo here; sleep 300 & wait", stdout=subprocess.PIPE)
    try:
        assert guard.stdout.readline() == b"here\n"
        guard.send_signal(signal.SIGTERM)
        assert guard.wait(60) == 128 + signal.SIGTERM
        until(lambda: not bare.left(), "nothing is left")
    finally:
        guard.kill()
        guard.wait()
        guard.stdout.close()


# ------------------------------------------------------------------------------------------ classify


def test_classify_tells_kind_and_evidence(bare):
    """The JSON that others build on, with byte ranges in the log."""
    log = bare.root / "a.log"
    line = '{"type": "error", "status": 529, "error": "overloaded", "message": "busy \\u001b[2J"}\n'
    log.write_text('{"type": "usage", "input": 5, "output": 2}\n' + line)
    told = json.loads(bare.good("classify", str(log), "--cli", "command", "--exit", "1", "--json"))
    assert (told["kind"], told["charge"], told["response"]) == ("inference.overloaded", "infra", "retry")
    assert (told["tokens_in"], told["tokens_out"], told["compactions"]) == (5, 2, None)
    assert told["evidence"][0]["file"] == str(log)
    assert log.read_bytes()[told["evidence"][0]["start"] : told["evidence"][0]["end"]].decode() + "\n" == line
    text = bare.good("classify", str(log), "--cli", "command", "--exit", "1")
    assert text.startswith("inference.overloaded")
    assert "\x1b" not in text


@pytest.mark.parametrize("option", [(), ("--exit", "1", "--stderr")], ids=["log", "stderr"])
def test_classify_says_of_what_is_no_file_what_to_do(bare, option):
    folder = bare.root / "odd"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "log").write_text("")
    log = () if not option else (str(folder / "log"), "--cli", "claude", *option)
    rest = ("--cli", "claude") if not option else ()
    for name, why in {
        str(folder / "pipe"): "pipe is no file: to read from a pipe or a device, lead it to stdin and name -",
        "/dev/zero": "/dev/zero is no file: ",
        str(folder): "odd can't be read: Is a directory",
        str(folder / "none"): "none can't be read: No such file or directory",
        "/proc/self/mem": "/proc/self/mem can't be read: Input/output error",
    }.items():
        done = bare.ralphd("classify", *log, name, *rest)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr


def test_classify_reads_a_pipe_that_is_open_already(bare):
    read, write = os.pipe()
    os.write(write, b'{"type":"thread.started","thread_id":"t"}\n')
    os.close(write)
    try:
        command = [sys.executable, "-m", "ralphd", "classify", f"/dev/fd/{read}", "--cli", "codex", "--exit", "0"]
        done = subprocess.run(command, env=bare.env, pass_fds=(read,), capture_output=True, text=True, check=False)
    finally:
        os.close(read)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("agent.exited, by the rule unfinished")


def test_classify_wonders_whose_log_it_is_where_no_line_is_an_event(bare):
    log = bare.root / "log"
    log.write_text('{"type":"thread.started","thread_id":"t"}\n')
    wonders = f"no line of {log} is an event of"
    for cli, doubted in {"codex": False, "gemini": True, "command": False}.items():
        done = bare.ralphd("classify", str(log), "--cli", cli, "--exit", "1")
        assert (done.returncode, wonders in done.stderr) == (0, doubted), cli


def test_classify_reads_standard_input_once(bare):
    done = bare.ralphd("classify", "-", "--cli", "command", "--stderr", "-", stdin=None, input="hello\n")
    assert done.returncode == 2, done
    assert done.stderr == "ralphd: LOG and --stderr can't both be read from stdin: name a file for one of them\n"


def test_classify_knows_what_it_does_not_know(bare):
    """An unknown is null; how it ended matters, and comes from who asks."""
    log = bare.root / "a.log"
    log.write_text("hello\n")
    done = bare.ralphd("classify", str(log), "--cli", "command", "--json")
    told = json.loads(done.stdout)
    assert (told["kind"], told["tokens_in"]) == ("agent.unknown", None)
    assert "add --exit N or --signal N" in done.stderr
    told = json.loads(bare.good("classify", str(log), "--cli", "command", "--signal", "9", "--json"))
    assert told["kind"] == "agent.signalled"
    (bare.root / "err").write_text("error: unknown option '--nope'\n")
    told = json.loads(
        bare.good("classify", str(log), "--cli", "claude", "--exit", "1", "--stderr", str(bare.root / "err"), "--json")
    )
    assert told["kind"] == "agent.config_error"


def test_classify_takes_any_bytes(bare):
    """Noise, a line without an end, stdin."""
    log = bare.root / "a.log"
    log.write_bytes(os.urandom(3 << 20) + b"\n" + b"x" * (9 << 20))
    for cli in ("claude", "command", "demo"):
        assert json.loads(bare.good("classify", str(log), "--cli", cli, "--exit", "0", "--json"))["kind"]
    assert bare.good("classify", "-", "--cli", "command", "--exit", "3", stdin=None, input="words\n").startswith(
        "agent.exited"
    )


def test_classify_refuses_what_cannot_be(bare):
    """Exit 2: no such file, a folder, an unknown CLI, two endings at once."""
    log = bare.root / "a.log"
    log.write_text("")
    for args in (
        ("none",),
        (str(bare.root),),
        (str(log), "--exit", "1", "--signal", "9"),
        (str(log), "--stderr", "none"),
    ):
        done = bare.ralphd("classify", *args, "--cli", "command")
        assert done.returncode == 2, (args, done)
    assert bare.ralphd("classify", str(log), "--cli", "nobody").returncode == 2


def test_logs_of_a_damaged_folder(bare):
    """Binary logs, a FIFO in a log's place, no loop.json: shown as far as it goes, and never waited for."""
    logs = bare.state / "nights" / "2026-11-30-a" / "loops" / "one" / "logs"
    logs.mkdir(parents=True)
    bare.state.chmod(0o700)
    (logs / "001-00001.log").write_bytes(b"\x00\xff\x1b[2J" + os.urandom(10000) + b"\nend\n")
    (logs.parent / "records.jsonl").write_bytes(
        b'{"type": "TrajectoryEnded", "generation": 1, "trajectory": 1, "body": []}\n["TrajectoryEnded"]\n{TrajectoryEnded\n'
        + os.urandom(1 << 19)
    )
    assert bare.good("logs", "one").endswith("end\n")
    assert "\x1b" not in bare.good("logs", "one")
    os.mkfifo(logs / "001-00002.log")
    began = time.monotonic()
    assert bare.good("logs", "one") == ""
    assert time.monotonic() - began < 60
    (logs / "001-00003.log").symlink_to("/etc/passwd")
    assert bare.good("logs", "one", "--raw") == ""


def test_a_report_has_one_form(bare):
    done = bare.ralphd("report", "--json", "--markdown")
    assert (done.returncode, done.stdout) == (2, "")
    assert "ask for one of them" in done.stderr


def test_a_folder_that_is_gone_is_said(bare):
    """Who stands in a deleted folder learns just that."""
    gone = bare.root / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {sys.executable} -P -c 'from ralphd.cli.main import run; run()' start"
    done = subprocess.run(
        ["sh", "-c", script], env={**bare.env, "PYTHONPATH": os.getcwd()}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "ralphd: the folder you are in is gone; cd to one that exists\n"


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda night: night.state.write_text("x"), 2, "is not a folder"),
        (lambda night: night.env.update(RALPHD_STATE="", HOME=""), 2, "HOME is not set"),
        (lambda night: (night.state.mkdir(), night.state.chmod(0o777)), 2, "chmod 700"),
    ],
)
def test_a_state_that_cannot_be_is_refused(bare, make, code, said):
    """One line with the way out."""
    make(bare)
    done = bare.ralphd("start")
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done
    assert said in done.stderr
