"""What a loop is told to do: its assignment and the preamble of its prompts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ralphd.core.account import account_of
from ralphd.core.config import Config
from ralphd.core.exchange import Assignment, Include
from ralphd.core.model import Task
from ralphd.core.redact import secrets_of
from ralphd.core.state import LoopState, NightState
from ralphd.daemon.act import fill

# What an agent gets of our environment unless ralphd.toml passes more: enough to run programs and reach the net.
PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the short allow-list, proxies in both spellings."""
    names = (*PASSED, *PROXIES, *(name.upper() for name in PROXIES))
    return {name: environ[name] for name in names if name in environ}


@dataclass(frozen=True, kw_only=True)
class Assigner:
    """Builds assignments. ``environ`` is that of ``ralphd start``; ``program`` the agent's resolved executable."""

    environ: Mapping[str, str]
    program: str
    preamble: str  # the template

    def __call__(
        self, config: Config, state: NightState, loop: LoopState, generation: int, reset_to: str
    ) -> tuple[Assignment, str]:
        task = state.tasks[loop.loop.task].task
        passed = {name: self.environ[name] for name in config.agent.env_pass if name in self.environ}
        env = {**base_environment(self.environ), **passed, **config.agent.env}
        assignment = Assignment(
            night=state.id,
            loop=loop.loop.id,
            generation=generation,
            task=task.name,
            pod=loop.loop.pod,
            cli=config.agent.cli,
            program=self.program,
            model=config.agent.model,
            args=config.agent.args,
            env=env,
            resume=config.agent.resume,
            folder=loop.loop.folder,
            worktree=loop.loop.worktree,
            night_repository=os.path.join(task.night_repository, "repo.git"),
            branch=loop.loop.branch,
            base=task.base,
            prompt=task.prompt,
            preamble=os.path.join(loop.loop.folder, "preamble.md"),
            nonce=loop.loop.nonce,
            limits=config.limits,
            sparse=config.worktree.sparse,
            include=tuple(
                Include(source=os.path.join(task.repository, name), target=name) for name in config.worktree.include
            ),
            reset_to=reset_to,
            secrets=secrets_of(passed, config.agent.env),
            account=account_of(state.id, config.agent.cli, env),
            after_seq=loop.seq,
            after_trajectory=loop.trajectory,
        )
        return assignment, self._preamble(assignment, task)

    def _preamble(self, assignment: Assignment, task: Task) -> str:
        limits = assignment.limits
        slots = {
            "branch": assignment.branch,
            "tool_seconds": f"{limits.tool_seconds:g}",
            "tool_memory": size(limits.tool_memory_bytes),
            "tool_output": size(limits.tool_output_bytes),
            "protected": ", ".join(f"`{path}`" for path in task.verifier.protect) or "nothing",
            "verify_command": task.verifier.command or "none: nothing judges these commits",
        }
        return fill(self.preamble, slots)


def size(count: int) -> str:
    """Write bytes as a person does: 1 GiB, 512 MiB."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"
