"""How the pane runs git in its loop's worktree: by explicit folders, bounded in time, without the loop's hooks."""

from __future__ import annotations

import os
import select
import signal
import time

from ralphd.core.errors import GitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 600.0  # a checkout of a big tree on a busy disk
_OUTPUT_LIMIT_BYTES = 1 << 20
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "advice.detachedHead=false",
    "submodule.recurse=false",
)
_FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_AUTHOR_NAME": "ralphd",
    "GIT_AUTHOR_EMAIL": "ralphd@localhost",
    "GIT_COMMITTER_NAME": "ralphd",
    "GIT_COMMITTER_EMAIL": "ralphd@localhost",
}


class Git:
    """Runs git for one git folder. Nothing is discovered: a worktree without ``.git`` must not lead elsewhere."""

    def __init__(
        self, git_dir: str, work_tree: str = "", index: str = "", settings: tuple[tuple[str, str], ...] = ()
    ) -> None:
        places = (("GIT_DIR", git_dir), ("GIT_WORK_TREE", work_tree), ("GIT_INDEX_FILE", index))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self._env = {**kept, **_FIXED, **{name: value for name, value in places if value}, **_as_environment(settings)}

    def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        """Return what git printed, without the last newline. Raises GitError with what git said."""
        status, out, err = self.run(*arguments, stdin=stdin)
        if status:
            raise GitError(f"git {arguments[0]} failed: {_first_line(err) or f'status {status}'}", stderr=err)
        return out

    def succeeds(self, *arguments: str) -> bool:
        return self.run(*arguments)[0] == 0

    def answer(self, *arguments: str) -> str:
        """Return what git printed, or the empty string when it failed."""
        status, out, _ = self.run(*arguments)
        return "" if status else out

    def run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        argv = ["git", *_settings(), *arguments]
        fds = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]  # no pipe to drain, no file to remove
        try:
            _put(fds[0], stdin)
            dups = [(os.POSIX_SPAWN_DUP2, fd, n) for n, fd in enumerate(fds)]
            try:
                pid = os.posix_spawnp("git", argv, self._env, file_actions=dups, setsid=True)
            except OSError as error:
                raise GitError(f"git can't be started: {error.strerror}") from None
            status = _wait(pid, arguments[0])
            return status, _get(fds[1]).removesuffix("\n"), _get(fds[2])[:4096]
        finally:
            for fd in fds:
                os.close(fd)


def _as_environment(settings: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Give settings to git so that any name is safe; ``-c`` would cut one at its first ``=``."""
    if not settings:
        return {}
    numbered = {f"GIT_CONFIG_KEY_{n}": name for n, (name, _) in enumerate(settings)}
    values = {f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(settings)}
    return {"GIT_CONFIG_COUNT": str(len(settings)), **numbered, **values}


def _settings() -> Iterator[str]:
    for setting in _SETTINGS:
        yield "-c"
        yield setting


def _wait(pid: int, verb: str) -> int:
    ended = os.pidfd_open(pid)
    try:
        ready = select.poll()
        ready.register(ended, select.POLLIN)
        deadline = time.monotonic() + SECONDS
        while not ready.poll(1000):
            if time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise GitError(f"git {verb} did not end within {SECONDS:.0f} s")
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(ended)


def _put(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]
    os.lseek(fd, 0, os.SEEK_SET)


def _get(fd: int) -> str:
    return os.fsdecode(os.pread(fd, _OUTPUT_LIMIT_BYTES, 0))


def _first_line(err: str) -> str:
    lines = [line for line in err.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines or [""])[0][:300]
