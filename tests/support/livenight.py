"""A real night in a folder of its own: a repository, a small agent of sh, a daemon, tmux; and a way to end it all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.glances import glance, loops_at
from support.repositories import ENV, commit, git

from ralphd.edges.tmux_socket import peer_pid, socket_path

DEADLINE_S = 60.0  # generous: nothing waits for it unless something is broken
NAMES_OF_OURS = ("RALPHD_", "TMUX", "XDG_STATE_HOME")

# One step a session: it counts up, commits, says so in the protocol of `command`, and leaves something hostile to show.
AGENT = r"""#!/bin/sh
cat >/dev/null
echo '{"type": "begin", "session": "s", "model": "counting"}'
printf '{"type": "text", "text": "I count \\u001b[2J\\u202eon"}\n'
n=$(cat n)
echo $((n + 1)) >n
git -c user.name=a -c user.email=a@example.org commit -qam "count to $((n + 1))"
echo '{"type": "usage", "input": 100, "output": 10}'
sleep ${NAP:-0.3}
echo '{"type": "result", "ok": true, "text": "counted"}'
"""

TOML = """\
[night]
width = 2

[agent]
cli = "command"
program = "{program}"

[limits]
backoff_min_seconds = 0.1
backoff_max_seconds = 0.2

[[task]]
name = "count"

[task.verify]
command = "cat n"
score = 'regex:(\\d+)'
"""


def until(ask, what: str = "", deadline_s: float = DEADLINE_S):
    """Poll ``ask`` until it gives something true, and return that."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {deadline_s} s: {what or ask}")


def listing(folder: Path) -> list[str]:
    """Every path below ``folder``; nothing when it isn't there."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class LiveNight:
    """Nothing runs until ``start``. ``ralphd`` runs the command line as a person would, in the repository."""

    def __init__(self, root: Path, *, agent: str = AGENT, toml: str = TOML) -> None:
        self.root = root
        self.state = root / "state"
        self.repo = root / "repo"
        self.agent = root / "agent"
        self.agent.write_text(agent)
        self.agent.chmod(0o755)
        self.repo.mkdir()
        git(self.repo, "init", "-q", "-b", "main")
        (self.repo / "n").write_text("0\n")
        (self.repo / "PROMPT.md").write_text("Count on.\n")
        # A module of the repository must never be imported in the place of one of ours.
        (self.repo / "click.py").write_text("raise SystemExit('imported from the repository')\n")
        self.toml = self.repo / "ralphd.toml"
        self.toml.write_text(toml.replace("{program}", str(self.agent)))
        self.base = commit(self.repo, "nothing counted yet")
        self.env = {name: value for name, value in ENV.items() if not name.startswith(NAMES_OF_OURS)}
        self.env |= {"RALPHD_STATE": str(self.state), "HOME": str(root)}

    def ralphd(
        self, *args: str, cwd: Path | None = None, env: dict[str, str] | None = None, **more
    ) -> subprocess.CompletedProcess[str]:
        more = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 120, **more}
        argv = [sys.executable, "-P", "-m", "ralphd", *args]
        return subprocess.run(argv, cwd=cwd or self.repo, env={**self.env, **(env or {})}, check=False, **more)

    def popen(self, *args: str, **more) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-P", "-m", "ralphd", *args], cwd=self.repo, env=self.env, **more)

    def good(self, *args: str, **more) -> str:
        """Run what must succeed and return what it printed."""
        done = self.ralphd(*args, **more)
        assert done.returncode == 0, (args, done.stdout, done.stderr, self.log())
        return done.stdout

    def start(self, *args: str) -> str:
        return self.good("start", *args)

    def status(self) -> dict:
        return json.loads(self.good("status", "--json"))

    def loops(self) -> dict[str, dict]:
        return {loop["id"]: loop for loop in self.status()["loops"]}

    def glance(self) -> dict:
        """What ``status`` tells, without a process: for who asks again and again."""
        return glance(self.state)

    def rows(self) -> dict[str, dict]:
        return loops_at(self.state)

    def journal(self, what: str, *args: str) -> list[dict]:
        return [json.loads(line) for line in self.good("journal", what, "--json", *args).splitlines()]

    def log(self) -> str:
        path = self.state / "daemon.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def daemon_pid(self) -> int | None:
        """Return the pid in the lock file if that process is a daemon of this state."""
        try:
            pid = int(json.loads((self.state / "daemon.lock").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return None
        return pid if pid in self.left() else None

    def left(self) -> list[int]:
        """Return the pids of all that was started for this state: by its environment, or as its tmux server."""
        setting, loops = f"RALPHD_STATE={self.state}".encode(), self._nonces()
        found = [] if (server := self.tmux_pid()) is None else [server]
        for name in os.listdir("/proc"):
            try:
                if (
                    name.isdigit()
                    and int(name) != os.getpid()
                    and b") Z" not in Path(f"/proc/{name}/stat").read_bytes()
                ):
                    items = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
                    if setting in items or not loops.isdisjoint(items):
                        found.append(int(name))
            except OSError:
                continue
        return found

    def tmux_pid(self) -> int | None:
        return peer_pid(socket_path(str(self.state), self.env)) if self.state.exists() else None

    def _nonces(self) -> set[bytes]:
        found = set()
        for path in self.state.glob("nights/*/loops/*/loop.json"):
            found.add(f"RALPHD_NONCE={json.loads(path.read_text())['nonce']}".encode())
        return found

    def clean_up(self) -> None:
        """End what the test left, by pid; the test itself says whether something may be left."""
        if self.daemon_pid() is not None:
            self.ralphd("stop", "--now")
        for number in (signal.SIGTERM, signal.SIGKILL):
            end = time.monotonic() + 10
            for pid in self.left():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            while self.left() and time.monotonic() < end:
                time.sleep(0.05)
        assert not self.left()
