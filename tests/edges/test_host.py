"""What the machine has left."""

from __future__ import annotations

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
    assert facts.fd_limit > 0


def test_a_path_that_is_gone_is_named(tmp_path):
    with pytest.raises(EdgeError, match="gone: No such file"):
        host.look([str(tmp_path / "gone")])
