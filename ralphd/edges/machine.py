"""Can ralphd tell processes apart on this machine? Without that it could neither limit, end nor refuse anything."""

from __future__ import annotations

import os
import sys

from ralphd.core.errors import UsageError
from ralphd.edges.callers import hides_ancestors

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def check() -> None:
    """Raise UsageError where no night could run, with the way out."""
    if sys.platform != "linux":
        raise UsageError(f"ralphd needs Linux, and this is {sys.platform}; run it in a virtual machine or a container")
    if not _shows_us():
        raise UsageError("/proc is not mounted here, or not whole, and ralphd needs it: mount -t proc proc /proc")
    if hides_ancestors():
        raise UsageError(
            "/proc hides other users' processes (hidepid), so a night could not tell who steers it; mount it with "
            "hidepid=0, or join the group that its gid= names"
        )


def _shows_us() -> bool:
    """Look for this process and the boot's name: /proc of another pid namespace shows others, subset=pid no boot."""
    try:
        return os.readlink("/proc/self") == str(os.getpid()) and os.path.getsize(BOOT_ID) >= 0
    except OSError:
        return False
