"""`ralphd top` in a real terminal of 80 by 24, without colour, against a real night: what it shows and what its keys do."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nightbox import NightBox, night_box
from support.repositories import commit, repository
from support.terminal import Terminal

AGENT = """#!/bin/sh
cat >/dev/null
n=$(($(cat n 2>/dev/null || echo 0) + 1))
printf '{"type":"text","text":"Counting [b]to[/b] \\\\u001b[2J'$n'."}\\n'
echo $n >n
git add n && git commit -q -m "Count"
sleep 0.5
echo '{"type":"result","text":"Counted."}'
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


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    repo = repository(tmp_path / "repo")
    (repo / "PROMPT.md").write_text("Count one further.\n")
    (repo / "agent").write_text(AGENT)
    (repo / "agent").chmod(0o755)
    (repo / "ralphd.toml").write_text(TOML)
    commit(repo, "Ask")
    with night_box(tmp_path, repo) as made:
        yield made


@pytest.fixture
def terminal(box: NightBox) -> Iterator[Terminal]:
    opened = Terminal(box.state.parent / "t.sock", box.env, box.repo)
    yield opened
    opened.close()


@pytest.mark.slow
def test_a_person_watches_and_steers_a_night(box: NightBox, terminal: Terminal) -> None:
    terminal.run(sys.executable, "-P", "-m", "ralphd", "top")
    terminal.wait(r"No answer: .*no night")  # it was there before the night
    box.start()
    terminal.wait(r"(?s)Night \S+ running.*loop-1 +\w+.*loop-2 +\w+")
    shown = terminal.wait(r"Counting \[b\]to\[/b\]")
    assert all(key in shown for key in ("attach", "pause", "resume", "restart", "repair", "scale", "quit"))
    assert all(len(line) <= 80 for line in shown.splitlines())
    coloured = re.findall(r"\x1b\[[0-9;]*m", terminal.screen("-e"))
    assert not [code for code in coloured if re.search(r"[\[;](3[0-8]|4[0-8]|9\d|10\d)[;m]", code)], coloured

    terminal.press("p")
    terminal.wait("held at the end of the session: loop-1")
    box.wait_until(lambda: box.rows()["loop-1"]["state"] == "paused", "loop-1 is paused")
    terminal.wait(r"(?m)^loop-1 +paused")
    assert box.loops()["loop-2"]["state"] != "paused"

    terminal.press("r")
    terminal.wait("going on: loop-1")
    box.wait_until(lambda: box.rows()["loop-1"]["state"] != "paused", "loop-1 goes on")

    terminal.press("n")
    terminal.wait("A note for loop-1")
    terminal.press("-l", "look at [b]n[/b]")
    terminal.press("Enter")
    terminal.wait("a note is left for: loop-1")

    terminal.press("a")
    box.wait_until(lambda: looks(box), "somebody looks into a pane")
    terminal.tmux("send-keys", "-t", "t", "C-b", "d")  # to the inner tmux: keys that are sent bypass the outer one's
    box.wait_until(lambda: not looks(box), "nobody looks any more")
    terminal.wait(r"Night \S+ running")
    terminal.press("q")
    terminal.wait("LEFT")


def looks(box: NightBox) -> bool:
    return any(window["attached"] for window in json.loads(box.ralphd("attach", "--json").stdout))


@pytest.mark.slow
def test_without_a_terminal_it_names_what_to_use_instead(box: NightBox) -> None:
    done = box.ralphd("top", code=2)
    assert "ralphd status" in done.stderr
