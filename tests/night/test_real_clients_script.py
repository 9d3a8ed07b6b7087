"""scripts/real-clients installs once and says where; a test without its client is seen to be missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support import clients
from support.needs import missing

NPM = """#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
for asked; do :; done
echo "$asked" >> "$CALLS"
put() { mkdir -p "$1/$2"; echo "echo $3 \"\\$@\"" > "$1/$2/$3"; chmod +x "$1/$2/$3"; }
case "$asked" in
*claude*) for arch in x64 arm64; do put "$2" "node_modules/@anthropic-ai/claude-code-linux-$arch" claude; done ;;
*pi-coding*) put "$2" node_modules/@mariozechner/pi-coding-agent/dist cli.js ;;
node-linux-*) for arch in x64 arm64; do put "$2" "node_modules/node-linux-$arch/bin" node; done ;;
esac
"""


def script(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "RALPHD_REAL_CLIENTS": str(tmp_path / "cache"),
        "CALLS": str(tmp_path / "calls"),
    }
    return subprocess.run([clients.INSTALLER, *arguments], env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def npm(tmp_path: Path) -> Path:
    return program(tmp_path, "npm", NPM)


def program(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_where_installs_nothing(npm: Path, tmp_path: Path) -> None:
    done = script(tmp_path, "--where", "claude")
    assert (done.returncode, done.stdout) == (1, "")
    assert "run scripts/real-clients" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_a_client_is_installed_once_and_whole(npm: Path, tmp_path: Path) -> None:
    first, second = script(tmp_path, "claude"), script(tmp_path, "claude")
    assert (first.returncode, first.stdout) == (0, second.stdout), first.stderr
    assert os.access(first.stdout.strip(), os.X_OK)
    assert (tmp_path / "calls").read_text() == "@anthropic-ai/claude-code@2.1.332\n"
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == ["claude-2.1.332"]


@pytest.mark.parametrize(("version", "brought"), [("v18.20.4", 1), ("v20.20.2", 0)])
def test_a_client_that_runs_under_node_gets_one_that_is_new_enough(
    npm: Path, tmp_path: Path, version: str, brought: int
) -> None:
    program(tmp_path, "node", f'#!/bin/sh\n[ "$1" = --version ] && echo {version} || echo node "$@"\n')
    done = script(tmp_path, "pi")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "calls").read_text().count("node-linux-") == brought
    (tmp_path / "cache").rename(tmp_path / "moved")
    moved = done.stdout.strip().replace("/cache/", "/moved/")
    ran = subprocess.run([moved, "a b"], capture_output=True, text=True, check=True).stdout
    cli = f"{tmp_path}/moved/pi-0.73.1/node_modules/@mariozechner/pi-coding-agent/dist/cli.js"
    assert ran == f"node {cli} a b\n"


def test_one_that_fails_leaves_the_others(npm: Path, tmp_path: Path) -> None:
    done = script(tmp_path, "opencode", "claude")
    assert done.returncode == 1
    assert "opencode: opencode-linux-" in done.stderr
    assert done.stdout.strip().endswith("/claude")


def test_a_failed_install_leaves_nothing_behind(npm: Path, tmp_path: Path) -> None:
    npm.write_text("#!/bin/sh\nexit 7\n")
    done = script(tmp_path, "claude")
    assert (done.returncode, done.stdout) == (1, "")
    assert "failed with exit status 7" in done.stderr
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_unknown_client_is_named(tmp_path: Path) -> None:
    done = script(tmp_path, "klaude")
    assert done.returncode == 2
    assert "no such client: klaude" in done.stderr


def test_missing_material_skips_at_a_desk_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not here"):
        missing("not here")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not here"):
        missing("not here")
