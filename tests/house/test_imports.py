"""The direction of imports is a gate, and the gate has been seen to close."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

VIOLATIONS = {
    "core reaches out": ("ralphd/core/scoring.py", "from ralphd.edges import git\n"),
    "a port knows its edge": ("ralphd/ports.py", "from ralphd.edges import git\n"),
    "the daemon names an edge": ("ralphd/daemon/tick.py", "from ralphd.edges import git\n"),
    "a view asks the daemon": ("ralphd/views/status.py", "from ralphd.daemon import tick\n"),
    "the pane imports an edge": ("ralphd/pane/calls.py", "from ralphd.edges import git\n"),
    "the pane imports a port": ("ralphd/pane/calls.py", "from ralphd import ports\n"),
    "an agent imports the pane": ("ralphd/agents/lines.py", "from ralphd.pane import calls\n"),
    "an edge imports the command line": ("ralphd/edges/git.py", "from ralphd.cli import main\n"),
}


def lint(checkout: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "lint-imports"
    argv = [str(program), "--no-cache", "--config", "pyproject.toml"]
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(checkout)}
    return subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "ralphd", tmp_path / "ralphd", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_house_as_it_stands_keeps_its_direction(checkout: Path) -> None:
    done = lint(checkout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_deliberate_violation_is_caught(checkout: Path, name: str) -> None:
    path, line = VIOLATIONS[name]
    file = checkout / path
    text = file.read_text()
    marker = "from __future__ import annotations\n"
    assert marker in text
    file.write_text(text.replace(marker, marker + line, 1))
    done = lint(checkout)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout
