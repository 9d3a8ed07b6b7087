"""How one process of an agent CLI is started, and how it ends."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from dataclasses import dataclass

from ralphd.pane.files import write_all
from ralphd.pane.stdin import Input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHUNK_BYTES = 1 << 16  # what a pipe holds: reading more at once brings nothing (16 MiB in 0.07 s measured)
SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # of processes, memory, descriptors: these pass
RESET_SIGNALS = (  # what the runner and its interpreter ignore or catch
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGCHLD,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)


class StartFailed(Exception):
    """The program can't be started; the message names it and the reason."""


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a process ended: one of both is not None."""

    code: int | None
    signal: int | None

    @classmethod
    def of(cls, status: int) -> Exit:
        code = os.waitstatus_to_exitcode(status)
        return cls(code=code, signal=None) if code >= 0 else cls(code=None, signal=-code)


@dataclass(frozen=True, kw_only=True)
class Session:
    """A running agent: leader of a session of its own. The pipes are ours, non-blocking."""

    pid: int
    stdout: int
    stderr: int
    input: Input

    def close(self) -> None:
        self.input.close()
        os.close(self.stdout)
        os.close(self.stderr)


def start(argv: Sequence[str], env: Mapping[str, str], *, cwd: str, stdin: bytes, stays_open: bool = False) -> Session:
    """Start ``argv`` in ``cwd`` with ``stdin`` to read and an environment that is exactly ``env``.

    stdin is a file in memory: a CLI may seek in it or read it late, no other process can change it, and replacing a
    file on disk for each session took 12 ms where this takes none. One that ``stays_open`` is a pipe, unless its
    beginning is longer than a pipe may be.

    Raises StartFailed when the program is at fault, OSError when ``cwd`` is gone or the host is short of something.
    The runner's own folder is changed for a moment, because posix_spawn has no other way to set the child's; nothing in
    the runner uses relative paths, and it has one thread.
    """
    program = _resolve(argv[0], env.get("PATH", os.defpath), cwd)
    out_read, out_write = os.pipe2(os.O_CLOEXEC)
    err_read, err_write = os.pipe2(os.O_CLOEXEC)
    told = Input()
    try:
        source, told = (_piped(stdin) if stays_open else None) or (_in_memory(stdin), told)
        try:
            pid = _spawn(program, argv, env, cwd, (source, out_write, err_write))
        finally:
            os.close(source)
    except OSError as error:
        told.close()
        os.close(out_read)
        os.close(err_read)
        if error.errno in SHORTAGES or error.filename == cwd:
            raise
        raise StartFailed(f"{argv[0]} can't be started: {error.strerror or error}") from None
    finally:
        os.close(out_write)
        os.close(err_write)
    os.set_blocking(out_read, False)
    os.set_blocking(err_read, False)
    return Session(pid=pid, stdout=out_read, stderr=err_read, input=told)


def _spawn(program: str, argv: Sequence[str], env: Mapping[str, str], cwd: str, files: tuple[int, int, int]) -> int:
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(files)]
    os.chdir(cwd)
    try:
        return os.posix_spawn(
            program, list(argv), dict(env), file_actions=actions, setsid=True, setsigmask=(), setsigdef=RESET_SIGNALS
        )
    finally:
        os.chdir("/")


def _piped(data: bytes) -> tuple[int, Input] | None:
    """Return the end of a pipe that ``data`` can be read from, and our end of it; None if it can't hold so much."""
    source, end = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(end, False)
    try:
        if len(data) > CHUNK_BYTES:
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, len(data))
        if os.write(end, data) == len(data):
            return source, Input(end)
    except OSError:  # past what one user's pipes may hold
        pass
    os.close(source)
    os.close(end)
    return None


def _in_memory(data: bytes) -> int:
    fd = os.memfd_create("prompt", os.MFD_CLOEXEC)
    write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _resolve(program: str, path: str, cwd: str) -> str:
    """Find a program as execvp would, but in the agent's PATH. Raises StartFailed."""
    if "/" in program:
        return os.path.join(cwd, program)
    for folder in path.split(":"):
        candidate = os.path.join(folder or cwd, program)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise StartFailed(f"{program} is in none of the folders of PATH={path}")


def read_some(fd: int, limit: int = CHUNK_BYTES) -> bytes | None:
    """Return what is there, b"" at the end of the stream, None when there is nothing yet."""
    try:
        return os.read(fd, limit)
    except BlockingIOError:
        return None
    except OSError:
        return b""
