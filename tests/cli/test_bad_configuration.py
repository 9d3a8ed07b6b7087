"""A start that can't be: one clear line, exit 2, and nothing left behind."""

from __future__ import annotations

import os
import shutil

import pytest
from support.livenight import LiveNight, listing
from support.repositories import git


def unknown_key(night: LiveNight) -> str:
    night.toml.write_text(night.toml.read_text() + "\nprotects = ['x']\n")
    return "task.verify.protects: no such setting; did you mean protect?"


def wrong_type(night: LiveNight) -> str:
    night.toml.write_text("[night]\nwidth = 'many'\n")
    return "ralphd.toml:2: night.width: must be a whole number"


def impossible_value(night: LiveNight) -> str:
    night.toml.write_text("[limits]\ntool_memory = '0GiB'\n")
    return "limits.tool_memory: must be over 0"


def no_toml_at_all(night: LiveNight) -> str:
    night.toml.write_text("[night\nwidth = 1\n")
    return "this is not TOML"


def no_repository(night: LiveNight) -> str:
    shutil.rmtree(night.repo / ".git")
    return "repository"


def bare_repository(night: LiveNight) -> str:
    shutil.rmtree(night.repo / ".git")
    git(night.root, "init", "-q", "--bare", str(night.repo / "bare.git"))
    (night.repo / "bare.git" / "ralphd.toml").write_text(night.toml.read_text())
    night.repo = night.repo / "bare.git"
    return "bare"


def unborn_head(night: LiveNight) -> str:
    shutil.rmtree(night.repo / ".git")
    git(night.repo, "init", "-q")
    return "has no commit yet"


def base_that_names_nothing(night: LiveNight) -> str:
    night.toml.write_text(night.toml.read_text().replace('name = "count"', 'name = "count"\nbase = "nowhere"'))
    return "'nowhere' names no commit"


def no_prompt(night: LiveNight) -> str:
    (night.repo / "PROMPT.md").unlink()
    return "PROMPT.md: no such file"


def empty_prompt(night: LiveNight) -> str:
    (night.repo / "PROMPT.md").write_text("")
    return "PROMPT.md is empty"


def linked_prompt(night: LiveNight) -> str:
    (night.repo / "PROMPT.md").rename(night.repo / "real.md")
    (night.repo / "PROMPT.md").symlink_to("real.md")
    return "PROMPT.md is a link"


def unwritten_prompt(night: LiveNight) -> str:
    (night.repo / "PROMPT.md").unlink()
    night.toml.rename(night.root / "kept.toml")
    night.good("init")
    (night.root / "kept.toml").rename(night.toml)
    return "PROMPT.md doesn't say yet what is wanted"


def no_such_program(night: LiveNight) -> str:
    night.toml.write_text(night.toml.read_text().replace(str(night.agent), "no-such-agent"))
    return "agent.program: no no-such-agent on PATH"


def program_that_is_no_program(night: LiveNight) -> str:
    night.agent.chmod(0o644)
    return "is not an executable file"


def verifier_that_cannot_run(night: LiveNight) -> str:
    night.toml.write_text(night.toml.read_text().replace("cat n", "no-such-verifier --all"))
    return "the verifier can't run: task.verify.command needs no-such-verifier"


def missing_environment(night: LiveNight) -> str:
    night.toml.write_text(night.toml.read_text().replace("[limits]", 'env_pass = ["NO_SUCH_KEY"]\n\n[limits]'))
    return "agent.env_pass names NO_SUCH_KEY"


def old_tmux(night: LiveNight) -> str:
    bin_ = night.root / "bin"
    bin_.mkdir()
    (bin_ / "tmux").write_text("#!/bin/sh\necho tmux 2.9a\n")
    (bin_ / "tmux").chmod(0o755)
    night.env["PATH"] = f"{bin_}:{night.env['PATH']}"
    return "tmux 2.9a is too old: ralphd needs tmux 3.2"


def no_tmux(night: LiveNight) -> str:
    bin_ = night.root / "bin"
    bin_.mkdir()
    for name in ("git", "sh", "cat"):
        (bin_ / name).symlink_to(shutil.which(name))
    night.env["PATH"] = str(bin_)
    return "there is no tmux on PATH"


MISTAKES = [
    unknown_key, wrong_type, impossible_value, no_toml_at_all, no_repository, bare_repository, unborn_head,
    base_that_names_nothing, no_prompt, empty_prompt, linked_prompt, unwritten_prompt, no_such_program, program_that_is_no_program,
    verifier_that_cannot_run, missing_environment, old_tmux, no_tmux,
]  # fmt: skip


@pytest.mark.parametrize("make", MISTAKES, ids=lambda make: make.__name__)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(night, make):
    said = make(night)
    before = listing(night.root)
    done = night.ralphd("start")
    lines = done.stderr.splitlines()
    assert (done.returncode, len(lines), done.stdout) == (2, 1, ""), done
    assert said in lines[0]
    assert listing(night.root) == before
    assert not night.left()


def test_a_mistake_leaves_an_existing_state_as_it_was(night):
    """Not the journal of earlier nights either."""
    night.start()
    night.good("stop", "--now")
    (night.repo / "PROMPT.md").unlink()
    before, told = sizes(night), night.good("journal", "entries", "--json")
    done = night.ralphd("start")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert sizes(night) == before
    assert night.good("journal", "entries", "--json") == told


def sizes(night: LiveNight) -> dict[str, int]:
    """Of all that lies in the state, but for the daemon's own log and lock, and what SQLite moves between its files."""
    aside = {"daemon.log", "daemon.lock", "journal.db", "journal.db-shm", "journal.db-wal"}
    paths = [path for path in listing(night.state) if path not in aside]
    return {path: os.lstat(night.state / path).st_size for path in paths}


@pytest.mark.parametrize(
    "args",
    [
        ("--width", "0"),
        ("--for", "soon"),
        ("--until", "25:00"),
        ("--for", "1h", "--until", "07:00"),
        ("--config", "no.toml"),
    ],
    ids=" ".join,
)
def test_a_wrong_option_is_refused_before_anything_is_made(night, args):
    done = night.ralphd("start", *args)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert not night.state.exists()
