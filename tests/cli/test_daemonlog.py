"""The daemon's own log holds no descriptor longer than whoever writes it lives."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from ralphd.cli.daemonlog import DaemonLog
from ralphd.core.redact import Redactor


def opened(path: Path) -> int:
    """Count this process's descriptors of ``path``."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{fd}") == str(path)
        except OSError:
            continue  # of the listing itself
    return found


def test_a_log_that_nobody_writes_any_more_is_closed(tmp_path: Path) -> None:
    """A daemon with a schedule opens one for each night, and one for each wait between two."""
    path = tmp_path / "daemon.log"
    for night in range(5):
        DaemonLog(str(path), Redactor()).info(f"night {night}")
    gc.collect()
    assert len(path.read_text().splitlines()) == 5
    assert opened(path) == 0
