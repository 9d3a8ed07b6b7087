"""Whatever the repository, the state folder, the home or the person is called: a night runs in it, and no name is a command."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nightbox import NightBox, night_box
from support.repositories import commit, git, repository

from ralphd.core import records

LONG = "n" * 240
NAMES = {
    "spaces": "a night  of two",
    "newline": "new\nline",
    "quotes": "quo\"te's",
    "emoji": "🦊 日本",
    "format": "#(touch ran) #{pane_id} %H",
    "substitution": "$(touch ran) `touch ran` $HOME ${HOME}; touch ran &",
    "dash": "-rf",
    "dots": ".a.b..",
    "colon": "co:lon",
    "backslash": "back\\slash",
    "braces": "{b}[c]*?~!",
    "rtl": "\u202eevil\u202c",
    "long": LONG,
}
ALL = "-a 'b\" $(touch ran) #(touch ran)\n🦊.:\\"
# Commits once and says so; `git` speaks with the name that the person's configuration gives.
AGENT = """#!/bin/sh
cat >/dev/null
echo done >"for $RALPHD_LOOP"
git add -A && git commit -qm "Work of $RALPHD_LOOP"
echo '{"type":"result","text":"Made."}'
sleep 0.3
"""
CONFIG = """[night]
width = 1
[agent]
cli = "command"
program = "./agent"
[[task]]
name = "odd"
[task.verify]
command = 'test -e "for loop-1"'
"""


@pytest.fixture(
    params=[ALL, *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES.values())], ids=["all", *NAMES]
)
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NightBox]:
    """A box in which all has the odd name: home, repository, the person, and the state (short enough for a socket)."""
    root = Path(tempfile.mkdtemp(prefix="odd-")) / request.param
    root.mkdir()
    repo = repository(root / request.param)
    (repo / "PROMPT.md").write_text("Go on.\n")
    (repo / "agent").write_text(AGENT)
    (repo / "agent").chmod(0o755)
    (repo / "ralphd.toml").write_text(CONFIG)
    commit(repo, "Ask")
    with night_box(root, repo) as box:
        box.state = box.state.parent / request.param
        box.env["RALPHD_STATE"] = str(box.state)
        box.env["TMPDIR"] = str(tmp_path)
        name = request.param.replace("\n", " ").strip(".")
        git(root, "config", "-f", str(box.home / ".gitconfig"), "user.name", name)
        yield box


def test_a_night_under_an_odd_name(box: NightBox, tmp_path: Path) -> None:
    before = box.user_files()
    box.start("--for", "10m")
    box.wait_for(records.TrajectoryEnded, loop="loop-1")
    assert box.loops()["loop-1"]["worktree"] == str(box.worktree("loop-1"))
    box.stop()
    assert box.report()["loops"][0]["best_score"] == 1.0
    (ref,) = git(box.repo, "for-each-ref", "--format=%(refname)", f"refs/ralphd/{box.nights()[0]}/loop-1").splitlines()
    assert git(box.repo, "log", "-1", "--format=%s", ref) == "Work of loop-1"
    assert box.user_files() == before
    assert ran(box, tmp_path) == []


def ran(box: NightBox, tmp_path: Path) -> list[str]:
    """Every file that a name taken for a command would have made, wherever it ran."""
    places = (box.root.parent, box.state.parent, tmp_path, Path("/tmp"), Path("/"), Path.home())
    return [str(at / "ran") for at in places if os.path.lexists(at / "ran")] + [
        os.path.join(folder, "ran") for top in places[:3] for folder, _, names in os.walk(top) if "ran" in names
    ]
