"""How does a scripted tool call reach each client by the tools that it has?

Steps are written with Claude Code's tools. A client that doesn't offer them gets the same deed as a shell command, under
the name and with the arguments of its own shell tool. mini-swe-agent ends a session by a command too, never by words.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from support.model_script import Answer, ToolUse

Arguments = Mapping[str, Any]

DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {}"
EDIT = "import sys; p, old, new = sys.argv[1:]; t = open(p).read(); assert t.count(old) == 1; open(p, 'w').write(t.replace(old, new))"
WRITE = "import sys; p, new = sys.argv[1:]; open(p, 'w').write(new)"


def by_python(program: str, *arguments: str) -> str:
    return shlex.join([sys.executable, "-c", program, *arguments])


AS_SHELL: Mapping[str, Callable[[Arguments], str]] = {
    "Bash": lambda asked: asked["command"],
    "Read": lambda asked: shlex.join(["cat", asked["file_path"]]),
    "Edit": lambda asked: by_python(EDIT, asked["file_path"], asked["old_string"], asked["new_string"]),
    "Write": lambda asked: by_python(WRITE, asked["file_path"], asked["content"]),
}
SHELLS: Mapping[str, Callable[[str], Arguments]] = {
    "exec_command": lambda command: {"cmd": command},
    "run_shell_command": lambda command: {"command": command, "description": "run it", "is_background": False},
    "bash": lambda command: {"command": command, "description": "run it"},
}


def handed(answer: Answer, offered: Sequence[str], directory: str) -> Answer:
    """The answer with each call as this client can carry it out; `{cwd}` becomes the directory."""
    placed = [ToolUse(name=call.name, arguments=in_place(call.arguments, directory)) for call in answer.calls]
    if tuple(offered) == ("bash",) and answer.fault is None and not placed:
        placed = [ToolUse(name="Bash", arguments={"command": DONE.format(shlex.quote(answer.text))})]
    return replace(answer, calls=tuple(_translated(call, offered) for call in placed))


def in_place(value: Any, directory: str) -> Any:
    """The value with `{cwd}` replaced in every string."""
    if isinstance(value, str):
        return value.replace("{cwd}", directory or ".")
    if isinstance(value, Mapping):
        return {key: in_place(one, directory) for key, one in value.items()}
    return [in_place(one, directory) for one in value] if isinstance(value, list) else value


def _translated(call: ToolUse, offered: Sequence[str]) -> ToolUse:
    shell = next((name for name in SHELLS if name in offered), None)
    if shell is None or call.name in offered or call.name not in AS_SHELL:
        return call
    return ToolUse(name=shell, arguments=SHELLS[shell](AS_SHELL[call.name](call.arguments)))
