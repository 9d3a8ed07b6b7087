"""The smallest night there is: two loops of a shell script that counts on, judged by the number they reach."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from support.nightbox import NightBox
from support.repositories import commit, repository

from ralphd.edges.journal import JournalReader

# Counts one further, commits, and tells so; it naps, so that a night is a few sessions and no storm.
AGENT = """#!/bin/sh
cat >/dev/null
n=$(($(cat n 2>/dev/null || echo 0) + 1))
echo $n >n
git add n && git commit -q -m "Count to $n"
echo '{"type":"result","text":"Counted."}'
sleep 0.3
"""
TOML = """
[night]
width = 2
[agent]
cli = "command"
program = "./agent"
[[task]]
name = "count"
[task.verify]
command = "cat n 2>/dev/null || echo 0"
score = "regex:([0-9]+)"
"""


def counting_repository(at: Path) -> Path:
    repo = repository(at)
    (repo / "PROMPT.md").write_text("Count one further.\n")
    (repo / "agent").write_text(AGENT)
    (repo / "agent").chmod(0o755)
    commit(repo, "Ask")
    return repo


def told_by_runners(box: NightBox, night: str) -> dict[str, dict[int, str]]:
    """What each runner has written down, by its own count."""
    folder = box.state / "nights" / night / "loops"
    return {
        path.parent.name: {line["seq"]: line["type"] for line in map(json.loads, path.read_bytes().split(b"\n")[:-1])}
        for path in folder.glob("*/records.jsonl")
    }


def journaled(box: NightBox, night: str) -> dict[str, dict[int, str]]:
    """What of that the journal has; that it has each once is asserted."""
    found: dict[str, dict[int, str]] = {}
    with contextlib.closing(JournalReader.open(str(box.state / "journal.db"))) as reader:
        for entry in reader.entries(night):
            if entry.seq:
                assert entry.seq not in found.setdefault(entry.loop, {}), "a record is there twice"
                found[entry.loop][entry.seq] = type(entry.body).__name__
    return found


def wait_for_all_of(box: NightBox, night: str, told: dict[str, dict[int, str]]) -> None:
    box.wait_until(
        lambda: all(journaled(box, night).get(loop, {}).items() >= lines.items() for loop, lines in told.items()),
        "the journal has what the runners told",
    )
