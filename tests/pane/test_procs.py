"""Processes are found by descent and identity, and a stranger is never signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ralphd.pane import procs


def spawned(code: str, **kwargs) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, **kwargs)


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_is_read_whatever_its_name(tmp_path):
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "1000"], start_new_session=True)
    try:
        until(lambda: b"a) R 1" in procs.slurp(f"/proc/{process.pid}/stat"))
        found = procs.read(process.pid)
        assert (found.ppid, found.pgid, found.sid) == (os.getpid(), process.pid, process.pid)
        assert found.alive
        assert procs.rss_bytes(process.pid) > 0
        assert procs.cpu_ticks(process.pid) is not None
    finally:
        process.kill()
        process.wait()
    assert procs.read(process.pid) is None
    assert procs.rss_bytes(process.pid) == 0
    assert procs.cpu_ticks(process.pid) is None


def test_a_zombie_is_not_alive():
    process = spawned("")
    until(lambda: (found := procs.read(process.pid)) is not None and not found.alive)
    assert procs.same(procs.read(process.pid).identity) is None
    process.communicate()


@pytest.mark.parametrize("listed", [True, False])
def test_the_tree_holds_children_of_every_thread(monkeypatch, listed):
    monkeypatch.setattr(procs, "_LISTED", [listed and procs.kernel_lists_children()])
    parent = spawned(
        "import subprocess, threading\n"
        "def run(): print(subprocess.Popen(['sh', '-c', 'sleep 1000 & wait']).pid, flush=True)\n"
        "threading.Thread(target=run).start()\n"
        "threading.Event().wait()",
    )
    shell = int(parent.stdout.readline())
    try:
        until(lambda: len(procs.tree(parent.pid)) == 2)
        assert procs.children(parent.pid) == [shell]
        assert {proc.ppid for proc in procs.tree(parent.pid)} == {parent.pid, shell}
        assert procs.tree(parent.pid, without=(shell,)) == []
        assert procs.descends_from(shell, os.getpid())
        assert not procs.descends_from(os.getpid(), shell)
    finally:
        assert procs.end_all(lambda: procs.tree(parent.pid), now=time.monotonic, pause=time.sleep) == 2
        parent.kill()
        parent.communicate()


def test_a_reused_pid_is_not_signalled(sleeper):
    """The same number with another start, or from before a reboot, is somebody else."""
    pid, start, boot = procs.read(sleeper.pid).identity
    for identity in ((pid, start + 1, boot), (pid, start - 1, boot), (pid, start, "another boot")):
        assert procs.same(identity) is None
        assert not procs.signal_if_same(identity, signal.SIGKILL)
    assert sleeper.poll() is None
    assert procs.signal_if_same((pid, start, boot), signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL


def test_init_and_ourselves_are_never_signalled():
    for pid in (0, 1, os.getpid()):
        proc = procs.read(pid)
        assert not procs.signal_if_same(proc.identity if proc else (pid, 0, procs.boot_id()), signal.SIGCONT)


def test_an_environment_is_matched_whole():
    process = subprocess.Popen(["sleep", "1000"], env={"RALPHD_NONCE": "abc", "B": "RALPHD_NONCE=x"})
    try:
        until(lambda: procs.environ_has(process.pid, b"RALPHD_NONCE=abc"))
        for other in (b"RALPHD_NONCE=ab", b"RALPHD_NONCE=abcd", b"RALPHD_NONCE=x", b"RALPHD_NONCE="):
            assert not procs.environ_has(process.pid, other)
        assert [proc.pid for proc in procs.with_environ(b"RALPHD_NONCE=abc")] == [process.pid]
    finally:
        process.kill()
        process.wait()


def test_ending_asks_first_and_then_insists(tmp_path):
    polite = spawned(
        "import signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(tmp_path / 'asked')!r}, 'w').close(), sys.exit(0)))\n"
        "print(flush=True); time.sleep(1000)"
    )
    deaf = spawned(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1000)"
    )
    for process in (polite, deaf):
        process.stdout.readline()
    both = (polite.pid, deaf.pid)

    def find():
        return [proc for proc in map(procs.read, both) if proc is not None and proc.alive]

    assert procs.end_all(find, now=time.monotonic, pause=time.sleep, grace_s=1) == 2
    polite.communicate()
    deaf.communicate()
    assert (tmp_path / "asked").exists()
    assert (polite.returncode, deaf.returncode) == (0, -signal.SIGKILL)


def test_one_empty_look_is_not_believed(sleeper):
    looks = []

    def find():
        looks.append(1)
        proc = procs.read(sleeper.pid)
        return [proc] if proc.alive and len(looks) % 2 == 0 else []

    procs.end_all(find, now=time.monotonic, pause=time.sleep, grace_s=0)
    assert sleeper.poll() is not None


def test_all_are_stopped_before_the_first_is_killed():
    """What is stopped can't fork: a storm is frozen pass by pass."""
    sleepers = [subprocess.Popen(["sleep", "1000"]) for _ in range(3)]
    passes = []

    def find():
        # One more is found in each pass, as in a tree that grows while one looks.
        found = [procs.read(process.pid) for process in sleepers[: len(passes) + 1]]
        until(lambda: all(procs.read(proc.pid).state == "T" for proc in found[: len(passes)]))
        passes.append(found)
        return found

    hit = procs.strike(find)
    assert hit == {proc.identity for proc in passes[-1]}
    assert len(hit) == 3
    assert [process.wait() for process in sleepers] == [-signal.SIGKILL] * 3


def test_ending_gives_up_on_what_can_not_be_ended(monkeypatch):
    monkeypatch.setattr(procs, "ROUNDS", 5)
    immortal = procs.Proc(2**22 + 5, 1, 1, 1, 1, "S")  # above the largest pid there can be
    waited = []
    procs.end_all(lambda: [immortal], now=time.monotonic, pause=waited.append, grace_s=0)
    assert len(waited) == 5


def test_a_tree_that_forks_while_it_is_killed_is_ended(tmp_path):
    """Every process starts its successor and ends: a chain that is never where one looked. It stops by itself in 20 s."""
    chain = spawned(
        "import os, time\n"
        "until = time.monotonic() + 20\n"
        "os.setsid()\n"
        "while time.monotonic() < until:\n"
        "    if os.fork(): os._exit(0)\n"
        "    time.sleep(0.002)\n",
        env={"RALPHD_NONCE": str(tmp_path)},
    )
    chain.wait()
    chain.stdout.close()
    setting = b"RALPHD_NONCE=" + str(tmp_path).encode()
    assert procs.end_all(lambda: procs.with_environ(setting), now=time.monotonic, pause=time.sleep, grace_s=0) >= 1
    assert procs.with_environ(setting) == []


def test_a_daemon_becomes_the_subreapers_child():
    code = (
        f"import os, sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})\n"
        "from ralphd.pane import procs\n"
        "assert procs.become_subreaper()\n"
        "r, w = os.pipe()\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    if not os.fork():\n"
        "        os.read(r, 1); os._exit(0)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(len(procs.children(os.getpid())))\n"
        "os.write(w, b'x'); os.wait()\n"
    )
    process = spawned(code)
    assert process.communicate(timeout=60)[0] == b"1\n"
    assert process.returncode == 0


def test_it_costs_a_pane_no_heavy_imports():
    heavy = (
        "typing subprocess pathlib tempfile random datetime logging shutil argparse threading asyncio hashlib ctypes"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})\n"
        "import ralphd.pane.calls, ralphd.pane.guarded, ralphd.pane.procs as procs\n"
        "assert procs.become_subreaper()\n"
        f"print(sorted(set({heavy!r}.split()) & set(sys.modules)))"
    )
    assert spawned(code).communicate(timeout=60)[0] == b"[]\n"


def test_unreadable_files_are_empty():
    assert procs.slurp("/nonexistent") == b""
    assert procs.slurp("/proc") == b""
