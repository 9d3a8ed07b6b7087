"""Where all state lies, that it is ours alone, and which one daemon owns it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ralphd.core.errors import StateOwned, UsageError

LOCK_NAME = "daemon.lock"
_NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3")  # SQLite's WAL and flock aren't dependable there
_LOCK_BYTES = 4096  # what of a lock file is read: hostile or broken content stays small


@dataclass(frozen=True, kw_only=True)
class Ownership:
    """The state folder, owned until ``release`` or the end of this process, however it ends."""

    state: str
    descriptor: int

    def release(self) -> None:
        """Give the state folder up. The file stays: removing it would let two daemons lock two files of one name."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)  # closing is not enough while a fork shares it
        os.close(self.descriptor)


def state_folder(environ: Mapping[str, str]) -> str:
    """Say where state lies: ``$RALPHD_STATE``, else ``$XDG_STATE_HOME/ralphd``, else ``~/.local/state/ralphd``.

    Always absolute. UsageError when none of the three can be told.
    """
    if chosen := environ.get("RALPHD_STATE"):
        return os.path.abspath(chosen)
    if (base := environ.get("XDG_STATE_HOME", "")).startswith("/"):  # a relative one is to be ignored, says XDG
        return os.path.join(base, "ralphd")
    if (home := environ.get("HOME", "")).startswith("/"):
        return os.path.join(home, ".local", "state", "ralphd")
    raise UsageError("HOME is not set, so there is no place for state; set RALPHD_STATE to a folder of yours")


def open_state(path: str, *, filesystem: Callable[[str], str] | None = None) -> str:
    """Make the state folder when it is missing (0700 whatever the umask) and check it; the real path.

    UsageError when it can't be made, belongs to somebody else, can be written by others, or lies on a network disk.
    ``filesystem`` says the type of the filesystem a path lies on.
    """
    _make(path)
    real = os.path.realpath(path)
    info = _stat(real)
    if not stat.S_ISDIR(info.st_mode):
        raise UsageError(f"{path} is not a folder; set RALPHD_STATE to one")
    if info.st_uid != os.geteuid():
        raise UsageError(f"{path} belongs to user {info.st_uid}, not to you; set RALPHD_STATE to a folder of yours")
    if info.st_mode & 0o022:
        raise UsageError(f"{path} can be written by others; close it first: chmod 700 {path}")
    kind = (filesystem or filesystem_of)(real)
    if kind in _NETWORK_FILESYSTEMS:
        raise UsageError(f"{path} lies on {kind}, where locks can't be relied on; set RALPHD_STATE to a local disk")
    return real


def own(state: str, *, version: str, started_at: str) -> Ownership:
    """Become the one daemon of this state folder, at once; StateOwned naming the other when there is one.

    Only the kernel's lock counts: what a dead daemon left in the file, or wrote about a pid, never stands in the way.
    """
    descriptor = _open_lock(os.path.join(state, LOCK_NAME))
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(descriptor)
        os.close(descriptor)
        raise StateOwned(f"another ralphd{holder} owns {state}; ask it with `ralphd status`") from None
    except OSError as error:
        os.close(descriptor)
        raise UsageError(f"{state} can't be locked: {error.strerror}; set RALPHD_STATE to a local disk") from None
    about = {"pid": os.getpid(), "started_at": started_at, "version": version}
    with contextlib.suppress(OSError):  # on a full disk the lock still holds, only nameless
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(about).encode() + b"\n", 0)
    return Ownership(state=state, descriptor=descriptor)


def owner(state: str) -> int | None:
    """Return a descriptor of the process that wrote the lock file (readable once it has ended), or None."""
    try:
        with open(os.path.join(state, LOCK_NAME), "rb", opener=_plainly) as file:
            return os.pidfd_open(int(json.loads(file.read(_LOCK_BYTES))["pid"]))
    except (ValueError, KeyError, TypeError, OSError, OverflowError):
        return None


def _plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def filesystem_of(path: str, mounts: str = "/proc/self/mountinfo") -> str:
    """Name the type of the filesystem that holds ``path``; empty when that can't be told."""
    try:
        device = os.stat(path).st_dev
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:
        return ""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    # 36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw
    kinds = [line.partition(" - ")[2].split(" ", 1)[0] for line in lines if line.split(" ", 3)[2:3] == [wanted]]
    return kinds[-1] if kinds else ""


def _make(path: str) -> None:
    """Make a folder and what is missing above it, each 0700 whatever the umask."""
    if os.path.lexists(path):
        return
    try:
        _make(os.path.dirname(path))
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)
    except FileExistsError:
        return  # by a start at the same time
    except OSError as error:
        raise UsageError(f"{path} can't be made: {error.strerror}; set RALPHD_STATE to a folder of yours") from None


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise UsageError(f"{path} can't be used: {error.strerror}; set RALPHD_STATE to a folder of yours") from None


def _open_lock(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise UsageError(f"{path} can't be opened: {error.strerror}; remove it if you did not make it") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path} is not a plain file; remove it")
    return descriptor


def _holder(descriptor: int) -> str:
    """Name the owner for the message; between its lock and its first write there is nothing to name."""
    try:
        about = json.loads(os.pread(descriptor, _LOCK_BYTES, 0))
        return f" (pid {int(about['pid'])}, since {str(about['started_at'])[:40]})"
    except (ValueError, KeyError, TypeError, OSError):
        return ""
