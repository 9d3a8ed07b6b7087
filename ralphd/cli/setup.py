"""Make a repository ready for its first night: ralphd.toml and PROMPT.md, where they are missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass

import click

from ralphd.cli import out, preflight
from ralphd.cli.out import JSON
from ralphd.core import configfile
from ralphd.edges.checkout import describe_repo

READ_BYTES = 1 << 20  # of a project's own files: enough for any that a person wrote
TEST_FOLDERS = ("tests", "test", "spec", "__tests__")
NPM_PLACEHOLDER = "no test specified"  # what `npm init` writes

PROMPT = """\
# What is wanted

{placeholder}

# How to work

- Read NOTES.md first, if it is there: what earlier sessions tried. Add what you tried, also what gave nothing.
- {verify}
- Commit every step that is better, with a message that says why.
- When nothing is left to gain, end your last answer with the line: RALPHD: DONE
"""

SETTINGS = """\
# What a night of this repository is. `ralphd doctor` checks it, `ralphd start` begins it.
# Everything here may be left out; what is commented out stands at its default.

[night]
width = {width}                  # loops at once
# until = "07:00"          # or for = "8h"; neither: until `ralphd stop`

[agent]
cli = "claude"             # or codex, opencode, pi, gemini, qwen, mini, command, demo
# program = "claude"       # path or name of the executable
# model = ""               # the one chosen model
# env_pass = []            # names passed on from your environment, such as ["ANTHROPIC_API_KEY"]

# [limits]                 # of one tool call; a session itself has none but its compactions
# tool_seconds = 300
# tool_memory = "1GiB"

[[task]]
prompt = "PROMPT.md"
# base = "HEAD"            # what the loops start from

{verify}
# [worktree]
# include = []             # ignored files that every worktree gets a copy of, such as [".env"]
"""

NO_VERIFIER = """\
# Nothing here says how a commit is measured, and without that nobody can tell the best answer from the worst.
# [task.verify]
# command = "make test"    # run by sh in a checkout that the agents can't touch
# score = "exit"           # exit | junit:PATH | regex:PATTERN | json:PATH#/pointer
# protect = ["tests/**"]   # a commit that changes these is not counted
"""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """How commits could be measured. ``why``: what in the repository says so."""

    command: str
    why: str
    score: str = "exit"
    protect: tuple[str, ...] = ()
    setup: str = ""


@click.command()
@JSON
def init(*, as_json: bool) -> None:
    """Write ralphd.toml and PROMPT.md where they are missing."""
    top = describe_repo(os.getcwd()).toplevel
    guess = guess_verifier(top)
    texts = {"ralphd.toml": settings(guess), "PROMPT.md": prompt(guess)}
    wrote = [name for name, text in texts.items() if _write(os.path.join(top, name), text)]
    kept = [name for name in texts if name not in wrote]
    if as_json:
        found = {"command": guess.command, "score": guess.score, "why": guess.why} if guess else None
        out.data({"folder": top, "wrote": wrote, "kept": kept, "verifier": found})
        return
    for name in texts:
        out.say(f"{'wrote' if name in wrote else 'kept '} {os.path.join(top, name)}")
    for line in _advice(guess, wrote, top):
        out.say(line)


def _advice(guess: Guess | None, wrote: list[str], top: str) -> list[str]:
    lines = []
    if "ralphd.toml" in wrote:
        lines.append(
            f"verifier: {guess.command} (score {guess.score}), because {guess.why}"
            if guess
            else "no verifier: nothing here tells how to run the tests; set task.verify.command in ralphd.toml"
        )
    if "PROMPT.md" in wrote:
        lines.append("next: write what is wanted into PROMPT.md, and commit it")
    away = "" if os.path.realpath(os.getcwd()) == top else f"cd {top}; "
    return [*lines, f"then: {away}ralphd doctor; ralphd start"]


def _write(path: str, text: str) -> bool:
    """Make the file; False when anything is there already, a dangling link too."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return False
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def prompt(guess: Guess | None) -> str:
    verify = f"`{guess.command}` measures what you did; its figures count, not words." if guess else "Measure it."
    return PROMPT.format(verify=verify, placeholder=preflight.PLACEHOLDER)


def settings(guess: Guess | None) -> str:
    """Return the text of ralphd.toml. Without a verifier the width stays small: nobody could choose among many."""
    text = SETTINGS.format(width=4 if guess else 2, verify=_verify(guess) if guess else NO_VERIFIER)
    configfile.read(text)
    return text


def _verify(guess: Guess) -> str:
    lines = ["[task.verify]", f"command = {_quoted(guess.command)}  # {guess.why}", f"score = {_quoted(guess.score)}"]
    lines += [f"protect = {json.dumps(guess.protect)}  # a commit that changes these is not counted"]
    if guess.setup:
        lines += [f"setup = {_quoted(guess.setup)}  # once per checkout"]
    return "\n".join([*lines, '# seconds = 600\n# memory = "4GiB"', ""])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def guess_verifier(top: str) -> Guess | None:
    """Look at what the repository's files say about its tests; the first sign counts."""
    return next((guess for sign in SIGNS if (guess := sign(top)) is not None), None)


def _pytest(top: str) -> Guess | None:
    why = _pytest_sign(top)
    if not why:
        return None
    runner = "pytest" if shutil.which("pytest") else "python3 -m pytest"
    if os.path.exists(os.path.join(top, "uv.lock")) and shutil.which("uv"):
        runner = "uv run pytest"
    report = ".ralphd-junit.xml"
    command = f"{runner} -q --junitxml={report}"
    return Guess(command=command, why=why, score=f"junit:{report}", protect=_test_folders(top, "conftest.py"))


def _pytest_sign(top: str) -> str:
    table = _toml(os.path.join(top, "pyproject.toml")).get("tool")
    if isinstance(table, dict) and "pytest" in table:
        return "pyproject.toml configures pytest"
    for name in ("pytest.ini", "conftest.py", "tests/conftest.py"):
        if os.path.exists(os.path.join(top, name)):
            return f"there is a {name}"
    for folder in ("", *TEST_FOLDERS):
        tests = [name for name in _names(os.path.join(top, folder)) if re.fullmatch(r"test_.*\.py|.*_test\.py", name)]
        if tests:
            return f"there is a {os.path.join(folder, min(tests))}"
    return ""


def _npm(top: str) -> Guess | None:
    try:
        scripts = json.loads(_text(os.path.join(top, "package.json"))).get("scripts", {})
        script = scripts.get("test")
    except (ValueError, AttributeError, RecursionError):
        return None
    if not isinstance(script, str) or NPM_PLACEHOLDER in script:
        return None
    locked = os.path.exists(os.path.join(top, "package-lock.json"))
    why = "package.json has a test script"
    return Guess(command="npm test", why=why, protect=_test_folders(top), setup="npm ci" if locked else "npm install")


def _cargo(top: str) -> Guess | None:
    if not os.path.exists(os.path.join(top, "Cargo.toml")):
        return None
    return Guess(command="cargo test", why="there is a Cargo.toml", protect=_test_folders(top))


def _go(top: str) -> Guess | None:
    if not os.path.exists(os.path.join(top, "go.mod")):
        return None
    return Guess(command="go test ./...", why="there is a go.mod", protect=("*_test.go",))


def _make(top: str) -> Guess | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        target = re.search(r"^(test|check)\s*:(?!=)", _text(os.path.join(top, name)), re.MULTILINE)
        if target:
            why = f"{name} has a target {target[1]}"
            return Guess(command=f"make {target[1]}", why=why, protect=(name, *_test_folders(top)))
    return None


SIGNS: tuple[Callable[[str], Guess | None], ...] = (_pytest, _npm, _cargo, _go, _make)


def _test_folders(top: str, *files: str) -> tuple[str, ...]:
    folders = [f"{name}/**" for name in TEST_FOLDERS if os.path.isdir(os.path.join(top, name))]
    return (*folders, *(name for name in files if os.path.isfile(os.path.join(top, name))))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(path: str) -> str:
    """Return a project file's text; of what can't be read, or is none, nothing."""
    if not os.path.isfile(path):  # a FIFO would never end
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(READ_BYTES)
    except OSError:
        return ""


def _toml(path: str) -> dict[str, object]:
    try:
        return tomllib.loads(_text(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
