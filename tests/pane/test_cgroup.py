"""With a writable cgroup the kernel holds a call to its memory and knows its members; without one nothing changes."""

from __future__ import annotations

import os
import shlex
import subprocess
import uuid
from pathlib import Path

import pytest
from support.loop_of_calls import python, run_calls

from ralphd.pane import cgroup

MIB = 1024 * 1024
HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw - cgroup2 cgroup2 rw
"""


@pytest.mark.parametrize(
    ("mounts", "own", "expected"),
    [
        (HYBRID, "4:memory:/a/b\n0::/\n", ["/sys/fs/cgroup/uni fied", "/sys/fs/cgroup/memory/a/b"]),
        (HYBRID, "4:cpu,memory:/a\n", ["/sys/fs/cgroup/memory/a"]),
        (
            "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "0::/user.slice/ralphd.service/main\n",
            ["/sys/fs/cgroup/user.slice/ralphd.service/main", "/sys/fs/cgroup/user.slice/ralphd.service"],
        ),
        # A container sees its own group as the root of the mount.
        ("25 1 0:22 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/x\n", ["/sys/fs/cgroup"]),
        # Mounted from a group that we are not in.
        ("25 1 0:22 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/xy\n", []),
        ("", "", []),
        ("junk\n\n - \n - cgroup2", "junk\n::\n", []),
    ],
)
def test_the_places_for_a_group_follow_from_the_mounts(mounts, own, expected):
    assert cgroup.parents(mounts, own) == expected


def test_a_folder_that_is_not_a_cgroup_is_refused_and_left_as_it_was(tmp_path):
    assert cgroup.make_below(str(tmp_path), "x") is None
    assert cgroup.make_below(str(tmp_path / "none"), "x") is None
    assert os.listdir(tmp_path) == []


def test_a_cell_that_is_not_there_holds_nothing(tmp_path):
    cell = str(tmp_path / "gone")
    assert (cgroup.pids(cell), cgroup.oom_kills(cell), cgroup.peak_bytes(cell)) == ([], 0, None)
    assert not cgroup.kill(cell)
    assert cgroup.remove(cell)
    assert cgroup.remove_all(cell)
    assert not tmp_path.joinpath("gone").exists()


@pytest.mark.parametrize(
    ("file", "text"), [("memory.events", "low 0\noom 2\noom_kill 3\n"), ("memory.oom_control", "oom_kill 3\n")]
)
def test_the_kernels_kills_are_counted(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    assert cgroup.oom_kills(str(tmp_path)) == 3


@pytest.fixture
def group():
    made = cgroup.make(f"ralphd-test-{uuid.uuid4().hex[:8]}")
    if made is None:
        pytest.skip("no writable cgroup that accounts memory here")
    yield made
    cgroup.remove_all(made)
    assert not os.path.exists(made)


HOG = python(f"""
    print("begun", flush=True)
    held = []
    while True:
        held.append(bytearray({MIB}))
        for at in range(0, {MIB}, 4096): held[-1][at] = 1
""")


def test_a_call_that_outruns_the_watch_is_ended_by_the_kernel_and_told_so(tmp_path, group):
    ran = run_calls(
        tmp_path / "c",
        f"$GUARD {shlex.quote(HOG + ' || exit 5')}; echo rc $?",
        group=group,
        env={"RALPHD_CGROUP_BYTES": str(48 * MIB)},
    )
    assert ran.out.startswith("begun\n")
    assert "KILLED by the memory limit" in ran.out
    assert ran.out.endswith("rc 137\n")
    assert ran.killed["limit"] == "memory"
    assert ran.left == []
    assert [name for name in os.listdir(group) if os.path.isdir(os.path.join(group, name))] == []


def test_with_a_group_the_watch_still_gives_its_reason_first(tmp_path, group):
    slow = HOG.replace("while True:", "import time\nwhile True:\n    time.sleep(0.005)")
    ran = run_calls(tmp_path / "c", f"$GUARD {shlex.quote(slow)}; echo rc $?", group=group, memory_bytes=64 * MIB)
    assert "KILLED by the memory limit" in ran.out
    assert ran.out.endswith("rc 137\n")
    assert ran.killed["limit"] == "memory"


def test_a_call_in_a_cell_behaves_like_any_other(tmp_path, group):
    ran = run_calls(
        tmp_path / "c",
        'echo in | $GUARD "cat; echo err >&2; exit 3"; echo rc $?; $GUARD "sleep 1000"; echo rc $?',
        group=group,
        seconds=3,
    )
    assert ran.out.startswith("in\nrc 3\n")
    assert ran.err == "err\n"
    assert ran.out.endswith("rc 124\n")
    assert [event["status"] for event in ran.named("CallClosed")] == [3, 124]


def test_nothing_leaves_its_cell_by_hiding(tmp_path, group):
    """No mark of a call, no session, no parent: the kernel knows it all the same."""
    hide = "(env -u RALPHD_CALL setsid sh -c 'exec sleep 1000' >/dev/null 2>&1 </dev/null &); exit 0"
    ran = run_calls(tmp_path / "c", f"$GUARD {shlex.quote(hide)}; sleep 3", group=group, seconds=2)
    assert ran.killed["returned"] is True
    assert ran.left == []


def test_a_group_that_can_not_be_entered_costs_nothing_but_itself(tmp_path):
    folder = tmp_path / "not-a-cgroup"
    folder.mkdir()
    ran = run_calls(tmp_path / "c", '$GUARD "echo out"; echo rc $?', group=str(folder))
    assert ran.out == "out\nrc 0\n"
    gone = run_calls(tmp_path / "d", '$GUARD "echo out"; echo rc $?', group=str(tmp_path / "gone"))
    assert gone.out == "out\nrc 0\n"


def test_killing_a_v2_group_ends_all_of_it():
    mounts = [
        path for path in cgroup.parents(Path("/proc/self/mountinfo").read_text(), "0::/\n") if os.access(path, os.W_OK)
    ]
    cell = next((os.path.join(path, f"ralphd-test-{uuid.uuid4().hex[:8]}") for path in mounts), None)
    if cell is None:
        pytest.skip("no writable cgroup v2 here")
    os.mkdir(cell)
    sleeper = subprocess.Popen(["sh", "-c", f"echo 0 >{cell}/cgroup.procs; sleep 1000 & wait"])
    try:
        while len(cgroup.pids(cell)) < 2:
            assert sleeper.poll() is None
        if not os.path.exists(cell + "/cgroup.kill"):
            pytest.skip("a kernel before 5.14")
        assert cgroup.kill(cell)
        assert sleeper.wait(60) == -9
    finally:
        sleeper.kill()
        sleeper.wait()
        while not cgroup.remove(cell):
            assert cgroup.kill(cell)
