"""Every way that git has to run a program, planted in a repository."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.repositories import git

PAYLOADS = [
    ("core.fsmonitor", "{run}"),
    ("core.hooksPath", "{hooks}"),
    ("filter.x.clean", "{run}"),
    ("filter.x.smudge", "{run}"),
    ("filter.x.process", "{run}"),
    ("diff.external", "{run}"),
    ("diff.x.textconv", "{run}"),
    ("alias.rev-parse", "!{run}"),
    ("core.sshCommand", "{run}"),
    ("credential.helper", "!{run}"),
    ("uploadpack.packObjectsHook", "{run}"),
    ("core.pager", "{run}"),
    ("core.alternateRefsCommand", "{run}"),
    ("gpg.program", "{run}"),
]
HOOKS = (
    "reference-transaction",
    "post-checkout",
    "pre-commit",
    "post-update",
    "post-index-change",
    "fsmonitor-watchman",
)


# Writes down how it was called, and every process above it.
PAYLOAD = """#!/bin/sh
chain= pid=$$
while [ "${{pid:-0}}" -gt 1 ]; do
    chain="$chain $pid"
    pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null)
done
echo "$0 $* :$chain" >>"{ran}"
"""


def ancestors(ran: Path) -> list[tuple[str, set[int]]]:
    """Every call of a payload, with the pids of itself and all above it."""
    lines = ran.read_text().splitlines() if ran.exists() else []
    return [(line, {int(pid) for pid in line.rpartition(":")[2].split()}) for line in lines]


def plant(git_dir: Path, tmp_path: Path) -> Path:
    """Put every way to run a program that git has into a repository. Returns the file that each of them makes."""
    ran, run = tmp_path / "ran", tmp_path / "payload"
    run.write_text(PAYLOAD.format(ran=ran))
    run.chmod(0o755)
    (git_dir / "hooks").mkdir(exist_ok=True)
    for hook in HOOKS:
        shutil.copy(run, git_dir / "hooks" / hook)
    for config in ("config", "config.worktree", "included"):
        for key, value in PAYLOADS:
            git(git_dir, "config", "-f", config, key, value.format(run=run, hooks=git_dir / "hooks"))
    git(git_dir, "config", "-f", "config", "log.showSignature", "true")
    git(git_dir, "config", "-f", "config", "include.path", str(git_dir / "included"))
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "attributes").write_text("* filter=x diff=x\n")
    return ran
