"""What is installed is whole: prompts, migrations and unit files travel in the wheel, and a checkout finds its own."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASK = (
    "from ralphd.cli import shipped; import os; "
    "print(shipped.folder('prompts'), shipped.folder('migrations'), shipped.folder('systemd')); "
    "assert 'Ralph loop' in shipped.text('preamble.md'); "
    "assert os.path.exists(os.path.join(shipped.folder('migrations'), 'env.py')); "
    "assert os.access(os.path.join(shipped.PACKAGE, 'pane', 'guard'), os.X_OK); "
    "assert os.path.exists(os.path.join(shipped.PACKAGE, 'demo', 'night', 'score.py'))"
)


def test_a_checkout_finds_its_own_folders() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == str(ROOT / "prompts")


@pytest.mark.slow
def test_a_wheel_carries_everything(tmp_path: Path) -> None:
    """Built from a copy of what git tracks, installed without dependencies into an environment of its own."""
    source = tmp_path / "source"
    source.mkdir()
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, tracked):
        file = source / name.decode()
        if (ROOT / name.decode()).is_file() and not name.startswith(b"tests/"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes((ROOT / name.decode()).read_bytes())
            file.chmod((ROOT / name.decode()).stat().st_mode)
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(source)], check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", str(wheel)], check=True, capture_output=True)
    done = subprocess.run([python, "-c", ASK], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all("site-packages/ralphd/shipped" in place for place in done.stdout.split())
