"""The daemon dies or leaves; the loops don't care, and whoever asks is told what is so."""

from __future__ import annotations

import os
import signal
import socket

from support.livenight import until


def agents(night):
    return {name: loop["trajectory"] for name, loop in night.loops().items()}


def end_daemon(night, number):
    pid = night.daemon_pid()
    os.kill(pid, number)
    until(lambda: night.daemon_pid() is None, "the daemon is gone")
    return pid


def test_a_killed_daemons_night_is_taken_up_again(night):
    """The same id, the same runners; every verb says meanwhile that the daemon is gone and what runs on."""
    night.start()
    before = night.status()
    runners = sorted(path.read_text() for path in night.state.glob("nights/*/loops/*/runner.json"))
    end_daemon(night, signal.SIGKILL)
    done = night.ralphd("status")
    assert done.returncode == 3
    assert "its daemon is gone; 2 of its loops run on; `ralphd start` takes it up again" in done.stderr
    assert [line.split()[1] for line in night.good("attach").splitlines()] == [
        "loop-1",
        "loop-2",
    ]  # the panes are there without a daemon
    assert "says: I count" in night.good("logs", "loop-1", "--session", "1")
    said = night.ralphd("start")
    assert said.returncode == 0, said
    assert "taking it up again" in said.stderr
    after = night.status()
    assert after["night"]["id"] == before["night"]["id"]
    assert after["daemon"]["pid"] != before["daemon"]["pid"]
    assert sorted(path.read_text() for path in night.state.glob("nights/*/loops/*/runner.json")) == runners
    (noted,) = [line for line in night.journal("outcomes") if line["kind"] == "daemon.restarted"]
    assert noted["charge"] == "infra"


def test_a_terminated_daemon_leaves_its_loops_and_says_so(night):
    """SIGTERM: the log tells how many loops run on; they do."""
    night.start()
    count = agents(night)
    end_daemon(night, signal.SIGTERM)
    assert "loops_left_running=2" in night.log()
    assert not (night.state / "control.sock").exists()
    assert night.tmux_pid() is not None
    night.start()
    until(lambda: all(agents(night)[name] > count[name] for name in count), "the loops went on")


def test_whoever_awaits_a_stop_is_told_when_the_daemon_leaves(night):
    """A stop that is cut off isn't a success, and says how to go on."""
    night.toml.write_text(night.toml.read_text().replace('"cat n"', '"sleep 20; cat n"'))
    night.start("--width", "1")
    waiting = night.popen("stop", stderr=-1)
    try:
        until(lambda: night.glance()["night"]["state"] == "ending", "the night ends")
        end_daemon(night, signal.SIGTERM)
        _, err = waiting.communicate(timeout=60)
        assert waiting.returncode == 1
        assert b"`ralphd start` takes the night up again" in err
    finally:
        waiting.kill()
        waiting.wait()


def test_a_stale_socket_and_a_dead_pid_stand_in_nobodys_way(night):
    """What a dead daemon left is no daemon: asking says that none runs, starting works."""
    night.state.mkdir(mode=0o700)
    (night.state / "daemon.lock").write_text('{"pid": 1, "started_at": "2020-01-01T00:00:00Z", "version": "0"}\n')
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(night.state / "control.sock"))
    done = night.ralphd("status")
    assert done.returncode == 3
    assert "no night has been yet" in done.stderr
    night.start("--width", "1")
    assert night.status()["night"]["state"] == "running"


def test_a_daemon_that_hangs_is_named_instead_of_waited_for(night, monkeypatch):
    """Stopped by somebody: asking ends, and says where to look."""
    night.start("--width", "1")
    pid = night.daemon_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        done = night.ralphd("status")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert "the daemon doesn't answer" in done.stderr
        assert "daemon.log" in done.stderr
    finally:
        os.kill(pid, signal.SIGCONT)
    assert night.status()["night"]["state"] == "running"
