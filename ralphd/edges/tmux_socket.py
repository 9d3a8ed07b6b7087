"""Where the private tmux socket lies, and which process listens on it."""

from __future__ import annotations

import errno
import hashlib
import os
import socket as sockets
import stat
import struct
from collections.abc import Mapping

from ralphd.core.errors import TmuxError, UsageError

PATH_BYTES = 100  # sun_path holds 107 and a NUL, and tmux locks `<socket>.lock` beside it
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_CONNECT_TIMEOUT_S = 1.0


def socket_path(state_dir: str, environ: Mapping[str, str]) -> str:
    """``<state>/tmux.sock``, or, when that is too long for a socket, one in a private folder that only the state names.

    UsageError when that private folder can't be made or isn't ours alone.
    """
    plain = os.path.join(state_dir, "tmux.sock")
    if len(os.fsencode(plain)) <= PATH_BYTES:
        return plain
    digest = hashlib.sha256(os.fsencode(os.path.realpath(state_dir))).hexdigest()[:16]
    return os.path.join(_private_folder(environ), f"{digest}.sock")


def peer_pid(path: str) -> int | None:
    """Ask the kernel which process listens on ``path``; None: nobody. TmuxError when it can't be told."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as peer:
        peer.settimeout(_CONNECT_TIMEOUT_S)
        try:
            peer.connect(path)
            credentials = peer.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _CREDENTIALS.size)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR):
                return None
            raise TmuxError(f"the tmux socket {path} can't be reached: {error.strerror or error}") from None
    pid: int = _CREDENTIALS.unpack(credentials)[0]
    return pid or None


def _private_folder(environ: Mapping[str, str]) -> str:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    candidates = [os.path.join(runtime, "ralphd")] if _is_ours_alone(runtime) else []
    fitting = [path for path in candidates if len(os.fsencode(path)) < PATH_BYTES - 22]
    folder = fitting[0] if fitting else f"/tmp/ralphd-{os.geteuid()}"  # noqa: S108 - owner and mode are checked below
    try:
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o700)  # whatever the umask
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"{folder} for the tmux socket can't be made: {error.strerror}") from None
    if not _is_ours_alone(folder):
        raise UsageError(f"{folder} isn't a folder of yours alone; remove it, or set RALPHD_STATE to a shorter path")
    return folder


def _is_ours_alone(folder: str) -> bool:
    try:
        info = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o077
