"""Does a night mind in which alphabet people write, or that their terminal has none?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cast import cast, kinds
from support.nightbox import NightBox
from support.repositories import git

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
TOML = """\
[night]
width = 1
[agent]
cli = "command"
program = "PROGRAM"
[[task]]
base = "機能-👩\u200d👩\u200d👧\u200d👦"
[task.verify]
command = "cat 数; echo 數え上げた >&2"
score = 'regex:(\\d+)'
"""
WORKS = """
cat >"$HOME/got-$RALPHD_TRAJECTORY"
if from 3; then alive; fi
echo "$RALPHD_TRAJECTORY" >数; git add -A; git commit -qm "数えた 👩\u200d👩\u200d👧\u200d👦 $RALPHD_TRAJECTORY"
echo '{"type": "text", "text": "ANSWER"}'
echo '{"type": "call", "id": "1", "tool": "shell", "command": "echo 猫 👩\u200d👩\u200d👧\u200d👦"}'
echo 'plain 猫 👩\u200d👩\u200d👧\u200d👦' >&2
if from 2; then "$RALPHD_GUARD" 'echo 猫; sleep 60' >"$HOME/call" 2>&1; exit 3; fi
echo '{"type": "result", "ok": true, "text": "終わり"}'
""".replace("ANSWER", "x" * 59 + "猫" * 300)
PROMPT = "x" * 59 + "猫が好き" * 500 + FAMILY + "\n"
# No letters but those of ASCII, in the locale and for Python; and no way for Python to mend that by itself.
BARE = {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NightBox]:
    root = tmp_path_factory.mktemp("letters")
    parts = {"loop-1": WORKS}
    toml = TOML + "[limits]\ntool_seconds = 1\n"
    with cast(root, parts, toml, {"PROMPT.md": PROMPT, "数": "0\n"}, repo=f"猫-{FAMILY}", environ=BARE) as box:
        git(box.repo, "branch", f"機能-{FAMILY}")
        box.start("--for", "1h")
        box.wait_until(lambda: len(kinds(box, "loop-1")) >= 2, "two sessions")
        box.wait_until(lambda: box.rows()["loop-1"]["best_score"] == 2, "the second is judged")
        yield box


def test_a_prompt_in_any_script_reaches_the_agent_whole(box: NightBox) -> None:
    """Seen: a preview cut at byte 100, within a letter, ended the run at its start."""
    assert (box.home / "got-1").read_text().endswith(PROMPT)
    assert kinds(box, "loop-1")[:2] == ["done.next", "agent.exited"]


def test_a_killed_call_says_so_around_any_letters(box: NightBox) -> None:
    said = (box.home / "call").read_text()
    assert said.startswith("猫\n")
    assert "Command: echo 猫; sleep 60" in said


def test_the_pane_shows_the_letters(box: NightBox) -> None:
    """A person's terminal may have letters that the daemon's environment lacked."""
    text = box.pane_text("loop-1")
    assert "x" * 59 + "猫猫" in text
    assert "\ufffd" not in text


@pytest.mark.parametrize(
    "verb",
    ["status", "status --json", "attach", "logs loop-1", "logs loop-1 --raw", "journal", "journal --json",
     "journal outcomes --json", "report", "report --markdown", "report --json", "doctor"],
)  # fmt: skip
def test_every_verb_speaks_to_a_terminal_without_letters(box: NightBox, verb: str) -> None:
    """Seen: one letter that the terminal lacked ended the report of the whole night."""
    done = box.ralphd(*verb.split(), code=None)
    assert done.returncode in ({0, 1} if verb == "doctor" else {0}), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout


def test_the_report_names_the_work(box: NightBox) -> None:
    report = box.report()
    commit = report["loops"][0]["best_commit"]
    box.stop()
    assert git(box.repo, "log", "-1", "--format=%s", commit) == f"数えた {FAMILY} 2"
    assert json.loads(box.ralphd("report", "--json").stdout)["tasks"][0]["best"]["score"] == 2
    assert Path(box.state / "nights" / box.nights()[-1] / "report.md").read_text()
