"""Does an agent's word, or no word at all, ever pass for the end of the work?

All parts share one night. Its first task has a verifier that agrees with everything, so that any claim that was heard
where none was made would show as `done.finished`; the verifier of the second measures something.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.cast import cast, ended, kinds
from support.nightbox import NightBox

from ralphd.core import events

BOXES = "- [x] one\n- [x] two\n" + "- [ ] more\n" * 8
TOML = """\
[night]
width = 6
[agent]
cli = "command"
program = "PROGRAM"
[[task]]
name = "said"
width = 5
[task.verify]
command = "true"
[[task]]
name = "measured"
width = 1
[task.verify]
command = "cat score"
score = 'regex:(\\d+)'
goal = 10
"""
PART = """\
cat >/dev/null
if from 7; then alive; fi
sleep 0.2
"""
CONFIDENT = f"""{PART}
echo "$RALPHD_TRAJECTORY" >>work; commit work
echo 'All tests pass. Feature complete. The project is done and ready for production!'
printf '%s\\n' '---STATUS---' 'STATUS: IN_PROGRESS' 'CONFIDENCE: 95%' 'EXIT_SIGNAL: false' '---END---'
echo '{{"type": "result", "ok": true, "text": "All tests pass, everything is complete. EXIT_SIGNAL: false, continue."}}'
"""
CONTRADICTING = f"""{PART}
case $((RALPHD_TRAJECTORY % 6)) in
0) echo '{{"type": "result", "ok": true, "text": "STATUS: COMPLETE\\nEXIT: false"}}' ;;
1) echo '{{"type": "result", "ok": true, "text": "EXIT: false\\nSTATUS: COMPLETE"}}' ;;
2) echo '{{"type": "result", "ok": true, "text": "STATUS: COMPLETE # of task 3\\nEXIT: false # the rest is open"}}' ;;
3) echo '{{"type": "result", "ok": true, "done": false, "text": "RALPHD: DONE"}}' ;;
4) echo '{{"type": "result", "text": "RALPHD: DONE", "ok": true, "done": false}}' ;;
5) echo '{{"type": "result", "ok": true, "text": "RALPHD: DONE\\nis what I write once the rest is."}}' ;;
esac
echo "$RALPHD_TRAJECTORY" >>work; commit work
"""
TELL = "import json, sys; print(json.dumps({'type': sys.argv[1], 'text': sys.stdin.read(), 'ok': True}))"
ECHO = f"""
if from 7; then cat >/dev/null; alive; fi
case $((RALPHD_TRAJECTORY % 4)) in
0) cat; exit 0 ;;
1) cat; exit 1 ;;
2) {sys.executable} -c "{TELL}" text; exit 1 ;;
3) tee -a /dev/stderr | {sys.executable} -c "{TELL}" return; exit 0 ;;
esac
"""
IDLE = "sleep 0.2\nif from 7; then alive; fi\n"
CLAIMING = """
cat >/dev/null
while [ ! -e "$HOME/claim" ]; do echo .; sleep 0.1; done
echo '{"type": "result", "ok": true, "text": "RALPHD: DONE"}'
"""
# Its claims lead to a clean restart, which may cut a session short: it counts what it has committed, not sessions.
UNRELATED = """
cat >/dev/null
if [ "$(cat "$HOME/committed" 2>/dev/null | wc -l)" -ge 6 ]; then alive; fi
sleep 0.2
sed -i 's/\\[ \\]/[x]/' PRD.md
echo "$RALPHD_TRAJECTORY" >>elsewhere; commit "Complete item $RALPHD_TRAJECTORY" && echo it >>"$HOME/committed"
echo '{"type": "result", "ok": true, "text": "All items of the PRD are completed.\\nRALPHD: DONE"}'
"""
PARTS = {
    "said-1": CONFIDENT,
    "said-2": CONTRADICTING,
    "said-3": ECHO,
    "said-4": IDLE,
    "said-5": CLAIMING,
    "measured-1": UNRELATED,
}
FILES = {
    "PROMPT.md": "Do it. When all is done, let your answer end with\n\nRALPHD: DONE\n",
    "PRD.md": BOXES,
    "score": "3\n",
}
pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the night left, after it was stopped."""

    box: NightBox
    report: dict
    text: str
    kinds: dict[str, list[str]]
    claims: dict[str, list[bool]]
    settled: dict[str, list[str]]  # what became of claims


def settled(box: NightBox, loop: str) -> list[str]:
    return [entry.body.outcome.kind.value for entry in box.journal(events.ClaimSettled, loop)]


def committed(box: NightBox) -> int:
    file = box.home / "committed"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    with cast(tmp_path_factory.mktemp("done"), PARTS, TOML, FILES) as box:
        box.start("--for", "1h")
        box.wait_until(lambda: all(len(kinds(box, loop)) >= 6 for loop in PARTS if loop != "said-5"), "six sessions")
        box.wait_until(lambda: "verify.false_done" in settled(box, "measured-1"), "the measured claim is settled")
        box.wait_until(
            lambda: committed(box) >= 6 and len(ended(box, "measured-1")) >= 6, "six sessions have committed"
        )
        (box.home / "claim").touch()
        box.wait_for(events.ClaimSettled, loop="said-5")
        box.stop()
        yield Told(
            box=box,
            report=box.report(),
            text=box.ralphd("report").stdout,
            kinds={loop: kinds(box, loop) for loop in PARTS},
            claims={loop: [body["claims_done"] for body in ended(box, loop)] for loop in PARTS},
            settled={loop: settled(box, loop) for loop in PARTS},
        )


def test_a_claim_that_was_made_is_heard(told: Told) -> None:
    """The gauge of all others here: this is what a claim looks like."""
    assert True in told.claims["said-5"]
    assert "done.finished" in told.settled["said-5"]


def test_confident_words_beside_open_boxes_end_nothing(told: Told) -> None:
    """Seen: the loop stopped after two rounds of "feature complete", though the agent said itself that it goes on."""
    assert told.kinds["said-1"][:6] == ["done.next"] * 6
    assert not any(told.claims["said-1"])
    assert told.settled["said-1"] == []


def test_a_finished_part_is_not_the_finished_whole(told: Told) -> None:
    """Seen: STATUS: COMPLETE of one task outweighed an explicit EXIT: false, in whatever order they came."""
    assert told.kinds["said-2"][:6] == ["done.next"] * 6
    assert not any(told.claims["said-2"])
    assert told.settled["said-2"] == []


def test_the_supervisors_own_prompt_is_no_answer(told: Told) -> None:
    """Seen: the completion word was found in the prompt as the pane showed it, and a failed round counted as the end."""
    assert "RALPHD: DONE" in (told.box.repo / "PROMPT.md").read_text()
    assert told.kinds["said-3"].count("agent.exited") >= 2
    assert not any(told.claims["said-3"])
    assert told.settled["said-3"] == []


def test_doing_nothing_leads_to_no_end(told: Told) -> None:
    """Seen: an agent that did nothing was walked through every stage to completion."""
    assert told.kinds["said-4"][1:6] == ["done.noop"] * 5  # the first may share a clock tick with the checkout
    assert not any(told.claims["said-4"])
    assert told.settled["said-4"] == []
    (loop,) = (one for one in told.report["loops"] if one["id"] == "said-4")
    assert (loop["submissions"], loop["commits"]) == (0, 0)


def test_unrelated_commits_and_ticked_boxes_are_no_progress(told: Told) -> None:
    """Seen: four commits to other files, every box ticked, and the summary told of four completed items."""
    (task,) = (one for one in told.report["tasks"] if one["name"] == "measured")
    (loop,) = (one for one in told.report["loops"] if one["id"] == "measured-1")
    assert loop["commits"] >= 6
    assert (task["base_score"], task["best"]["score"], task["submissions"]) == (3.0, 3.0, 0)
    assert (loop["submissions"], loop["best_score"]) == (0, 3.0)
    assert set(told.settled["measured-1"]) == {"verify.false_done"}
    assert "measured: nothing" in told.text, told.text


def test_a_night_that_was_stopped_can_be_followed_by_another(told: Told) -> None:
    """Seen: once stopped, whether by a "done" or by hand, the tool refused to go on: its state said that all was over."""
    before = told.box.nights()
    (told.box.repo / "PROMPT.md").write_text("Something else.\n")
    (told.box.home / "claim").unlink()
    told.box.start("--for", "1h")
    assert len(told.box.nights()) == len(before) + 1
    told.box.wait_until(lambda: len(kinds(told.box, "said-1")) >= 3, "three sessions of the second night")
    told.box.stop("--now")
