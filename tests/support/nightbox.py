"""How does a test run a whole night as a person would: start, look, stop, read the report, and leave nothing behind?"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from support.glances import glance, loops_at
from support.repositories import everything

from ralphd.core import events
from ralphd.core.errors import NothingRunning
from ralphd.core.events import Entry
from ralphd.edges.journal import JournalReader
from ralphd.edges.tmux import Tmux
from ralphd.edges.tmux_socket import socket_path
from ralphd.pane.procs import forest

DEADLINE_S = 120.0  # generous: nothing here waits for it unless something is broken
POLL_S = 0.1
PEOPLE = "[user]\nname = Ada\nemail = ada@example.org\n"
OURS_IN_GIT = (".git/objects", ".git/refs/ralphd")  # what a night may leave in the repository it worked for

Answer = TypeVar("Answer")
Written = tuple[tuple[int, int, int], ...]
CLOCK_STEP_NS = 100_000_000  # by far more than the clock of any file's times takes for a step


def until(
    ask: Callable[[], Answer],
    what: str,
    deadline_s: float = DEADLINE_S,
    say: Callable[[], str] = str,
    poll_s: float = POLL_S,
) -> Answer:
    """Poll `ask` until it gives something true, and return that; a failure also says `say()`."""
    end = time.monotonic() + deadline_s
    while not (answer := ask()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:g} s: {what}\n{say()}")
        time.sleep(poll_s)
    return answer


class NightBox:
    """A user with a home, a state folder and a repository, who has only the command line.

    `repo` is what `start` runs in. `home` is HOME of everything. `state` has a short path: a socket lies in it.
    """

    def __init__(self, root: Path, state: Path, repo: Path) -> None:
        self.root, self.state, self.repo = root, state, repo
        self.home = root / "home"
        self.home.mkdir(exist_ok=True)
        (self.home / ".gitconfig").write_text(PEOPLE)
        self.env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "RALPHD_STATE": str(state),
        }
        self._written: Written = ()
        self._read: dict[str, Any] = {}

    def env_of_strangers(self) -> dict[str, str]:
        """The environment of a process that has nothing to do with any night."""
        return {name: value for name, value in self.env.items() if name != "RALPHD_STATE"}

    # What a person does

    def configure(self, text: str) -> None:
        """Write ralphd.toml beside the repository's files."""
        (self.repo / "ralphd.toml").write_text(text)

    def ralphd(
        self, *arguments: str, code: int | None = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end; `code` None: any exit code will do."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "ralphd", *arguments],
            cwd=cwd or self.repo,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if code is not None and done.returncode != code:
            raise AssertionError(f"ralphd {arguments}: {done.returncode}\n{done.stdout}{done.stderr}\n{self.log()}")
        return done

    def start(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        return self.ralphd("start", *arguments, code=code)

    def stop(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        return self.ralphd("stop", *arguments, code=code)

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.ralphd("status", "--json").stdout))

    def status_code(self) -> int:
        return self.ralphd("status", code=None).returncode

    def report(self) -> dict[str, Any]:
        return dict(json.loads(self.ralphd("report", "--json").stdout))

    # What can be known of it

    def loops(self) -> dict[str, dict[str, Any]]:
        """The loops as `status` tells them, by id."""
        return {row["id"]: row for row in self.status()["loops"]}

    def glance(self) -> dict[str, Any]:
        """What `status --json` tells, without a process: for who asks again and again."""
        return glance(self.state)

    def rows(self) -> dict[str, dict[str, Any]]:
        """As `loops`, of a glance."""
        return loops_at(self.state)

    def nights(self) -> list[str]:
        return list(self._of_journal("nights", lambda reader: [row.id for row in reader.nights()]) or [])

    def journal(self, body: type | None = None, loop: str | None = None) -> list[Entry]:
        """The newest night's entries: those with such a body, of that loop."""
        nights = self.nights()
        if not nights:
            return []
        types = None if body is None else [body.__name__]
        asked = f"{nights[-1]} {types}"
        entries = self._of_journal(asked, lambda reader: list(reader.entries(nights[-1], types=types)))
        return [entry for entry in entries or [] if loop in {None, entry.loop}]

    def _of_journal(self, asked: str, read: Callable[[JournalReader], Answer]) -> Answer | None:
        """Read once what the journal holds until it is written to again: a test asks a hundred times for one change."""
        written = written_last(self.state / "journal.db")
        if written != self._written:
            self._written, self._read = written, {}
        if written and asked in self._read:
            return self._read[asked]
        try:
            reader = JournalReader.open(str(self.state / "journal.db"))
        except NothingRunning:
            return None
        with contextlib.closing(reader):
            self._read[asked] = answer = read(reader)
        return answer

    def outcomes(self, loop: str | None = None) -> list[str]:
        """The kinds of all outcomes in order, as `ralphd journal outcomes` counts them."""
        found = (events.outcome_of(entry.body) for entry in self.journal(loop=loop))
        return [outcome.kind.value for outcome in found if outcome is not None]

    def wait_for(
        self, body: type, count: int = 1, loop: str | None = None, deadline_s: float = DEADLINE_S
    ) -> list[Entry]:
        """The entries with such a body once the journal holds so many."""
        return until(
            lambda: len(found := self.journal(body, loop)) >= count and found,
            f"{count} {body.__name__} of {loop or 'the night'}", deadline_s, self.log,
        ) or []  # fmt: skip

    def wait_until(self, ask: Callable[[], Answer], what: str, deadline_s: float = DEADLINE_S) -> Answer:
        return until(ask, what, deadline_s, self.log)

    def records(self, loop: str) -> list[dict[str, Any]]:
        """What the runner itself wrote down."""
        path = self.folder(loop) / "records.jsonl"
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    def folder(self, loop: str) -> Path:
        return self.state / "nights" / self.nights()[-1] / "loops" / loop

    def worktree(self, loop: str) -> Path:
        return self.state / "worktrees" / self.nights()[-1] / loop

    def daemon_pid(self) -> int:
        return int(json.loads((self.state / "daemon.lock").read_text())["pid"])

    def runners(self) -> dict[str, int]:
        """The pid of each loop's runner as the runner wrote it down."""
        folder = self.state / "nights" / self.nights()[-1] / "loops"
        return {path.parent.name: json.loads(path.read_text())["pid"] for path in folder.glob("*/runner.json")}

    def pane_text(self, loop: str) -> str:
        """What a person who attaches reads."""
        pane = self.loops()[loop]["pane"]
        command = [
            "tmux",
            "-S",
            socket_path(str(self.state), self.env),
            "capture-pane",
            "-p",
            "-J",
            "-t",
            pane,
            "-S",
            "-",
        ]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=True).stdout

    def log(self) -> str:
        path = self.state / "daemon.log"
        return path.read_text()[-6000:] if path.exists() else "(no daemon.log)"

    def user_files(self, repo: Path | None = None) -> dict[str, tuple[int, str]]:
        """The checkout and its .git as they are, but for what a night may bring into them."""
        return everything(repo or self.repo, without=OURS_IN_GIT)

    # The end of it

    def left(self) -> list[str]:
        """Every process of the nights of this state: by nonce, by its environment, by its command line."""
        nonces = {f"RALPHD_NONCE={nonce}".encode() for nonce in self._nonces()}
        state = f"RALPHD_STATE={self.state}".encode()
        return [shown for shown in (self._ours(pid, nonces | {state}) for pid in _pids()) if shown]

    def _ours(self, pid: int, settings: set[bytes]) -> str:
        try:
            environment = set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            dead = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            return ""
        found = settings & environment or f"{self.state}/".encode() in command
        return f"{pid} {command.decode(errors='replace')}" if found and not dead else ""

    def _nonces(self) -> set[str]:
        return self._of_journal("nonces", _nonces_of) or set()

    def owned(self) -> bool:
        """Whether a daemon lives: the kernel's lock says so."""
        try:
            descriptor = os.open(self.state / "daemon.lock", os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def assert_nothing_left(self) -> None:
        """No daemon, no tmux server, no process of a night. They get a moment: `stop` is answered before its daemon goes."""
        tmux = Tmux(socket_path(str(self.state), self.env), environ=self.env)
        until(lambda: not self.owned(), "the daemon has gone", 30, self.log)
        until(lambda: not tmux.alive(), "the tmux server has gone", 10, self.log)
        until(lambda: not self.left(), "nothing of the night runs", 10, lambda: "\n".join(self.left()))

    def clean_up(self) -> None:
        """End whatever a test left running, by pid, when it failed half way."""
        if self.owned():
            self.stop("--now", code=None)
        for process in forest([int(shown.split()[0]) for shown in self.left()]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def night_box(root: Path, repo: Path, environ: Mapping[str, str] | None = None) -> Iterator[NightBox]:
    """A box whose night is always stopped and that leaves nothing running: that is asserted when the block ends well."""
    with tempfile.TemporaryDirectory(prefix="night-", ignore_cleanup_errors=True) as short:
        state = Path(short) / "state"
        box = NightBox(root, state, repo)
        box.env.update(environ or {})
        try:
            yield box
            if box.owned():
                box.stop("--now", code=None)  # it may be about to go by itself
            box.assert_nothing_left()
        finally:
            box.clean_up()


def written_last(path: Path) -> Written:
    """Tell one state of a SQLite file from any other; empty while that can't be told: what was written just now may go on."""
    found = []
    for name in (path, f"{path}-wal"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.stat(name))
    if any(time.time_ns() - file.st_mtime_ns < CLOCK_STEP_NS for file in found):
        return ()
    return tuple((file.st_ino, file.st_mtime_ns, file.st_size) for file in found)


def _nonces_of(reader: JournalReader) -> set[str]:
    entries = [entry for night in reader.nights() for entry in reader.entries(night.id, types=["LoopAdded"])]
    return {entry.body.loop.nonce for entry in entries}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
