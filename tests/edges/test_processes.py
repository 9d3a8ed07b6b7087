"""Processes are known by pid and start, found by their environment, and ended without touching a stranger."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest

from ralphd.edges import processes
from ralphd.edges.processes import alive, end, identity, signal_if_same, with_environ

SLEEP = ["/bin/sleep", "600"]


@pytest.fixture
def start():
    started = []

    def run(argv=SLEEP, **environ):
        process = subprocess.Popen(argv, env={"PATH": os.environ["PATH"], **environ}, stdout=subprocess.PIPE)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_for(condition, deadline_s=60.0):
    stop = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < stop, "waited in vain"
        time.sleep(0.01)


def test_a_process_is_itself_until_it_ends(start):
    process = start()
    who = identity(process.pid)
    assert alive(who)
    assert who == identity(process.pid)
    process.kill()
    wait_for(lambda: not alive(who))  # a corpse nobody has waited for is not alive
    assert identity(process.pid) is None
    process.wait()
    assert identity(process.pid) is None


@pytest.mark.parametrize("name", ["a) R 1 (b", "spaces in it", "))))"])
def test_a_name_can_not_forge_the_start_time(start, tmp_path, name):
    program = tmp_path / name
    os.symlink(sys.executable, program)
    script = f"import sys;open('/proc/self/comm','w').write({name!r});print(1,flush=True);sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    plain = start()
    try:
        process.stdout.readline()
        assert abs(identity(process.pid).start_ticks - identity(plain.pid).start_ticks) < 100 * 60
    finally:
        process.communicate()


@pytest.mark.parametrize("field", ["start_ticks", "boot_id"])
def test_a_reused_pid_is_never_signalled(start, field):
    """The same pid with another start or after another boot is somebody else."""
    process = start()
    who = identity(process.pid)
    other = dataclasses.replace(who, **{field: type(getattr(who, field))(7)})
    assert not alive(other)
    assert signal_if_same(other, signal.SIGKILL) is False
    assert signal_if_same(who, 0) is True
    assert process.poll() is None


def test_signals_to_the_gone_say_so(start):
    process = start()
    who = identity(process.pid)
    assert signal_if_same(who, signal.SIGTERM) is True
    process.wait()
    assert signal_if_same(who, signal.SIGTERM) is False


def test_only_the_exact_entry_finds_a_process(start):
    wanted = start(RALPHD_NONCE="abc123")
    start(RALPHD_NONCE="abc1234")
    start(XRALPHD_NONCE="abc123")
    start(OTHER="RALPHD_NONCE=abc123")
    start([*SLEEP[:1], "600"], NOTHING="1")
    wait_for(lambda: with_environ(b"RALPHD_NONCE=abc123"))
    assert [who.pid for who in with_environ(b"RALPHD_NONCE=abc123")] == [wanted.pid]


def test_a_grandchild_in_a_session_of_its_own_is_found(start):
    process = start(["/bin/sh", "-c", "setsid sleep 600 & echo $!; wait"], RALPHD_NONCE="n-grand")
    child = int(process.stdout.readline())
    wait_for(lambda: {who.pid for who in with_environ(b"RALPHD_NONCE=n-grand")} >= {process.pid, child})
    ended = end(lambda: with_environ(b"RALPHD_NONCE=n-grand"), grace_s=60, clock=time.monotonic, wait=time.sleep)
    assert {who.pid for who in ended.asked} >= {process.pid, child}
    assert not ended.killed
    assert not ended.left
    assert identity(child) is None


STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]


def test_who_ignores_the_question_is_killed_and_a_stranger_of_the_same_name_lives(start):
    mine = start(STUBBORN, RALPHD_NONCE="n-mine")
    stranger = start(STUBBORN, RALPHD_NONCE="n-other")
    mine.stdout.readline()
    stranger.stdout.readline()
    ended = end(lambda: with_environ(b"RALPHD_NONCE=n-mine"), grace_s=0.3, clock=time.monotonic, wait=time.sleep)
    assert mine.wait() == -signal.SIGKILL
    assert mine.pid in {who.pid for who in ended.killed}
    assert not ended.left
    assert stranger.poll() is None


def test_nobody_to_end_ends_at_once():
    ended = end(list, grace_s=60, clock=lambda: 0.0, wait=lambda _: pytest.fail("waited for nobody"))
    assert not ended.asked | ended.killed | ended.left


def test_what_the_kernel_holds_is_reported_in_bounded_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(processes, "signal_if_same", lambda *_: True)
    stuck = processes.Identity(pid=1, start_ticks=1, boot_id="b")
    ended = end(
        lambda: [stuck], grace_s=5, clock=lambda: now[0], wait=lambda s: now.__setitem__(0, now[0] + s), kill_s=2
    )
    assert ended.left == {stuck} == ended.asked == ended.killed
    assert 7 <= now[0] < 8


READS = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from ralphd.edges.processes import forbid_reading
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)  # root reads everything
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as an exec would leave it

def seen_by_a_process_of_the_same_user():
    go, told = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            data = open(f"/proc/{os.getppid()}/environ", "rb").read()
            os.write(told[1], b"read" if b"CANARY" in data else b"odd")
        except PermissionError:
            os.write(told[1], b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(told[0], 20).decode()

before = seen_by_a_process_of_the_same_user()
agreed = forbid_reading()
os.listdir("/proc/self/fd"), open("/proc/self/stat").read()
print(before, agreed, seen_by_a_process_of_the_same_user())
"""


def test_an_agents_process_reads_nothing_of_the_daemon():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = {**os.environ, "CANARY": "1"}
    done = subprocess.run([sys.executable, "-c", READS, root], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["read", "True", "refused"]
