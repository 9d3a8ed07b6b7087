"""A night against a server that refuses, flaps and works again: nobody fails, one asks for all, and a person may say now."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.nightbox import NightBox, night_box
from support.repositories import commit, repository

from ralphd.core import records

# Asks the server once for its session, then counts one further and commits.
AGENT = r"""#!/bin/bash
cat >/dev/null
exec 3<>/dev/tcp/127.0.0.1/$PORT && echo "$RALPHD_LOOP" >&3 && read -r answer <&3
case "$answer" in
quota) echo '{"type":"error","status":429,"error":"quota","message":"You have hit your session limit, resets in 5h"}'; exit 1;;
busy) echo '{"type":"error","status":529,"error":"overloaded_error","message":"Overloaded"}'; exit 1;;
slow) echo '{"type":"error","status":429,"error":"rate_limit_error","message":"slow down","retry_after_s":0.3}'; exit 1;;
esac
n=$(($(cat n 2>/dev/null || echo 0) + 1))
echo '{"type":"text","text":"Counting to '$n'."}'
echo $n >n
git add n && git commit -q -m "Count to $n"
sleep 0.5
"""
CONFIG = """
[agent]
cli = "command"
program = "./agent"
env = {{ PORT = "{port}", API_KEY = "k" }}
[limits]
backoff_min_seconds = 0.2
backoff_max_seconds = 0.5
[[task]]
name = "count"
[task.verify]
command = "cat n 2>/dev/null || echo 0"
score = "regex:([0-9]+)"
"""
LOOPS = 4


class Server:
    """Answers each asker with the next of ``mood``, round and round; ``most`` is how many were in flight at a time."""

    def __init__(self) -> None:
        self.mood = ("quota",)
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.most = self._running = 0
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        with peer, peer.makefile("rw") as stream:
            loop = stream.readline().strip()
            with self._lock:
                self._running += 1
                self.most = max(self.most, self._running)
                answer = self.mood[len(self.asked) % len(self.mood)]
                self.asked.append(loop)
            time.sleep(0.1)  # so that two at a time would be seen
            with self._lock:
                self._running -= 1
                if answer == "ok":
                    self.answered.append(loop)
            stream.write(f"{answer}\n")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    repo = repository(tmp_path / "repo")
    (repo / "PROMPT.md").write_text("Count one further.\n")
    (repo / "agent").write_text(AGENT)
    (repo / "agent").chmod(0o755)
    commit(repo, "Ask")
    with night_box(tmp_path, repo) as box:
        yield box


def all_wait(box: NightBox, kind: str) -> bool:
    rows = box.loops().values()
    return len(rows) == LOOPS and all(row["state"] == "waiting" and kind in row["note"] for row in rows)


@pytest.mark.slow
def test_a_night_against_a_server_that_refuses_then_flaps_then_works(box: NightBox) -> None:
    with serving() as server:
        box.configure(CONFIG.format(port=server.port))
        box.start("--width", str(LOOPS))
        # A limit that is over in hours is waited for, and a person is told.
        box.wait_until(lambda: all_wait(box, "inference.quota"), "all wait for the quota")
        assert len(server.asked) <= LOOPS
        needs = "the quota is used up: loop-1, loop-2, loop-3, loop-4 wait "
        box.wait_until(lambda: needs in str(box.glance()["daemon"]["trouble"]), "a person is told")
        # They say now: it is tried, and refused again, for another reason.
        server.mood, asked = ("busy", "busy", "slow"), len(server.asked)
        box.ralphd("resume", "--now")
        box.wait_until(lambda: len(server.asked) > asked + 8, "it is asked again and again")
        # All that come now come one at a time, whoever it is.
        server.most, asked = 0, len(server.asked)
        box.wait_until(lambda: len(server.asked) >= asked + 12, "it is asked on and on")
        assert server.most == 1
        assert not server.answered
        # It flaps.
        server.mood = ("ok", "ok", "busy", "busy", "busy")
        box.wait_until(lambda: len(server.answered) >= 6, "some are answered")
        # It works: all of them do.
        server.mood = ("ok",)
        asked = len(server.asked)
        box.wait_until(lambda: len(set(server.answered[-20:])) == LOOPS and len(server.asked) > asked, "all work")
        box.wait_until(lambda: all((row["best_score"] or 0) >= 2 for row in box.rows().values()), "all have gained")
        box.stop()
    report = box.report()
    ends = {entry.body.outcome.kind.value for entry in box.journal(records.TrajectoryEnded)}
    assert ends <= {"done.next", "done.stopped"}
    attempts = box.journal(records.AttemptEnded)
    assert {entry.body.outcome.charge.value for entry in attempts} == {"infra"}
    assert {"inference.quota", "inference.overloaded"} <= set(report["outcomes"])
    assert {loop["id"]: loop["outcomes"].get("agent.exited", 0) for loop in report["loops"]} == dict.fromkeys(
        (f"loop-{number}" for number in range(1, LOOPS + 1)), 0
    )
    told = [action for action in report["actions"] if action["action"] == "Notify"]
    assert "the quota is used up" in {action["why"] for action in told}
    assert all(action["result"] == "done" for action in told)
