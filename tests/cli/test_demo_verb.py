"""``ralphd demo`` as a person runs it: a real night that is told, reported, and leaves nothing running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.livenight import NAMES_OF_OURS, LiveNight, until
from support.repositories import git


class Demo:
    """One run of the demo with its folder below ``root``."""

    def __init__(self, root: Path, *args: str) -> None:
        self.root, self.out = root, root / "out"
        env = {name: value for name, value in os.environ.items() if not name.startswith(NAMES_OF_OURS)}
        argv = [sys.executable, "-P", "-m", "ralphd", "demo", *args]
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**env, "TMPDIR": str(root)},
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.out.read_text()

    @property
    def folder(self) -> Path:
        (folder,) = self.root.glob("ralphd-demo-*")
        return folder

    def left(self) -> list[int]:
        """What still runs of it, as of any night of that state."""
        night = object.__new__(LiveNight)
        night.state, night.env = self.folder / "state", {}
        return night.left()


@pytest.fixture
def run(tmp_path):
    """Start demos; all of them are over at the end."""
    demos = []

    def start(*args: str) -> Demo:
        demos.append(Demo(tmp_path, *args))
        return demos[-1]

    yield start
    for demo in demos:
        if demo.process.poll() is None:
            demo.process.send_signal(signal.SIGINT)
            demo.process.wait(120)
        until(lambda demo=demo: not demo.left(), "nothing of the demo is left")


@pytest.mark.slow
def test_a_short_demo_tells_what_happens_and_reports_it(run):
    """Progress while it runs, the report of what was measured, and where it all is."""
    demo = run("--seconds", "20")
    assert demo.process.wait(240) == 0, demo.text
    assert "the start measures 22205" in demo.text
    reached = [int(score) for score in re.findall(r"reaches (\d+), the best so far", demo.text)]
    assert reached == sorted(reached, reverse=True)
    assert f"from 22205 to {reached[-1]} (lower is better)" in " ".join(demo.text.split())
    best = re.search(r"git merge --ff-only ([0-9a-f]{40})", demo.text)[1]
    repository = demo.folder / "repository"
    git(repository, "checkout", "-q", best)
    measured = subprocess.run(
        [sys.executable, "-I", "score.py"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert measured.stdout == f"length: {reached[-1]}\n"
    assert "Nothing of it runs any more" in demo.text
    assert demo.left() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_ends_its_night_and_still_reports(run, number):
    """Ctrl-C: exit 130, a report of what there was, nothing left."""
    demo = run("--seconds", "600")
    until(lambda: "the start measures" in demo.text, "it runs")
    demo.process.send_signal(number)
    assert demo.process.wait(120) == 130, demo.text
    assert "(it was stopped)" in " ".join(demo.text.split())
    assert "Traceback" not in demo.text
    assert demo.left() == []


def test_a_demo_without_tmux_says_so(tmp_path):
    """One line, the way out, exit 2."""
    (tmp_path / "bin").mkdir()
    for name in ("git", "sh"):
        (tmp_path / "bin" / name).symlink_to(
            subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        )
    env = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-P", "-m", "ralphd", "demo"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert not list(tmp_path.glob("ralphd-demo-*"))
    assert done.stderr == "ralphd: there is no tmux on PATH; install it: apt install tmux\n"
