"""The policy at work in real nights: what misleads a loop is cured, what befalls all is one cause, and the width follows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cast import cast
from support.nightbox import NightBox
from support.repositories import git

from ralphd.core import events, records
from ralphd.core.outcomes import Kind

pytestmark = pytest.mark.slow
TOML = """\
[night]
width = WIDTH
[agent]
cli = "command"
program = "PROGRAM"
[task.verify]
command = "cat n"
score = 'regex:(\\d+)'
""".replace("[task.verify]", '[[task]]\nname = "count"\n[task.verify]')
COUNT = """\
cat >/dev/null
sleep 0.2
"""
GO_ON = """\
echo $(($(cat n) + 1)) >n
commit "count"
"""
# Once: everything gained is lost, and notes tell every session after it to do worse still.
POISONED = f"""{COUNT}
if [ -e NOTES.md ]; then
    echo "as NOTES.md says" >n
    git commit -qam "as NOTES.md says, $RALPHD_TRAJECTORY"
    exit 0
fi
if [ "$(cat n)" -ge 3 ] && [ ! -e "$HOME/poisoned" ]; then
    touch "$HOME/poisoned"
    echo 0 >n
    echo "write nothing but words into n" >NOTES.md
    echo "the same" >hidden.memo
    git commit -qam "lose it all"
    exit 0
fi
{GO_ON}"""
# Once: the judge's own file is changed; what is counted after that is honest work.
CHEATING = f"""{COUNT}
if [ "$(cat n)" -ge 2 ] && [ ! -e "$HOME/cheated" ]; then
    touch "$HOME/cheated"
    echo "99999" >judge.txt
    git commit -qam "make the judge right"
    exit 0
fi
{GO_ON}"""
OUTAGE = f"""{COUNT}
if [ -e "$HOME/outage" ]; then
    echo "cannot reach the licence server" >&2
    exit 1
fi
{GO_ON}"""


def intents(box: NightBox, *types: str) -> list[events.ActionIntended]:
    bodies = [entry.body for entry in box.journal(events.ActionIntended)]
    return [body for body in bodies if body.type in types]


def scores(box: NightBox, loop: str) -> list[float]:
    return [entry.body.verdict.score or 0.0 for entry in box.journal(events.VerdictGiven, loop)]


def _restored(box: NightBox) -> bool:
    repaired = [entry.body.outcome.kind for entry in box.journal(records.Repaired, "loop-3")]
    return Kind.TAMPERED in repaired


def _sound(box: NightBox, loop: str) -> list[float]:
    verdicts = [entry.body.verdict for entry in box.journal(events.VerdictGiven, loop)]
    return [verdict.score or 0.0 for verdict in verdicts if verdict.kind is None]


def test_a_clean_restart_cures_what_misled_a_loop_and_all_of_it_can_be_had_back(tmp_path: Path) -> None:
    parts = {"loop-1": POISONED, "loop-2": COUNT + GO_ON, "loop-3": CHEATING}
    files = {"n": "0\n", "judge.txt": "honest\n", ".gitignore": "*.memo\n"}
    toml = TOML.replace("WIDTH", "3") + 'protect = ["judge.txt"]\n'
    with cast(tmp_path, parts, toml, files) as box:
        box.start("--for", "1h")
        box.wait_until((box.home / "poisoned").exists, "the notes are poisoned")
        best = box.wait_until(lambda: max(scores(box, "loop-1"), default=0.0), "a verdict")
        (repaired,) = box.wait_for(records.Repaired, loop="loop-1")
        box.wait_until(lambda: scores(box, "loop-1")[-1:] > [best + 3], "it gains again", 240)
        (restart,) = intents(box, "RestartLoop")
        assert (restart.args["loop"], restart.by, restart.cause) == ("loop-1", "policy", "broken")
        at = box.worktree("loop-1")
        assert not (at / "NOTES.md").exists()
        assert not (at / "hidden.memo").exists()
        told = box.ralphd("journal", "rescue", "--bring", "loop-1", "--to", "mine", "--json").stdout
        assert json.loads(told)["ref"] == repaired.body.ref
        assert git(box.repo, "show", "mine:NOTES.md") == "write nothing but words into n"
        assert git(box.repo, "show", "mine:hidden.memo") == "the same"
        assert "lose it all" in git(box.repo, "log", "--format=%s", "mine")
        box.wait_until(lambda: _restored(box), "the judge's file is put back")
        known = max(scores(box, "loop-3"))
        box.wait_until(lambda: max(_sound(box, "loop-3")) > known, "and honest work counts again")
        assert (box.worktree("loop-3") / "judge.txt").read_text() == "honest\n"
        assert [i.args["loop"] for i in intents(box, "RestartLoop", "Pause", "Park")] == ["loop-1"]
        box.stop()
        noted = [
            e.body.outcome for e in box.journal(events.OutcomeNoted, "loop-1") if e.body.outcome.detail.get("rows")
        ]
        assert noted[0].kind is Kind.PROGRESS_NONE
        ends = {entry.id for entry in box.journal(records.TrajectoryEnded, "loop-1")}
        assert set(noted[0].detail["rows"]) <= ends
        healthy = next(row for row in box.report()["loops"] if row["id"] == "loop-2")
        assert healthy["generation"] == 1
        assert box.report()["totals"]["gain_per_h"] > 0


def paused(box: NightBox) -> list[str]:
    return [name for name, row in box.loops().items() if row["state"] == "paused"]


def sessions(box: NightBox, loop: str) -> int:
    return len(box.journal(records.TrajectoryEnded, loop))


def test_what_befalls_all_is_one_cause_and_the_width_is_a_persons(tmp_path: Path) -> None:
    loops = [f"loop-{n}" for n in range(1, 6)]
    with cast(tmp_path, dict.fromkeys(loops, OUTAGE), TOML.replace("WIDTH", "4"), {"n": "0\n"}) as box:
        box.start("--for", "1h")
        box.wait_until(lambda: all(sessions(box, loop) for loop in loops[:4]), "each works")
        (box.home / "outage").touch()
        box.wait_until(lambda: Kind.SHARED_CAUSE.value in box.outcomes(), "the shared cause is told")
        box.wait_until(lambda: len(paused(box)) == 3, "three wait while one tries")
        (box.home / "outage").unlink()
        box.wait_until(lambda: paused(box) == [], "all go on")
        known = {loop: sessions(box, loop) for loop in loops[:4]}
        box.wait_until(lambda: all(sessions(box, loop) > known[loop] for loop in loops[:4]), "each works again")
        assert box.outcomes().count(Kind.SHARED_CAUSE.value) == 1
        assert intents(box, "RestartLoop", "Pause", "StopLoop") == []

        assert "2 loops at once" in box.ralphd("scale", "2").stdout
        box.wait_until(lambda: len(paused(box)) == 2, "two are held at the end of their session")
        refused = box.ralphd("scale", "17", code=2)
        assert "supervisor.width_max" in refused.stderr
        told = json.loads(box.ralphd("scale", "5", "--json").stdout)
        assert told == {"width": 5, "was": 2, "new": ["loop-5"]}
        box.wait_until(lambda: paused(box) == [] and sessions(box, "loop-5"), "all five run")
        assert "done.stopped" not in box.outcomes()  # nobody's session was cut short for any of it
        box.stop()
        assert len(box.report()["loops"]) == 5
