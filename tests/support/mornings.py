"""A night that is over, with real repositories, loops' branches and verdicts, made without running it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner
from support.repositories import commit, git, head, night_of

from ralphd.cli import shipped
from ralphd.cli.main import main
from ralphd.core import events
from ralphd.core.errors import RalphdError
from ralphd.core.events import Body, Entry
from ralphd.core.model import Loop, Task, Verdict, Verifier
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal

NIGHT = "2026-11-30-a"
SCORE = """\
n=$(ls parts | wc -l)
if [ -e parts/fire ] && [ -e parts/powder ]; then n=0; fi
echo "score $n"
"""


class Morning:
    """``parts/`` counts: each file in it is a point, but fire and powder together are none."""

    def __init__(self, folder: Path, *, verified: bool = True) -> None:
        self.repo = folder / "repo"
        (self.repo / "parts").mkdir(parents=True)
        git(self.repo, "init", "-q", "-b", "main")
        (self.repo / "parts" / "first").write_text("1\n")
        (self.repo / "shared.txt").write_text("a\nb\nc\n")
        (self.repo / "score.sh").write_text(SCORE)
        self.base = commit(self.repo, "begin")
        self.state = folder / "state"
        self.state.mkdir(mode=0o700)
        self.night = night_of(self.repo, self.state / "nights" / NIGHT / "repositories" / "main")
        command = "sh score.sh" if verified else ""
        verifier = Verifier(command=command, score=r"regex:score (\d+)", protect=("score.sh",), seconds=60, slots=1)
        self.task = Task(
            name="main", repository=str(self.repo), night_repository=self.night.at, prompt="/p", base=self.base, verifier=verifier
        )  # fmt: skip
        self.bodies: list[tuple[str, Body]] = [
            ("", events.NightStarted(width=8, ends_at=None, version="0", config={})),
            ("", events.TaskAdded(task=self.task)),
        ]
        if verified:
            self.judged("", self.base, 1.0)
        self.folder = folder

    def loop(self, name: str, files: dict[str, str | bytes | None], *, score: float | None = None) -> str:
        """A loop that changed ``files`` (None: removed) and what the night said of it; returns the commit."""
        branch, tree = f"ralphd/{NIGHT}/{name}", self.folder / "worktrees" / name
        self.night.add_worktree(str(tree), branch, self.base)
        git(tree, "reset", "-q", "--hard")
        for path, content in files.items():
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                target.unlink()
            elif isinstance(content, bytes):
                target.write_bytes(content)
            else:
                target.write_text(content)
        made = commit(tree, f"work of {name}")
        loop = Loop(
            id=name, task="main", pod="", branch=branch, worktree=str(tree), folder=str(self.folder / name), nonce="n"
        )
        self.bodies.append((name, events.LoopAdded(loop=loop)))
        if self.task.verifier.command:
            self.judged(name, made, score)
        return made

    def judged(self, loop: str, of: str, score: float | None) -> None:
        tree = self.night.tree_of(of)
        verdict = Verdict(task="main", loop=loop, commit=of, tree=tree, score=score, passed=False)
        self.bodies.append((loop, events.VerdictGiven(verdict=verdict, submission=bool(loop))))

    def over(self) -> None:
        """Write the journal."""
        self.bodies.append(("", events.NightEnded(why="stopped")))
        journal = Journal.open(str(self.state / "journal.db"), shipped.folder("migrations"), Redactor([]))
        journal.append(
            [
                Entry(at=1780000000.0 + n, night=NIGHT, loop=name, generation=1, trajectory=1 if name else 0, body=body)
                for n, (name, body) in enumerate(self.bodies)
            ]
        )
        journal.close()

    @property
    def env(self) -> dict[str, str]:
        return {"RALPHD_STATE": str(self.state), "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(self.folder)}

    def ralphd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Call the command line here: a process for each call would take most of the time."""
        before = os.getcwd()
        os.chdir(self.repo)
        try:
            done = CliRunner(env=self.env).invoke(main, arguments, standalone_mode=False)
        finally:
            os.chdir(before)
        error, code = "", done.exit_code
        if isinstance(done.exception, RalphdError):
            error, code = f"ralphd: {done.exception}", done.exception.exit_code
        elif done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return subprocess.CompletedProcess(arguments, code, done.stdout, done.stderr + error)

    def process(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-P", "-m", "ralphd", *arguments]
        return subprocess.run(
            argv, cwd=self.repo, env={**os.environ, **self.env}, capture_output=True, text=True, check=False
        )

    def at(self, ref: str) -> str:
        return git(self.repo, "rev-parse", "--verify", ref)

    @property
    def head(self) -> str:
        return head(self.repo)
