"""The machine is started anew in the night: the night goes on or is closed, and no process of anybody else is touched.

A reboot is simulated, as a power cut that loses no byte: all that ran is killed at once, its sockets and locks stay behind, every boot id that was written
down is another one, and every pid that was written down belongs to a process that has nothing to do with ralphd.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from support.livenight import LiveNight, until
from support.repositories import git

from ralphd.edges.journal_schema import CHECKED, checksum
from ralphd.edges.processes import boot_id, identity

pytestmark = pytest.mark.slow


@pytest.fixture
def night(tmp_path):
    live = LiveNight(tmp_path)
    yield live
    live.clean_up()


@pytest.fixture
def strangers():
    """Make processes whose pids the machine gives to others after its start."""
    made: list[subprocess.Popen[bytes]] = []

    def one() -> subprocess.Popen[bytes]:
        made.append(subprocess.Popen(["sleep", "7777"], env={"PATH": os.defpath}))
        return made[-1]

    yield one
    for process in made:
        process.kill()
        process.wait()


def power_cut(night: LiveNight) -> None:
    until(lambda: all(loop["trajectory"] for loop in night.rows().values()), "every loop is in a session")
    end = time.monotonic() + 30
    while (left := night.left()) and time.monotonic() < end:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    assert not night.left()


def come_up_again(night: LiveNight, strangers) -> None:
    """Another boot id everywhere, and all pids given to strangers, down to the ticks at which they started."""
    before, after = boot_id(), str(uuid.uuid4())
    for path in night.state.glob("nights/*/loops/*/runner.json"):
        path.write_text(json.dumps(_given_away(json.loads(path.read_text()), strangers(), after)))
    for path in night.state.glob("nights/*/loops/*/records.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        for line in lines:
            if "pid" in line["body"]:
                line["body"] = _given_away(line["body"], strangers(), after)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (night.state / "daemon.lock").write_text(json.dumps({"pid": strangers().pid, "started_at": "", "version": "0"}))
    with closing(sqlite3.connect(night.state / "journal.db")) as journal:
        _rewrite(journal, before, after)
    assert (night.state / "control.sock").exists()


def _given_away(body: dict, stranger: subprocess.Popen[bytes], boot: str) -> dict:
    who = identity(stranger.pid)
    assert who is not None
    news = {"pid": who.pid, "start_ticks": who.start_ticks}
    return body | news | ({"boot_id": boot} if "boot_id" in body else {})


def _rewrite(journal: sqlite3.Connection, before: str, after: str) -> None:
    tables = [name for (name,) in journal.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        for _, column, *_ in list(journal.execute(f"PRAGMA table_info({table})")):  # our own names
            text = f"UPDATE {table} SET {column} = replace({column}, ?, ?) WHERE instr({column}, ?)"
            journal.execute(text, (before, after, before))
    _seal(journal)


def _seal(journal: sqlite3.Connection) -> None:
    """Give every row the checksum of what it now holds: as if it had been written so."""
    rows = journal.execute(f"SELECT id, {', '.join(CHECKED)} FROM entry").fetchall()
    sealed = [(checksum(values), number) for number, *values in rows]
    journal.executemany("UPDATE entry SET checksum = ? WHERE id = ?", sealed)
    journal.commit()


def alive_all(made: list[subprocess.Popen[bytes]]) -> bool:
    return all(process.poll() is None and _undisturbed(process.pid) for process in made)


def _undisturbed(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def rebooted(night: LiveNight) -> list[dict]:
    return [line for line in night.journal("outcomes") if line["kind"] == "host.rebooted"]


def test_a_night_goes_on_after_a_reboot_and_no_stranger_is_signalled(night, strangers):
    made = []
    night.start("--for", "1h")
    name = night.status()["night"]["id"]
    power_cut(night)
    come_up_again(night, lambda: made.append(strangers()) or made[-1])
    assert len(made) > 4
    said = night.ralphd("status")
    assert said.returncode == 3
    assert "none of its loops runs" in said.stderr
    assert "2 of 2 loops run" in night.start()
    assert night.status()["night"]["id"] == name
    before = {loop: row["trajectory"] for loop, row in night.loops().items()}
    until(lambda: all(row["trajectory"] > before[loop] for loop, row in night.rows().items()), "the loops go on")
    assert len(rebooted(night)) == 1
    assert alive_all(made)
    os.kill(night.daemon_pid(), signal.SIGKILL)
    until(lambda: night.daemon_pid() is None)
    night.start()
    night.good("stop")
    assert len(rebooted(night)) == 1
    assert alive_all(made)
    assert not night.left()


def test_a_night_whose_time_passed_while_the_machine_was_off_is_closed_and_reported(night, strangers):
    made = []
    night.start("--for", "1h")
    name = night.status()["night"]["id"]
    power_cut(night)
    come_up_again(night, lambda: made.append(strangers()) or made[-1])
    with closing(sqlite3.connect(night.state / "journal.db")) as journal:
        text = "UPDATE entry SET body = json_set(body, '$.ends_at', ?) WHERE json_extract(body, '$.ends_at') > 0"
        assert journal.execute(text, (time.time() - 60,)).rowcount == 1
        _seal(journal)
    assert night.ralphd("start", "--foreground", "--only-open").returncode == 0
    (row,) = json.loads(night.good("report", "--list", "--json"))
    assert (row["id"], row["why_ended"]) == (name, "time")
    assert (night.state / "nights" / name / "report.md").exists()
    assert len(rebooted(night)) == 1
    assert alive_all(made)
    assert not night.left()


GOAL = """\
[night]
width = 2

[agent]
cli = "command"
program = "{program}"

[[task]]
name = "short"

[task.verify]
command = "cat n"
score = 'regex:(\\d+)'
goal = 2

[[task]]
name = "long"

[task.verify]
command = "cat n"
score = 'regex:(\\d+)'
"""


@pytest.fixture
def two_tasks(tmp_path):
    live = LiveNight(tmp_path, toml=GOAL)
    yield live
    live.clean_up()


def test_a_goal_that_was_reached_stays_so_after_a_reboot_and_can_be_taken(two_tasks, strangers):
    """Seen: a worker that was done, and not merged yet, was found dead after a reboot and started again."""
    night, made = two_tasks, []
    night.start("--for", "1h")
    loops = {row["task"]: name for name, row in night.loops().items()}
    done, other = loops["short"], loops["long"]
    until(lambda: night.loops()[done]["state"] == "stopped", "the short task has reached its goal")
    worktree = next(night.state.glob(f"worktrees/**/{done}"))
    head = git(night.repo, "-C", str(worktree), "rev-parse", "HEAD")
    best = night.loops()[done]["best_score"]
    power_cut(night)
    come_up_again(night, lambda: made.append(strangers()) or made[-1])
    night.start()
    before = night.loops()[other]["trajectory"]
    until(lambda: night.loops()[other]["trajectory"] > before, "the other loop goes on")
    assert night.loops()[done]["state"] == "stopped"
    assert git(night.repo, "-C", str(worktree), "rev-parse", "HEAD") == head
    spawned = [row["loop"] for row in night.journal("actions") if row["action"] == "SpawnRunner"]
    assert spawned.count(done) == 1
    assert spawned.count(other) == 2
    night.good("take", "best", "--task", "short", "--to", "taken")
    assert float(git(night.repo, "show", "taken:n")) == best
