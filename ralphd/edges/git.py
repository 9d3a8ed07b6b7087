"""How git is asked, so that nothing an agent wrote can run.

Every command gets an explicit git folder: nothing is discovered, so no folder above is ever taken for the repository.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryFile

from ralphd.core.errors import GitError, UsageError

OUTPUT_LIMIT_BYTES = 64 << 20  # half a million changed paths; more is a flood
STDERR_LIMIT_BYTES = 4096  # what a person reads of it
SECONDS = 120.0  # the slowest thing asked is a checkout of a big tree

# Command-line settings outrank system, global, repository and worktree configuration alike.
_SETTINGS = (
    "core.hooksPath=/dev/null",  # no hook, reference-transaction included
    "core.fsmonitor=false",  # runs a program whenever the index is read
    "core.alternateRefsCommand=true",  # runs a program on fetch; `true` prints nothing
    "core.logAllRefUpdates=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.ext.allow=never",  # ext:: URLs are commands
    "protocol.file.allow=always",  # results travel by path
    "commit.gpgSign=false",
    "safe.directory=*",  # a repository may belong to another user: only its objects and refs are read
)


_KEPT = ("PATH", "HOME", "TMPDIR")  # to find git's own programs and a place for what is too large for memory
_KEPT_FOR_CONFIG = (*_KEPT, "XDG_CONFIG_HOME", "USER", "LOGNAME")  # to find a person's configuration, and who they are


@dataclass(frozen=True, kw_only=True)
class Git:
    """Runs git for one repository.

    ``user_config``: read the person's own global and system configuration too (their ignore rules and line endings),
    as working-tree commands on *their* checkout need. Never set where an agent can write.
    """

    git_dir: str
    work_tree: str = ""
    index: str = ""
    user_config: bool = False
    seconds: float = SECONDS

    def __call__(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Return what the command printed. Raises GitError naming the command and what git said."""
        status, out, err = self.run(*arguments, stdin=stdin)
        if status:
            raise GitError(f"git {arguments[0]} failed in {self.git_dir}: {_first_line(err, status)}", stderr=err)
        return out

    def text(self, *arguments: str) -> str:
        return os.fsdecode(self(*arguments).removesuffix(b"\n"))

    def answer(self, *arguments: str) -> str | None:
        """Return the one line printed, or None where git answers no (status 1, as ``--quiet`` and friends do)."""
        status, out, err = self.run(*arguments)
        if status > 1:
            raise GitError(f"git {arguments[0]} failed in {self.git_dir}: {_first_line(err, status)}", stderr=err)
        return None if status else os.fsdecode(out.removesuffix(b"\n"))

    def run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        """Return status, output and capped stderr. Raises GitError when it floods, hangs or can't be started."""
        env = environment(self._places(), user_config=self.user_config) | {"GIT_ALLOW_PROTOCOL": _protocols(arguments)}
        return run_git(arguments, env, stdin, self.seconds)

    def within(self, *, work_tree: str, index: str, user_config: bool = False) -> Git:
        return replace(self, work_tree=work_tree, index=index, user_config=user_config)

    def _places(self) -> dict[str, str]:
        places = {"GIT_DIR": self.git_dir, "GIT_WORK_TREE": self.work_tree, "GIT_INDEX_FILE": self.index}
        return {name: value for name, value in places.items() if value}


def _protocols(arguments: Sequence[str]) -> str:
    """Return what git may ask for objects: nobody, unless that is what it is told to do.

    A git before 2.39.4 knows no GIT_NO_LAZY_FETCH: for a missing object it would run what a planted remote names.
    """
    return "file" if "fetch" in arguments[:1] else "none"


def environment(places: Mapping[str, str], *, user_config: bool) -> dict[str, str]:
    """Return the whole environment of a git: no GIT_* of ours, nothing that prompts, or writes on a read.

    It gets next to nothing of ours: should something run there that a repository names, it finds no secret.
    """
    names = _KEPT_FOR_CONFIG if user_config else _KEPT
    kept = {name: os.environ[name] for name in names if name in os.environ}
    quiet = {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_DEFAULT_REF_FORMAT": "files",
        "GIT_AUTHOR_NAME": "ralphd",
        "GIT_AUTHOR_EMAIL": "ralphd@localhost",
        "GIT_COMMITTER_NAME": "ralphd",
        "GIT_COMMITTER_EMAIL": "ralphd@localhost",
    }
    alone = (
        {} if user_config else {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1"}
    )
    return kept | quiet | alone | dict(places)


def run_git(arguments: Sequence[str], env: Mapping[str, str], stdin: bytes, seconds: float) -> tuple[int, bytes, str]:
    argv = ["git", *(part for setting in _SETTINGS for part in ("-c", setting)), *arguments]
    with TemporaryFile() as given, TemporaryFile() as said:  # files, so that only one pipe needs reading
        given.write(stdin)
        given.seek(0)
        try:
            # `cwd`: somewhere that holds nothing, since git looks there for what it is not told.
            git = subprocess.Popen(
                argv, stdin=given, stdout=subprocess.PIPE, stderr=said, env=env, cwd="/", start_new_session=True
            )
        except OSError as error:
            raise UsageError(f"git can't be started: {error.strerror}; install git 2.31 or later") from None
        with git:
            try:
                out = _read(git, arguments[0], time.monotonic() + seconds)
            except BaseException:
                os.killpg(git.pid, signal.SIGKILL)
                raise
        said.seek(0)
        return git.returncode, out, said.read(STDERR_LIMIT_BYTES).decode("utf-8", "replace")


def _read(git: subprocess.Popen[bytes], verb: str, deadline: float) -> bytes:
    assert git.stdout is not None
    out = bytearray()
    ready = select.poll()
    ready.register(git.stdout, select.POLLIN)
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not ready.poll(left_s * 1000):
            raise GitError(f"git {verb} did not answer in time")
        chunk = os.read(git.stdout.fileno(), 1 << 20)
        if not chunk:
            break
        out += chunk
        if len(out) > OUTPUT_LIMIT_BYTES:
            raise GitError(f"git {verb} printed more than {OUTPUT_LIMIT_BYTES >> 20} MiB")
    try:
        git.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise GitError(f"git {verb} did not end in time") from None
    return bytes(out)


def _first_line(err: str, status: int) -> str:
    lines = [line for line in err.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines or [f"status {status}"])[0][:300]
