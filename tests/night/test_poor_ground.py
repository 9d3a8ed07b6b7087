"""A night where something that most machines have is missing: it works, or is refused in one line that says why."""

from __future__ import annotations

import contextlib
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cast import cast, kinds
from support.mounts import tmpfs
from support.nightbox import NightBox

TOML = """\
[night]
width = 1
[agent]
cli = "command"
program = "PROGRAM"
env = { GIT_AUTHOR_NAME = "a", GIT_AUTHOR_EMAIL = "a@b", GIT_COMMITTER_NAME = "a", GIT_COMMITTER_EMAIL = "a@b" }
[[task]]
name = "loop"
[task.verify]
command = "cat score"
score = 'regex:(\\d+)'
"""
COUNTS = """
cat >/dev/null
from 3 && alive
echo "{\\"type\\": \\"text\\", \\"text\\": \\"caf\\303\\251 \\360\\237\\246\\212\\"}"
echo "$RALPHD_TRAJECTORY" >score; echo 'é' >'é.txt'; commit 'Zähle weiter 🦊'
echo '{"type": "result", "ok": true, "text": "é"}'
"""
pytestmark = pytest.mark.slow


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    with cast(tmp_path, {"loop-1": COUNTS, "loop": COUNTS}, TOML, {"score": "0\n"}) as box:
        yield box


def start(box: NightBox, before: str = ":") -> subprocess.CompletedProcess[str]:
    """Start as a person whose shell has done that first; what runs from then on inherits it."""
    command = ["sh", "-c", f'{before}; exec "$@"', "sh", sys.executable, "-P", "-m", "ralphd", "start"]
    return subprocess.run(
        command, cwd=box.repo, env=box.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def works(box: NightBox, before: str = ":") -> None:
    """Two sessions, both verified, are told by status and report; stop leaves nothing (the box sees to that)."""
    done = start(box, before)
    assert done.returncode == 0, done.stderr + box.log()
    assert "Traceback" not in done.stderr
    (loop,) = box.loops()
    box.wait_until(lambda: kinds(box, loop)[:2] == ["done.next"] * 2, "two sessions have ended")
    box.wait_until(lambda: box.rows()[loop]["best_score"] == 2, "both are verified")
    assert box.ralphd("status").stdout
    assert "Traceback" not in box.log()
    box.stop("--now")
    assert box.report()["tasks"][0]["best"]["score"] == 2
    assert box.ralphd("report").stdout


POOR = (  # a locale that knows no letters, and a runtime folder of no use
    {"LANG": "C", "XDG_RUNTIME_DIR": ""},
    {"LC_ALL": "POSIX", "XDG_RUNTIME_DIR": "/nowhere/at/all"},
    {"LANG": "xx_YY.bogus", "XDG_RUNTIME_DIR": "relative"},
)


@pytest.mark.parametrize("environ", POOR, ids=str)
def test_any_locale_and_no_runtime_folder_will_do(box: NightBox, environ: dict[str, str]) -> None:
    del box.env["LANG"]
    box.env.update(environ)
    works(box)


def test_without_a_home(box: NightBox) -> None:
    del box.env["HOME"]
    works(box)


def test_with_a_home_that_takes_nothing(box: NightBox) -> None:
    with tmpfs(box.home):
        subprocess.run(["mount", "-o", "remount,ro", str(box.home)], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (box.home / "x").touch()
        works(box)


def test_with_64_descriptors_and_a_umask_that_lets_nobody_in(box: NightBox) -> None:
    works(box, "umask 077; ulimit -n 64")
    assert stat.S_IMODE(box.state.stat().st_mode) == 0o700


def test_without_a_home_or_a_state_folder_the_way_out_is_said(box: NightBox) -> None:
    state = {name: box.env.pop(name) for name in ("HOME", "RALPHD_STATE")}
    with contextlib.ExitStack() as over:
        over.callback(box.env.update, state)
        done = start(box)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "RALPHD_STATE" in done.stderr
