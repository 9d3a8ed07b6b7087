"""The tmux server is killed, wedged, or a person closes windows in it: each loop goes on as it should, and is told of once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nightbox import NightBox, night_box
from support.repositories import commit, repository

from ralphd.core import events, records
from ralphd.daemon.act import spread
from ralphd.edges.tmux_socket import peer_pid, socket_path

pytestmark = pytest.mark.slow

# Leaves a child in a session of its own that listens to nothing, and stays.
HIDES = """#!/bin/sh
cat >/dev/null
setsid sh -c 'trap "" TERM HUP INT; echo $$ >>hidden; while :; do sleep 7777; done' &
until [ -s hidden ]; do sleep 0.05; done
sleep 7777
"""
WAITS = "#!/bin/sh\ncat >/dev/null\nsleep 7777\n"
CONFIG = '[agent]\ncli = "command"\nprogram = "./agent"\n[[task]]\nname = "n"\n'
WIDTH = 16
SLOW = """#!/bin/sh
[ ! -e {flag} ] || sleep 15
exec {tmux} "$@"
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    repo = repository(tmp_path / "repo")
    (repo / "PROMPT.md").write_text("Stay.\n")
    commit(repo, "Ask")
    with night_box(tmp_path, repo) as box:
        yield box


def start(box: NightBox, text: str, width: int) -> None:
    (box.repo / "agent").write_text(text)
    (box.repo / "agent").chmod(0o755)
    box.configure(CONFIG)
    box.start("--width", str(width), "--for", "1h")


def tmux(box: NightBox, *arguments: str) -> str:
    command = ["tmux", "-S", socket_path(str(box.state), box.env), *arguments]
    return subprocess.run(command, env=box.env, capture_output=True, text=True, check=True).stdout


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def spawns(box: NightBox) -> Counter[object]:
    return Counter(e.body.args["loop"] for e in box.journal(events.ActionIntended) if e.body.type == "SpawnRunner")


def lost(box: NightBox) -> Counter[str]:
    noted = box.journal(events.OutcomeNoted)
    return Counter(entry.loop for entry in noted if entry.body.outcome.kind.value == "tmux.server_lost")


def waits_of_new_runners(box: NightBox) -> list[list[float]]:
    """Return the seconds from each second runner's start to its first session, by the decision that started it."""
    runners = {entry.loop: entry.at for entry in box.journal(records.RunnerStarted)}
    decided = {e.body.args["loop"]: e.at for e in box.journal(events.ActionIntended) if e.body.type == "SpawnRunner"}
    together: dict[float, list[float]] = {}
    for entry in box.journal(records.TrajectoryStarted):
        if entry.trajectory == 2:
            together.setdefault(decided[entry.loop], []).append(entry.at - runners[entry.loop])
    return list(together.values())


def test_a_killed_server_costs_each_loop_one_session_and_leaves_nothing(
    box: NightBox, capsys: pytest.CaptureFixture[str]
) -> None:
    start(box, HIDES, WIDTH)
    loops = [f"loop-{number}" for number in range(1, WIDTH + 1)]

    def hidden() -> list[int]:
        files = [box.worktree(loop) / "hidden" for loop in loops]
        return [int(line) for file in files if file.exists() for line in file.read_text().split()]

    box.wait_until(lambda: len(hidden()) == WIDTH, "each agent has hidden a child")
    before, children = box.runners(), hidden()
    server = peer_pid(socket_path(str(box.state), box.env))
    assert server is not None
    os.kill(server, signal.SIGKILL)
    began = time.monotonic()
    box.wait_until(lambda: not set(before.values()) & set(box.runners().values()), "each loop has a new runner")
    box.wait_until(lambda: box.glance()["fleet"]["running"] == WIDTH, "all run")
    box.wait_for(records.TrajectoryStarted, 2 * WIDTH)
    resumed_after_s = time.monotonic() - began
    box.wait_until(lambda: not any(map(alive, children)), "the hidden children are gone", 30)
    assert lost(box) == dict.fromkeys(loops, 1)
    assert spawns(box) == dict.fromkeys(loops, 2)
    assert {row["state"] for row in box.loops().values()} == {"running"}
    began_again = sorted(entry.at for entry in box.journal(records.TrajectoryStarted) if entry.trajectory == 2)
    assert len(began_again) == WIDTH
    for waits in waits_of_new_runners(box):  # a slow machine sees the death of sixteen runners in more than one look
        for waited_s, least_s in zip(sorted(waits), spread([True] * len(waits)), strict=True):
            assert waited_s >= least_s, "they don't all begin at once"
    with capsys.disabled():
        spread_s = began_again[-1] - began_again[0]
        words = f"all of {WIDTH} loops resumed {resumed_after_s:.1f} s after the tmux server was killed"
        print(f"\n{words}, their sessions begun over {spread_s:.1f} s")


def test_windows_that_a_person_closes_stay_closed(box: NightBox) -> None:
    start(box, WAITS, WIDTH)
    before = box.runners()
    assert len(before) == WIDTH
    closed = ["loop-2", "loop-4", "loop-9", "loop-16"]
    for loop in closed:
        tmux(box, "kill-window", "-t", f"=ralphd:={loop}")
    states = {loop: "paused" if loop in closed else "running" for loop in before}
    box.wait_until(lambda: {loop: row["state"] for loop, row in box.rows().items()} == states, "those four are paused")
    intended = [e for e in box.journal(events.ActionIntended) if e.body.type == "Pause"]
    assert sorted((entry.loop, entry.body.by) for entry in intended) == sorted((loop, "operator") for loop in closed)
    assert spawns(box) == dict.fromkeys(before, 1)
    now = box.runners()
    assert all(now[loop] == before[loop] for loop in before if loop not in closed)
    assert not lost(box)
    box.ralphd("resume", "loop-2")
    box.wait_until(lambda: box.rows()["loop-2"]["state"] == "running", "the resumed one runs")


def test_a_wedged_tmux_stops_neither_status_nor_starts_a_storm(box: NightBox) -> None:
    flag, real = box.root / "wedged", shutil.which("tmux")
    assert real is not None
    (box.root / "bin").mkdir()
    (box.root / "bin" / "tmux").write_text(SLOW.format(flag=flag, tmux=real))
    (box.root / "bin" / "tmux").chmod(0o755)
    box.env["PATH"] = f"{box.root / 'bin'}:{box.env['PATH']}"
    start(box, WAITS, 2)
    before = box.runners()
    flag.touch()
    os.kill(before["loop-1"], signal.SIGKILL)
    waits = []
    until = time.monotonic() + 30.0
    while time.monotonic() < until:
        asked = time.monotonic()
        box.status()
        waits.append(time.monotonic() - asked)
        time.sleep(0.5)
    assert max(waits) < 4.0, "a call to tmux takes 15 s; nobody who asks may wait for one"
    assert spawns(box)["loop-1"] <= 4
    assert spawns(box)["loop-2"] == 1
    flag.unlink()
    box.wait_until(lambda: box.rows()["loop-1"]["state"] == "running", "the loop runs again")
    assert box.runners()["loop-2"] == before["loop-2"]
