"""How is the real Claude Code CLI found, and run against a model server on loopback?"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from support import clients

ARGUMENTS = ("-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions")


def program() -> str:
    """The executable; a skip or a failure without one."""
    return clients.program("claude")


def environment(base_url: str, home: str, **more: str) -> dict[str, str]:
    """The whole environment of a client that can reach nothing but `base_url`; `home` also holds its TMPDIR.

    IS_SANDBOX lets root skip permissions.
    """
    temporary = os.path.join(home, "tmp")
    os.makedirs(temporary, exist_ok=True)
    return {
        **clients.move_in(clients.CLIENTS["claude"], base_url, home),
        "TMPDIR": temporary,
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        **more,
    }


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run: its exit status, the events of its stream, its standard error."""

    status: int
    events: tuple[Mapping[str, Any], ...]
    stderr: str

    def of(self, kind: str, subtype: str | None = None) -> list[Mapping[str, Any]]:
        return [one for one in self.events if one["type"] == kind and subtype in (None, one.get("subtype"))]

    def kinds(self) -> list[str]:
        """The stream in short: `system/init`, `assistant`, `user`, `result/success`, ..."""
        return ["/".join(filter(None, (one["type"], one.get("subtype")))) for one in self.events]

    def tool_results(self) -> Iterator[Mapping[str, Any]]:
        for event in self.of("user"):
            yield from (block for block in event["message"]["content"] if block["type"] == "tool_result")


def run(prompt: str, *, cwd: str, env: Mapping[str, str], arguments: tuple[str, ...] = ()) -> Run:
    """One headless session from start to end; the time limit of the test is the only one."""
    command = [program(), *ARGUMENTS, *arguments, prompt]
    done = subprocess.run(
        command, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    events = tuple(json.loads(line) for line in done.stdout.splitlines())
    return Run(status=done.returncode, events=events, stderr=done.stderr)
