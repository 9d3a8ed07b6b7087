"""scripts/real-clients installs once and says where; a test without its client is seen to be missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support import real_claude
from support.needs import missing

NPM = """#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
echo called >> "$CALLS"
mkdir -p "$2/node_modules/@anthropic-ai/claude-code-linux-x64" "$2/node_modules/@anthropic-ai/claude-code-linux-arm64"
for arch in x64 arm64; do
    program="$2/node_modules/@anthropic-ai/claude-code-linux-$arch/claude"
    : > "$program"
    chmod +x "$program"
done
"""


def script(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "RALPHD_REAL_CLIENTS": str(tmp_path / "cache"),
        "CALLS": str(tmp_path / "calls"),
    }
    return subprocess.run([real_claude.INSTALLER, *arguments], env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def npm(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "npm"
    program.write_text(NPM)
    program.chmod(0o755)
    return program


def test_where_installs_nothing(npm: Path, tmp_path: Path) -> None:
    done = script(tmp_path, "--where", "claude")
    assert (done.returncode, done.stdout) == (1, "")
    assert "run scripts/real-clients" in done.stderr
    assert not (tmp_path / "cache").exists()


def test_a_client_is_installed_once_and_whole(npm: Path, tmp_path: Path) -> None:
    first, second = script(tmp_path), script(tmp_path, "claude")
    assert (first.returncode, first.stdout) == (0, second.stdout), first.stderr
    assert os.access(first.stdout.strip(), os.X_OK)
    assert (tmp_path / "calls").read_text() == "called\n"
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == ["claude-2.1.332"]


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
