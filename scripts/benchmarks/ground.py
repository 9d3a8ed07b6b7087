"""A private place to measure in: nights of ralphd, bare shell loops of the same agent, and what processes use."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

PATIENCE_S = 120.0  # nothing waits so long unless it is broken
RALPHD = os.path.join(os.path.dirname(sys.executable), "ralphd")
# What the runner is started with: nothing of the user's Python, and no shim on the way.
PYTHON = (os.path.realpath(sys.executable), "-I", "-S", "-E")
TICKS = os.sysconf("SC_CLK_TCK")
WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "bench"), ("EMAIL", "bench@invalid"))
}

# Feeds the prompt to the agent, again and again: what ralphd is compared with.
BARE = """\
while :; do
    "$BENCH_AGENT" <PROMPT.md >>"$BENCH/bare.log" 2>&1
done
"""


class BenchFailed(Exception):
    """A measurement could not be taken; the message says what failed and what it said."""


@dataclass(kw_only=True)
class Ground:
    """A temporary folder with a repository, an agent and at most one night. ``files`` are committed in it."""

    folder: str
    bare: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def repository(self) -> str:
        return os.path.join(self.folder, "repository")

    @property
    def agent(self) -> str:
        return os.path.join(self.folder, "agent")

    @property
    def state(self) -> str:
        return os.path.join(self.folder, "state")

    def environ(self) -> dict[str, str]:
        """Return what both kinds of loop see; git's configuration is nobody's."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        return {
            **kept,
            **WHO,
            "HOME": self.folder,
            "GIT_CONFIG_NOSYSTEM": "1",
            "BENCH": self.folder,
            "BENCH_AGENT": self.agent,
            "RALPHD_STATE": self.state,
        }

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def lines(self, name: str) -> list[str]:
        """Return the whole lines of a file that agents append to."""
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return [line.rstrip("\n") for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def git(self, *args: str, cwd: str = "") -> str:
        return run(["git", *args], env=self.environ(), cwd=cwd or self.repository)

    # A night.

    def ralphd(self, *args: str) -> str:
        return run([RALPHD, *args], env=self.environ(), cwd=self.repository)

    def runners(self) -> list[int]:
        """Return the pids of the night's runners."""
        found = []
        for folder, _, files in os.walk(os.path.join(self.state, "nights")):
            if "runner.json" in files:
                with open(os.path.join(folder, "runner.json"), encoding="utf-8") as file:
                    found.append(int(json.load(file)["pid"]))
        return found

    def daemon(self) -> int:
        return int(json.loads(self.ralphd("status", "--json"))["daemon"]["pid"])

    def tmux(self) -> int:
        return int(run(["tmux", "-S", os.path.join(self.state, "tmux.sock"), "display-message", "-p", "#{pid}"]))

    def stop(self, *args: str) -> None:
        """End the night if there is one."""
        command = [RALPHD, "stop", *args]
        done = subprocess.run(command, env=self.environ(), cwd=self.repository, capture_output=True, check=False)
        if done.returncode not in {0, 3}:
            raise BenchFailed(f"ralphd stop: exit status {done.returncode}: {done.stderr.decode()[-500:]}")
        until(self._daemon_gone, "the daemon's end")

    def _daemon_gone(self) -> bool:
        """It answers `stop` just before it leaves; its lock is free once it has."""
        try:
            with open(os.path.join(self.state, "daemon.lock"), "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return True
        except BlockingIOError:
            return False
        return True

    # Bare loops.

    def start_bare(self, name: str, cwd: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a loop: a bare shell loop, or a ``command`` that makes one."""
        loop = subprocess.Popen(
            command or ["/bin/sh", "-c", BARE],
            env={**self.environ(), "RALPHD_LOOP": name, "BENCH_BARE": self.folder},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.bare.append(loop)
        return loop

    def stop_bare(self) -> None:
        for loop in self.bare:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(loop.pid, signal.SIGKILL)
            loop.wait()
        while self.bare and self._end_strays():
            time.sleep(0.02)
        self.bare.clear()

    def _end_strays(self) -> int:
        """Kill what the loops' agents left running: it carries this place in its environment. Return how many."""
        mine, found = f"BENCH_BARE={self.folder}".encode(), 0
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    is_mine = mine in file.read().split(b"\0")
                if is_mine and pid != os.getpid():
                    os.kill(pid, signal.SIGKILL)
                    found += 1
        return found


@contextlib.contextmanager
def ground(agent: str, settings: str = "", files: dict[str, str] | None = None) -> Iterator[Ground]:
    """Make a place whose agent is the program text ``agent``; afterwards nothing of it runs and nothing is left."""
    made = Ground(folder=tempfile.mkdtemp(prefix="ralphd-bench-"))
    try:
        os.mkdir(made.repository)
        write(made.agent, agent, mode=0o755)
        environ = json.dumps({**WHO, "BENCH": made.folder, "HOME": made.folder})
        pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in json.loads(environ).items())
        toml = f'[agent]\ncli = "command"\nprogram = "{made.agent}"\nenv = {{ {pairs} }}\n{settings}'
        for name, text in {"PROMPT.md": "Do the next thing.\n", "ralphd.toml": toml, **(files or {})}.items():
            write(os.path.join(made.repository, name), text)
        made.git("init", "-q", "-b", "main")
        made.git("add", "--all")
        made.git("commit", "-q", "-m", "Begin")
        yield made
    finally:
        made.stop_bare()
        made.stop("--now")
        shutil.rmtree(made.folder)


def write(path: str, text: str, mode: int = 0o644) -> None:
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(text)


def run(command: list[str], env: dict[str, str] | None = None, cwd: str | None = None) -> str:
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchFailed(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def until(ask: Callable[[], bool], what: str, every_s: float = 0.02) -> None:
    """Wait until ``ask`` says yes. Raises BenchFailed after two minutes."""
    end = time.monotonic() + PATIENCE_S
    while not ask():
        if time.monotonic() > end:
            raise BenchFailed(f"not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(every_s)


def cpu_s(pid: int, *, children: bool = False) -> float:
    """Return the CPU seconds of a process, its ended children included on demand; 0 for one that is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11 : 15 if children else 13]) / TICKS


def private_bytes(pid: int) -> int:
    """Return the memory that would come back if this process ended."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith(("Private_Clean", "Private_Dirty")))


def machine() -> str:
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"


def busy() -> bool:
    """Say whether, over the last minute, more wanted to run than there are cores."""
    return os.getloadavg()[0] > (os.cpu_count() or 1)
