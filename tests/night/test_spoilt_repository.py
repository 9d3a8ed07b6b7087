"""A loop spoils the configuration that all loops share: it is put back, and every loop goes on by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cast import cast
from support.nightbox import NightBox
from support.repositories import git

from ralphd.core import events

pytestmark = pytest.mark.slow

TOML = """\
[night]
width = 2
[agent]
cli = "command"
program = "PROGRAM"
[[task]]
name = "main"
[task.verify]
command = "cat n"
score = 'regex:(\\d+)'
"""
COUNTS = """
cat >/dev/null
n=$(($(cat n) + 1)); echo $n >n; git add n && commit "count to $n"
sleep 0.5
"""
# Once: git fails from then on in every loop, this one's own commit included.
SPOILS = f"""
[ -e "$RALPHD_STATE_OF_TEST/spoilt" ] || {{
    touch "$RALPHD_STATE_OF_TEST/spoilt"
    printf '[core\\n' >>"$(git rev-parse --git-common-dir)/config"
}}
{COUNTS}
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    spoils = SPOILS.replace("$RALPHD_STATE_OF_TEST", str(tmp_path))
    with cast(tmp_path, {"loop-1": spoils, "loop-2": COUNTS}, TOML, {"n": "0\n"}) as box:
        yield box


def foreign(box: NightBox) -> list[str]:
    noted = [entry.body.outcome for entry in box.journal(events.OutcomeNoted)]
    return [outcome.evidence[0].what for outcome in noted if outcome.kind == "git.foreign_change"]


def goes_on(box: NightBox) -> None:
    """Each loop gets two more verdicts on commits of its own."""
    for loop in ("loop-1", "loop-2"):
        box.wait_for(events.VerdictGiven, len(box.journal(events.VerdictGiven, loop)) + 2, loop=loop)


def test_what_one_loop_spoils_for_all_is_put_back_and_all_go_on(box: NightBox, tmp_path: Path) -> None:
    box.start("--for", "1h")
    repository = next((box.state / "nights").glob("*/repositories/main"))
    config = repository / "repo.git" / "config"
    box.wait_until(lambda: any("put back: config" in line for line in foreign(box)), "it is put back")
    assert (tmp_path / "spoilt").exists()
    assert "[core\n" not in config.read_text()
    aside = [path.read_text() for path in (repository / "guarded-aside").iterdir()]
    assert any(text.endswith("[core\n") for text in aside), "what was there is kept"
    goes_on(box)
    good, runners = config.read_bytes(), box.runners()

    os.kill(box.daemon_pid(), signal.SIGKILL)
    box.wait_until(lambda: not box.owned(), "the daemon is dead")
    git(repository, "config", "-f", str(config), "core.worktree", "/nowhere")
    for copy in ("config", "config.worktree"):
        (repository / "guarded" / copy).write_bytes(config.read_bytes())
    box.start()
    box.wait_until(lambda: any("while nobody looked" in line for line in foreign(box)), "the new daemon notices")
    assert config.read_bytes() == good, "the copies were changed, too, and not believed"
    goes_on(box)
    assert box.runners() == runners
