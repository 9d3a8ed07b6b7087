"""A night from start to end, as a person at a shell steers it and looks into it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time

from support.livenight import until
from support.repositories import git


def both_counted(night):
    loops = night.loops()
    return loops if all((loop["best_score"] or 0) >= 2 for loop in loops.values()) else None


def test_a_night_is_started_looked_at_and_stopped(night):
    """Start, status, journal, report, stop: what one says the others say too; nothing is left."""
    said = night.start()
    assert "2 of 2 loops run" in said
    until(lambda: both_counted(night), "both loops count")
    status = night.status()
    assert status["schema"] == "ralphd.status/1"
    assert [loop["id"] for loop in status["loops"]] == ["loop-1", "loop-2"]
    text = night.good("status")
    assert "loop-1" in text
    assert "\x1b" not in text

    stopped = night.good("stop")
    assert f"night {status['night']['id']} has ended" in stopped
    until(lambda: not night.left(), "nothing is left")
    report = json.loads(night.good("report", "--json"))
    assert report["schema"] == "ralphd.report/1"
    best = report["tasks"][0]["best"]
    assert git(night.repo, "show", f"{best['commit']}:n") == f"{best['score']:g}"
    assert night.good("report").startswith("count: better by")
    assert night.good("report", "--markdown").startswith("#")
    (row,) = json.loads(night.good("report", "--list", "--json"))
    assert (row["id"], row["why_ended"]) == (status["night"]["id"], "stopped")
    assert row["id"] in night.good("report", "--list")


def test_steering_one_loop_leaves_the_other_alone(night):
    """Pause, resume, restart and stop do what they say to the loop that is named."""
    night.start()
    until(lambda: both_counted(night), "both loops count")
    assert night.good("pause", "loop-1", "--now") == "held from now on: loop-1\n"
    until(lambda: night.rows()["loop-1"]["state"] == "paused", "loop-1 is held")
    before = night.loops()
    until(lambda: night.rows()["loop-2"]["trajectory"] > before["loop-2"]["trajectory"], "loop-2 goes on")
    assert night.loops()["loop-1"]["trajectory"] == before["loop-1"]["trajectory"]

    assert json.loads(night.good("resume", "loop-1", "--json"))["loops"] == ["loop-1"]
    until(lambda: night.rows()["loop-1"]["trajectory"] > before["loop-1"]["trajectory"], "loop-1 goes on")

    night.good("restart", "loop-1", "--clean")
    until(lambda: night.rows()["loop-1"]["generation"] == 2, "a new generation")

    night.good("stop", "loop-2")
    until(lambda: night.rows()["loop-2"]["state"] == "stopped", "loop-2 has ended")
    refused = night.ralphd("pause", "loop-2")
    assert refused.returncode == 3
    assert "loop-2 has been stopped for this night" in refused.stderr
    assert night.good("pause", "--now") == "held from now on: loop-1\n"  # all is all that were not stopped
    assert night.good("resume", "loop-1", "loop-1") == "going on: loop-1\n"
    night.good("restart", "loop-2")  # a stopped loop may be begun again
    until(lambda: night.rows()["loop-2"]["state"] == "running", "loop-2 runs again")


def test_an_unknown_loop_is_named_with_those_that_are_known(night):
    """Every verb that takes a loop: exit 3, one line."""
    night.start()
    for verb in (["pause"], ["resume"], ["restart"], ["stop"], ["logs"], ["attach"], ["journal", "--loop"]):
        done = night.ralphd(*verb, "loop-7")
        assert done.returncode == 3, (verb, done)
        assert "'loop-7'" in done.stderr
        assert "loop-1, loop-2" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_logs_tell_sentences_or_the_raw_bytes(night):
    """The digest can't move a cursor; raw bytes are as they are in a pipe, and escaped on a terminal."""
    night.start()
    until(lambda: both_counted(night), "both loops count")
    night.good("pause", "--now")
    until(lambda: {loop["state"] for loop in night.rows().values()} == {"paused"}, "both are held")
    told = night.good("logs", "loop-1", "--session", "1")
    assert "says: I count" in told
    assert "result: counted" in told
    assert "ended: done.next after" in told.splitlines()[-1]
    assert "\x1b" not in told
    assert "\u202e" not in told
    raw = night.good("logs", "loop-1", "--session", "1", "--raw")
    (path,) = night.state.glob("nights/*/loops/loop-1/logs/001-00001.log")
    assert raw == path.read_text()
    missing = night.ralphd("logs", "loop-1", "--session", "999")
    assert missing.returncode == 3
    assert "no log of session 999" in missing.stderr


def test_logs_follow_across_sessions_and_end_with_the_loop(night):
    """Who follows sees one session after the other, and is let go when nothing more can come."""
    night.start()
    until(lambda: both_counted(night), "both loops count")
    with open(night.root / "followed", "wb") as out:
        follower = night.popen("logs", "loop-1", "-f", stdout=out, stderr=subprocess.PIPE)
    try:
        seen = night.root / "followed"
        until(lambda: seen.read_text().count("--- session") >= 3, "three sessions are followed")
        assert seen.read_text().count("result: counted") >= 2
        night.good("stop", "--now")
        _, err = follower.communicate(timeout=60)
        assert (follower.returncode, b"nothing more will come" in err) == (0, True)
    finally:
        follower.kill()
        follower.wait()


def test_attach_lists_the_panes_and_looks_into_one(night):
    """Without a terminal the list; on one a numbered choice, then the pane's own sentences; leaving changes nothing."""
    night.start()
    until(lambda: both_counted(night), "both loops count")
    listed = night.good("attach")
    assert [line.split()[1] for line in listed.splitlines()] == ["loop-1", "loop-2"]
    assert [row["loop"] for row in json.loads(night.good("attach", "--json"))] == ["loop-1", "loop-2"]
    refused = night.ralphd("attach", "loop-1")
    assert refused.returncode == 2
    assert "needs a terminal" in refused.stderr

    pid, terminal = pty.fork()
    if not pid:
        os.chdir(night.repo)
        os.execve(sys.executable, [sys.executable, "-P", "-m", "ralphd", "attach"], {**night.env, "TERM": "xterm"})
    try:
        seen = Seen(terminal)
        seen.wait_for(b"which one")
        os.write(terminal, b"2\n")
        seen.wait_for(b"counted")
        os.write(terminal, b"\x02d")  # Ctrl-b d
        seen.wait_for(b"detached")
    finally:
        os.close(terminal)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert set(night.loops()) == {"loop-1", "loop-2"}
    before = night.loops()["loop-2"]["trajectory"]
    until(lambda: night.rows()["loop-2"]["trajectory"] > before, "loop-2 goes on")


class Seen:
    """What a terminal showed so far."""

    def __init__(self, terminal: int) -> None:
        os.set_blocking(terminal, False)
        self.terminal, self.all = terminal, b""

    def wait_for(self, text: bytes) -> None:
        until(lambda: self._take() or text in self.all, f"{text!r} in the terminal")

    def _take(self) -> bool:
        try:
            self.all += os.read(self.terminal, 65536)
        except OSError:
            time.sleep(0.02)
        return False


def test_stopping_twice_says_what_is_so(night):
    """A night that has ended, has; and a report of it there is."""
    night.start("--width", "1")
    night.good("stop", "--now")
    again = night.ralphd("stop")
    assert again.returncode == 3
    assert "has ended (stopped)" in again.stderr
    assert not night.left()


def test_a_second_start_on_a_running_night_is_refused(night):
    """Exit 75, naming who owns the state; the night isn't disturbed."""
    night.start("--width", "1")
    pid = night.daemon_pid()
    twin = night.ralphd("start")
    assert twin.returncode == 75
    assert f"pid {pid}" in twin.stderr
    assert len(twin.stderr.splitlines()) == 1
    assert night.daemon_pid() == pid


def test_without_a_night_each_verb_says_so(night):
    """Exit 3, one line, and looking makes no state."""
    for verb in ("status", "attach", "stop", "pause", "report", "journal"):
        done = night.ralphd(verb)
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1), (verb, done)
        assert "no night has been yet" in done.stderr
    assert not night.state.exists()


def test_a_person_leaves_a_note_and_the_agent_reads_it(night):
    """Quoted, as the operator's words; without a note the advice to stop and look."""
    night.start()
    until(lambda: both_counted(night), "both loops count")
    assert night.good("repair", "loop-1", "Count in twos.\x1b[2J\nThen rest.") == "a note is left for: loop-1\n"
    night.good("repair", "loop-2")
    until(lambda: "Note from the person who runs this loop" in _used(night, "loop-1"), "it is read")
    assert "> Count in twos. [2J\n> Then rest." in _used(night, "loop-1")
    until(lambda: "look where you stand" in _used(night, "loop-2"), "so is the advice")
    assert night.ralphd("repair", "loop-1", "x" * 2001).returncode == 2
    assert night.ralphd("repair", "loop-9", "x").returncode == 3


def _used(night, loop):
    return "".join(path.read_text() for path in night.state.glob(f"nights/*/loops/{loop}/notes/used/*.md"))
