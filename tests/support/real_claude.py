"""How is the real Claude Code CLI found, and run against a model server on loopback?"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from support.needs import missing

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSTALLER = os.path.join(CHECKOUT, "scripts", "real-clients")
MADE_UP_KEY = "sk-test-000"
ARGUMENTS = ("-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions")


def program() -> str:
    """The executable: $RALPHD_CLAUDE, else what scripts/real-clients installed; a skip or a failure without one."""
    if named := os.environ.get("RALPHD_CLAUDE"):
        return named
    return installed() or missing("the real Claude Code CLI is not installed: run scripts/real-clients")


@functools.cache
def installed() -> str:
    """Where scripts/real-clients put it; empty when it has not run."""
    command = [sys.executable, INSTALLER, "--where", "claude"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def environment(base_url: str, home: str, **more: str) -> dict[str, str]:
    """The whole environment of a client that can reach nothing but `base_url`; `home` also holds its TMPDIR.

    IS_SANDBOX lets root skip permissions. The dead proxy stops whatever would still leave the machine.
    """
    temporary = os.path.join(home, "tmp")
    os.makedirs(temporary, exist_ok=True)
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": home,
        "TMPDIR": temporary,
        "LANG": "C.UTF-8",
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ANTHROPIC_BASE_URL": base_url,
        "ANTHROPIC_API_KEY": MADE_UP_KEY,
        "NO_PROXY": "127.0.0.1",
        "HTTPS_PROXY": "http://127.0.0.1:9",  # discard: nobody listens
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "Agent" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "agent@example.org" for who in ("AUTHOR", "COMMITTER")},
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
