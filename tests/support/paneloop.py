"""A real loop for tests of the runner: its folder, a night repository with a worktree, and a runner process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ralphd.core import codec
from ralphd.core.exchange import Assignment, Limits, Order, Want

RUNNER = Path(__file__).resolve().parents[2] / "ralphd" / "pane" / "runner.py"
DEADLINE_S = 60.0  # generous: nothing here waits for it unless something is broken

PATIENT = {"quiet_s": 600.0, "stream_s": 600.0, "result_grace_s": 600.0, "backoff_min_s": 0.01, "backoff_max_s": 0.05}


def git(*args: str, cwd: Path) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "t"), ("EMAIL", "t@t"))
    }
    return subprocess.run(["git", *args], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout.strip()


def until(ask, what: str = "", deadline_s: float = DEADLINE_S):
    """Poll ``ask`` until it gives something true, and return that."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not within {deadline_s} s: {what or ask}")


class PaneLoop:
    """``agent`` is the text of a program; it runs with the worktree as its folder and its arguments in place."""

    def __init__(self, root: Path, agent: str, *, cli: str = "command", limits: dict | None = None, **more) -> None:
        self.root = root
        self.folder = root / "loops" / "one"
        for name in ("calls", "logs", "notes/used", "prompts", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.bare, self.worktree = root / "night.git", root / "worktrees" / "one"
        self.prompt = root / "PROMPT.md"
        self.prompt.write_bytes(b"Do the next thing.\n")
        self.base = self._repository()
        self.agent = root / "agent"
        self.write_agent(agent)
        self.preamble = self.folder / "preamble.md"
        self.preamble.write_text("You are one of many.")
        env = {"PATH": os.environ["PATH"], "HOME": str(root), "ROOT": str(root)}
        env |= {
            "GIT_AUTHOR_NAME": "t",
            "GIT_AUTHOR_EMAIL": "t@t",
            "GIT_COMMITTER_NAME": "t",
            "GIT_COMMITTER_EMAIL": "t@t",
        }
        values = {
            "night": "n1",
            "loop": "one",
            "generation": 1,
            "task": "main",
            "cli": cli,
            "program": str(self.agent),
            "env": env | more.pop("env", {}),
            "folder": str(self.folder),
            "worktree": str(self.worktree),
            "night_repository": str(self.bare),
            "branch": "ralphd/n1/one",
            "base": self.base,
            "prompt": str(self.prompt),
            "preamble": str(self.preamble),
            "nonce": os.urandom(8).hex(),
            "limits": Limits(**{**PATIENT, **(limits or {})}),
        }
        self.assignment = Assignment(**{**values, **more})
        self.assign(self.assignment)
        self.serial = 0
        self.processes: list[subprocess.Popen] = []

    def _repository(self) -> str:
        source = self.root / "source"
        source.mkdir()
        git("init", "-q", "-b", "main", cwd=source)
        (source / "file.txt").write_text("one\n")
        git("add", ".", cwd=source)
        git("commit", "-q", "-m", "Begin", cwd=source)
        git("clone", "-q", "--bare", str(source), str(self.bare), cwd=self.root)
        git("worktree", "add", "-q", "--no-track", "-b", "ralphd/n1/one", str(self.worktree), "main", cwd=self.bare)
        return git("rev-parse", "HEAD", cwd=source)

    def write_agent(self, text: str) -> None:
        draft = self.agent.with_suffix(".new")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.rename(self.agent)

    def assign(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self._put("loop.json", assignment)

    def order(self, want: str, *, bell: bool = True, **more) -> None:
        self.serial += 1
        self._put("order.json", Order(serial=self.serial, want=Want(want), **more))
        if bell:
            self.ring()

    def ring(self) -> None:
        fd = os.open(self.folder / "calls" / "bell", os.O_WRONLY | os.O_NONBLOCK)
        os.write(fd, b"order\n")
        os.close(fd)

    def _put(self, name: str, value: object) -> None:
        draft = self.folder / f".{name}.draft"
        draft.write_text(json.dumps(codec.dump(value)))
        draft.rename(self.folder / name)

    def start(self, *late_s: str, wrapper: tuple[str, ...] = (), **env: str) -> subprocess.Popen:
        argv = [*wrapper, sys.executable, "-I", "-S", "-E", str(RUNNER), str(self.folder), *late_s]
        with open(self.root / "pane.txt", "ab") as out:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={"PATH": os.environ["PATH"], **env},
                start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def records(self, kind: str = "") -> list[dict]:
        try:
            lines = (self.folder / "records.jsonl").read_bytes().split(b"\n")[:-1]
        except OSError:
            return []
        found = []
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if not kind or record["type"] == kind:
                found.append(record)
        return found

    def bodies(self, kind: str) -> list[dict]:
        return [record["body"] for record in self.records(kind)]

    def wait_for(self, kind: str, count: int = 1) -> list[dict]:
        """Return the bodies of that kind once there are so many."""
        return until(
            lambda: len(found := self.bodies(kind)) >= count and found, f"{count} {kind}: {self.text()[-2000:]}"
        )

    def outcomes(self) -> list[str]:
        return [body["outcome"]["kind"] for body in self.bodies("TrajectoryEnded")]

    def text(self) -> str:
        """What a person reads in the pane."""
        try:
            return (self.root / "pane.txt").read_bytes().decode()
        except OSError:
            return ""

    def stop(self) -> int:
        """Order the end now and return the runner's exit code."""
        self.order("stopped", now=True, bell=False)
        self.ring()
        return self.processes[-1].wait(DEADLINE_S)

    def clean_up(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)

    def left(self) -> list[int]:
        """Return the pids of everything that carries this loop's nonce."""
        setting = f"RALPHD_NONCE={self.assignment.nonce}".encode()
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    alive = b") Z" not in Path(f"/proc/{name}/stat").read_bytes()
                    if alive and setting in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                        found.append(int(name))
                except OSError:
                    continue
        return found
