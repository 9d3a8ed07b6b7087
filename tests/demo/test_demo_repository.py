"""Is the demo's repository the same for everybody, and is its verifier hard to fool?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import pytest

from ralphd.core.errors import GitError, UsageError
from ralphd.demo.repository import build

IDENTITY = "".join(f"{city}\n" for city in range(52))


@pytest.fixture
def repo(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = tmp_path / "demo"
    build(str(folder))
    return folder


def git(folder, *args):
    return subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True).stdout


def score(folder):
    """Run the verifier as ralphd.toml says."""
    command = tomllib.loads((folder / "ralphd.toml").read_text())["task"][0]["verify"]["command"]
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_one_clean_commit_by_its_own_author(repo):
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "log", "--format=%an <%ae> %cn %s").splitlines() == [
        "ralphd demo <demo@ralphd.invalid> ralphd demo Ask for a short tour of 52 cities"
    ]
    assert git(repo, "ls-files").split() == [
        ".gitignore", "PROMPT.md", "cities.txt", "ralphd.toml", "score.py", "solve.py", "tour.txt"
    ]  # fmt: skip


def test_two_builds_make_the_same_commit_whatever_the_user_has_configured(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    (home / ".gitconfig").write_text(
        f"[user]\nname=Somebody\nemail=s@example.org\n[commit]\ngpgsign=true\n[core]\nautocrlf=true\nhooksPath={home}/hooks\n"
    )
    (home / "hooks" / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (home / "hooks" / "pre-commit").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert build(str(tmp_path / "a")) == build(str(tmp_path / "b"))
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        build(str(tmp_path))
    assert os.listdir(tmp_path) == ["mine.txt"]


def test_without_git_one_clear_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="git isn't installed"):
        build(str(tmp_path / "demo"))


def test_the_settings_are_toml_and_read_the_score_that_the_verifier_prints(repo):
    settings = tomllib.loads((repo / "ralphd.toml").read_text())
    verify = settings["task"][0]["verify"]
    kind, pattern = verify["score"].split(":", 1)
    assert (kind, verify["direction"], verify["goal"], settings["agent"]["cli"]) == ("regex", "min", 7542, "demo")
    said = score(repo)
    assert said.returncode == 0
    assert re.findall(pattern, said.stdout) == ["22205"]


@pytest.mark.parametrize("folder", ["with blank", 'with "quote"', "with 'quote'", "Größe"])
def test_an_interpreter_with_an_odd_path_runs_the_verifier(tmp_path, folder):
    (tmp_path / folder).mkdir()
    python = tmp_path / folder / "python3"
    python.symlink_to(sys.executable)
    build(str(tmp_path / "demo"), python=str(python))
    assert score(tmp_path / "demo").stdout == "length: 22205\n"


HOSTILE = {
    "empty": b"",
    "missing": IDENTITY.replace("17\n", "").encode(),
    "duplicate": (IDENTITY + "3\n").encode(),
    "one for another": IDENTITY.replace("17\n", "18\n").encode(),
    "beyond": IDENTITY.replace("51\n", "52\n").encode(),
    "negative": IDENTITY.replace("\n17\n", "\n-17\n").encode(),
    "nan": IDENTITY.replace("\n17\n", "\nnan\n").encode(),
    "fraction": IDENTITY.replace("\n17\n", "\n17.0\n").encode(),
    "underscore": IDENTITY.replace("\n17\n", "\n1_7\n").encode(),
    "other digits": IDENTITY.replace("\n7\n", "\n\u0667\n").encode(),
    "score in the tour": b"length: 7542\n" + IDENTITY.encode(),
    "binary": bytes(range(256)),
    "nul": IDENTITY.encode() + b"\0",
    "huge": b"1\n" * 3_000_000,
    "junk far behind": IDENTITY.encode() + b" " * 5000 + b"junk",
    "huge number": b"9" * 4000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_tour_that_is_none_gets_one_line_and_no_score(repo, name):
    (repo / "tour.txt").write_bytes(HOSTILE[name])
    said = score(repo)
    assert (said.returncode, said.stdout) == (1, "")
    assert re.fullmatch(r"invalid: tour\.txt [^\n]{5,200}\n", said.stderr)


def test_the_line_names_what_is_wrong(repo):
    (repo / "tour.txt").write_bytes(HOSTILE["beyond"])
    assert score(repo).stderr == "invalid: tour.txt names city 52; the last one is 51\n"
    (repo / "tour.txt").write_bytes(HOSTILE["missing"])
    assert score(repo).stderr == "invalid: tour.txt leaves out 1 of 52 cities, the first is 17\n"


def as_link(path):
    path.with_name("good.txt").write_text(IDENTITY)
    path.symlink_to("good.txt")


@pytest.mark.parametrize(
    "make", [lambda path: None, as_link, os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")],
    ids=["gone", "link", "fifo", "folder", "endless device"],
)  # fmt: skip
def test_what_is_no_plain_file_gets_one_line_and_no_score(repo, make):
    """A FIFO or a device would hold the verifier until its limit."""
    (repo / "tour.txt").unlink()
    make(repo / "tour.txt")
    said = score(repo)
    assert (said.returncode, said.stdout) == (1, "")
    assert re.fullmatch(r"invalid: tour\.txt [^\n]{5,200}\n", said.stderr)


@pytest.mark.parametrize("module", ["re.py", "os.py", "stat.py", "sitecustomize.py"])
def test_a_module_in_the_worktree_does_not_stand_in_for_the_verifiers(repo, module):
    (repo / module).write_text("print('length: 7542')\nraise SystemExit(0)\n")
    assert score(repo).stdout == "length: 22205\n"


def test_white_space_does_not_matter(repo):
    (repo / "tour.txt").write_bytes(b"\r\n".join(b" %d" % city for city in range(52)))
    assert score(repo).stdout == "length: 22205\n"
