"""What the machine has left."""

from __future__ import annotations

import os
import time

import pytest

from ralphd.core.errors import EdgeError
from ralphd.edges import host


def test_a_look_tells_what_the_kernel_tells(tmp_path):
    facts = host.look([str(tmp_path), "/proc"])
    disk = facts.disks[0]
    assert disk.path == str(tmp_path)
    assert disk.free_bytes > 0
    assert disk.free_inodes is None or disk.free_inodes > 0
    assert facts.disks[1].free_inodes is None  # procfs counts none, and an unknown is not 0
    assert facts.memory_available_bytes > 0
    assert facts.cpu_count == len(os.sched_getaffinity(0))
    assert facts.fd_limit > 0
    assert facts.load >= 0
    assert len(facts.boot_id) == 36
    assert facts.boottime_s <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_path_that_is_gone_is_named(tmp_path):
    with pytest.raises(EdgeError, match="gone: No such file"):
        host.look([str(tmp_path / "gone")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("some avg10=1.25 avg60=0.00 avg300=0.00 total=0\nfull avg10=9\n", 1.25),
        ("", None),
        ("nonsense", None),
        ("some avg10=x\n", None),
    ],
)
def test_memory_pressure_is_read_or_unknown(tmp_path, text, expected):
    path = tmp_path / "memory"
    path.write_text(text)
    assert host._pressure(str(path)) == expected
    assert host._pressure(str(tmp_path / "none")) is None
