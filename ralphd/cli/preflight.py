"""What must be so before a night can start: every mistake that can be seen beforehand is one clear line."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from ralphd.core.config import AgentConfig, Config, TaskConfig
from ralphd.core.errors import UsageError
from ralphd.core.exchange import SUPERVISOR_KEY as KEY
from ralphd.edges.checkout import Checkout, describe_repo, resolve_base

PROMPT_MAX_BYTES = 16 << 20
# What `ralphd init` leaves to be written. A night that begins with it is lost.
PLACEHOLDER = "(Say in a few sentences what shall be better in the morning, and how that is measured.)"
# Words that a shell runs itself; anything else in the first place of a command must be a program.
SHELL_WORDS = frozenset(
    ". : [ alias break case cd command continue echo eval exec exit export false for if printf pwd read readonly "
    "return set shift test times trap true type ulimit umask unset until wait while { ( !".split()
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A task whose repository, prompt and base are really there."""

    config: TaskConfig
    checkout: Checkout
    base: str
    prompt: str


def check_tasks(config: Config, folder: str, path: str) -> list[Asked]:
    """Look at every task from ``folder``, where ralphd.toml is or would be. ``path`` is the PATH verifiers get."""
    return [_check_task(task, folder, path) for task in config.tasks]


def _check_task(task: TaskConfig, folder: str, path: str) -> Asked:
    checkout = describe_repo(os.path.join(folder, os.path.expanduser(task.repo)))
    base = resolve_base(checkout, task.base)
    prompt = os.path.join(checkout.toplevel, os.path.expanduser(task.prompt))
    check_prompt(prompt)
    check_verifier(task.verify.command, checkout.toplevel, path)
    return Asked(config=task, checkout=checkout, base=base, prompt=prompt)


def check_prompt(path: str) -> None:
    if os.path.islink(path):
        raise UsageError(f"{path} is a link; a prompt is read as a plain file, so that nothing else can be slipped in")
    if not os.path.isfile(path):
        raise UsageError(f"{path}: no such file; write the question for the agents there, or set task.prompt")
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path} can't be read; give yourself the right to: chmod u+r")
    size = os.path.getsize(path)
    if size == 0:
        raise UsageError(f"{path} is empty; write the question for the agents there")
    if size > PROMPT_MAX_BYTES:
        raise UsageError(f"{path} has {size} bytes; a prompt may have {PROMPT_MAX_BYTES}")
    with open(path, "rb") as file:
        if PLACEHOLDER.encode() in file.read():
            raise UsageError(f"{path} doesn't say yet what is wanted; write that where it reads: {PLACEHOLDER}")


def check_verifier(command: str, checkout: str, path: str) -> None:
    """Refuse a command whose program isn't there. What only a run can tell, the verdict of the base tells."""
    program = _program_of(command)
    if not program or program in SHELL_WORDS or re.search(r"[$`*?<>|&;()~]", program):
        return
    if "/" in program:
        found = os.path.join(checkout, program)
        if not os.path.isfile(found):
            raise UsageError(f"the verifier can't run: task.verify.command names {program}, which is not there")
        if not os.access(found, os.X_OK):
            raise UsageError(
                f"the verifier can't run: {program} is not executable; chmod +x {program}, and commit that"
            )
    elif shutil.which(program, path=path) is None:
        raise UsageError(f"the verifier can't run: task.verify.command needs {program}, which is not on PATH")


def _program_of(command: str) -> str:
    try:
        words = shlex.split(command, comments=True)
    except ValueError as error:
        raise UsageError(f"the verifier can't run: task.verify.command is no shell command: {error}") from None
    return next((word for word in words if not re.match(r"[A-Za-z_]\w*=", word)), "")


def find_program(agent: AgentConfig, folder: str, environ: Mapping[str, str]) -> str:
    """Return the agent's executable, absolute. The built-in demo agent is run by this very Python."""
    if agent.cli == "demo":
        return sys.executable
    name = os.path.expanduser(agent.program) or agent.cli
    if agent.cli == "command" and not agent.program:
        raise UsageError('agent.program is not set: with agent.cli = "command" it names the program to run')
    if "/" in name:
        found = os.path.abspath(os.path.join(folder, name))
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
        raise UsageError(f"agent.program: {name} is not an executable file")
    located = shutil.which(name, path=environ.get("PATH", os.defpath))
    if located is None:
        raise UsageError(f"agent.program: no {name} on PATH; install it, or set agent.program in ralphd.toml")
    return os.path.abspath(located)


def check_environment(agent: AgentConfig, environ: Mapping[str, str]) -> None:
    if KEY in agent.env_pass:
        raise UsageError(f"agent.env_pass names {KEY}, which is the supervisor's own key: no agent may hold it")
    missing = [name for name in agent.env_pass if name not in environ]
    if missing:
        raise UsageError(
            f"agent.env_pass names {', '.join(missing)}, which is not set here; export it, or leave it out "
            "if the agent needs none"
        )
