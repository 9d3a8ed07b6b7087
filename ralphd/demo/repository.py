"""Makes the throw-away repository of the demo night."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys

from ralphd.core.errors import GitError, UsageError
from ralphd.demo import berlin52

AUTHOR = "ralphd demo"
EMAIL = "demo@ralphd.invalid"
FIRST_COMMIT_AT = "2026-01-01T00:00:00+0000"  # fixed, so that the same files make the same commit
FILES = ("PROMPT.md", "score.py", "solve.py")  # shipped in night/
GITIGNORE = ".demo/\n__pycache__/\ntour.txt.new\n"

# The night lasts about a minute on two cores: sessions of 2 to 5 s, and limits that a search of half a second
# never meets while the two exact methods do within seconds.
SETTINGS = """\
[night]
width = 4
for = "60s"

[agent]
cli = "demo"

[limits]
tool_seconds = 6
tool_memory = "96MiB"
backoff_max_seconds = 2

[[task]]
name = "berlin52"
prompt = "PROMPT.md"

[task.verify]
command = {command}
score = 'regex:length: (\\d+)'
direction = "min"
goal = {goal}
protect = ["score.py", "cities.txt"]
seconds = 20
memory = "256MiB"
"""


def build(folder: str, *, python: str = sys.executable) -> str:
    """Make the repository in `folder` (new or empty) and return its one commit.

    `python` is the absolute path of the interpreter that runs the verifier.
    UsageError: the folder holds something already. GitError: git is missing or failed.
    """
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise UsageError(f"{folder} is not empty; name a new folder for the demo's repository")
    for name, text in contents(python).items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            out.write(text)
    for name in FILES:
        shutil.copyfile(os.path.join(os.path.dirname(__file__), "night", name), os.path.join(folder, name))
    _git(folder, "init", "-q", "--template=", "--initial-branch=main")
    _git(folder, "add", "--all")
    _git(folder, "commit", "-q", "-m", "Ask for a short tour of 52 cities")
    return _git(folder, "rev-parse", "HEAD").strip()


def contents(python: str) -> dict[str, str]:
    """Make the files that aren't shipped, by name. The tour starts in the order of the cities: 22205."""
    return {
        "cities.txt": "".join(f"{x} {y}\n" for x, y in berlin52.CITIES),
        "tour.txt": "".join(f"{city}\n" for city in range(len(berlin52.CITIES))),
        "ralphd.toml": settings(python),
        ".gitignore": GITIGNORE,
    }


def settings(python: str) -> str:
    """ralphd.toml. `-I`: a module of the worktree's must not stand in for one that the verifier imports."""
    command = f"{shlex.quote(python)} -I score.py"
    return SETTINGS.format(command=json.dumps(command, ensure_ascii=False), goal=berlin52.OPTIMUM)


def _git(folder: str, *args: str) -> str:
    """Git with nobody's configuration, so that a user's hooks, signing or templates have no say."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    for role in ("AUTHOR", "COMMITTER"):
        environ |= {f"GIT_{role}_NAME": AUTHOR, f"GIT_{role}_EMAIL": EMAIL, f"GIT_{role}_DATE": FIRST_COMMIT_AT}
    try:
        done = subprocess.run(
            ["git", *args], cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise GitError("git isn't installed; the demo needs it") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:1000]
        raise GitError(f"git {args[0]} failed in {folder}: {said}", stderr=said)
    return done.stdout.decode()
