"""A note that must not wait reaches the session that runs, or that session taken up again, or the next one's prompt."""

from __future__ import annotations

import json

import pytest
from support.paneloop import PaneLoop, until

from ralphd.core.exchange import note_name
from ralphd.core.outcomes import Kind
from ralphd.pane.inbox import Inbox

# It speaks Claude's stream: reads lines, works until $ROOT/finish is there, then gives its result and awaits stdin's end.
TALKER = r"""#!/usr/bin/env python3
import json, os, select, sys, time
root = os.environ["ROOT"]
n = len([name for name in os.listdir(root) if name.startswith("heard.")])
heard = open(f"{root}/heard.{n}", "ab", buffering=0)
open(f"{root}/argv.{n}", "w").write(" ".join(sys.argv))
def say(**event):
    print(json.dumps(event), flush=True)
def take():
    if select.select([0], [], [], 0.05)[0]:
        data = os.read(0, 1 << 16)
        heard.write(data)
        return bool(data)
    return True
while not heard.tell():
    take()
say(type="system", subtype="init", session_id="11111111-1111-4111-8111-111111111111", model="m", claude_code_version="2")
say(type="assistant", message={"id": "a", "model": "m", "content": [{"type": "text", "text": "At work."}]})
DEAF
while not os.path.exists(f"{root}/finish"):
    take()
open("file.txt", "a").write("more\n")
say(type="result", subtype="success", is_error=False, terminal_reason="completed", result="Done so far.")
while LISTENS and take():
    pass
while os.path.exists(f"{root}/finish"):
    time.sleep(0.05)
"""


def talker(*, listens: bool = True) -> str:
    deaf = "" if listens else "os.close(0); take = lambda: time.sleep(0.05)"
    return TALKER.replace("DEAF", deaf).replace("LISTENS", str(listens))


@pytest.fixture
def make(tmp_path):
    made = []

    def build(agent: str, **more) -> PaneLoop:
        made.append(PaneLoop(tmp_path, agent, **{"cli": "claude", **more}))
        return made[-1]

    yield build
    for loop in made:
        loop.clean_up()


def leave(loop: PaneLoop, number: int, text: str, *, now: bool) -> str:
    name = note_name(number, "repair-operator", now=now)
    (loop.folder / "notes" / name).write_text(text)
    loop.ring()
    return name


def heard(loop: PaneLoop, session: int) -> list[str]:
    lines = (loop.root / f"heard.{session}").read_bytes().splitlines()
    return [json.loads(line)["message"]["content"][0]["text"] for line in lines]


def began(loop: PaneLoop, session: int) -> bool:
    path = loop.root / f"heard.{session}"
    return path.exists() and path.read_bytes().endswith(b"\n")


def test_a_running_session_is_told_and_still_ends_with_its_result(make):
    loop = make(talker())
    loop.start()
    until(lambda: began(loop, 0))
    name = leave(loop, 7, "Look at tail(), not at head().", now=True)
    assert loop.wait_for("NotesGiven")[0] == {"names": [name], "how": "live"}
    until(lambda: len(heard(loop, 0)) == 2)
    assert heard(loop, 0)[1] == "Look at tail(), not at head()."
    (loop.root / "finish").touch()
    until(lambda: "Done so far." in loop.text())
    (loop.root / "finish").unlink()
    ended = loop.wait_for("TrajectoryEnded")[0]  # it waits for the end of its stdin, which comes with its result
    assert (ended["outcome"]["kind"], ended["attempts"]) == ("done.next", 1)
    assert (loop.folder / "notes" / "used" / name).exists()
    until(lambda: began(loop, 1))
    assert "Look at tail()" not in heard(loop, 1)[0]


def test_every_note_is_told_to_a_session_that_listens(make):
    loop = make(talker())
    loop.start()
    until(lambda: began(loop, 0))
    name = leave(loop, 7, "About the session before.", now=False)
    assert loop.wait_for("NotesGiven")[0] == {"names": [name], "how": "live"}
    until(lambda: heard(loop, 0)[1:] == ["About the session before."])


def test_a_note_that_was_told_and_never_read_is_in_the_next_prompt(make):
    """The session is cut before it asks the model again."""
    loop = make(talker())
    loop.start()
    until(lambda: began(loop, 0))
    name = leave(loop, 7, "Look at tail().", now=True)
    loop.wait_for("NotesGiven")
    loop.order("paused", now=True)
    loop.wait_for("TrajectoryEnded")
    until((loop.folder / "notes" / name).exists)
    loop.order("running")
    until(lambda: began(loop, 1))
    assert "Look at tail()." in heard(loop, 1)[0]


def test_a_note_that_can_wait_interrupts_nobody(make):
    loop = make(talker(listens=False))
    loop.start()
    until(lambda: "At work." in loop.text())
    name = leave(loop, 7, "For later.", now=False)
    (loop.root / "finish").touch()
    until(lambda: "Done so far." in loop.text())
    (loop.root / "finish").unlink()
    until(lambda: began(loop, 1))
    assert len(heard(loop, 0)) == 1
    assert not loop.bodies("AttemptEnded")
    assert heard(loop, 1)[0].endswith(f"--- A note for this session ({name}) ---\nFor later.\n")
    assert loop.wait_for("NotesGiven")[0] == {"names": [name], "how": "prompt"}


def test_a_session_that_takes_no_input_is_taken_up_again_with_the_note(make):
    """Its stdin is closed by itself: the attempt ends softly, the trajectory goes on."""
    loop = make(talker(listens=False))
    loop.start()
    until(lambda: "At work." in loop.text())
    leave(loop, 7, "Look at tail().", now=True)
    until(lambda: began(loop, 1))
    assert loop.wait_for("AttemptEnded")[0]["outcome"]["kind"] == "done.stopped"
    assert loop.wait_for("NotesGiven")[0]["how"] == "resume"
    assert "--resume 11111111-1111-4111-8111-111111111111" in (loop.root / "argv.1").read_text()
    assert heard(loop, 1)[0].startswith("This session was interrupted for a moment.")
    assert heard(loop, 1)[0].endswith("Look at tail().\n")
    assert not loop.bodies("TrajectoryEnded")


def test_a_program_without_sessions_reads_the_note_in_its_next_prompt(make):
    loop = make(
        "#!/bin/sh\ncat >$ROOT/got.$RALPHD_TRAJECTORY\nuntil [ -e $ROOT/finish ]; do sleep 0.05; done\n", cli="command"
    )
    loop.start()
    until(lambda: (loop.root / "got.1").exists() and (loop.root / "got.1").read_bytes())
    leave(loop, 7, "Look at tail().", now=True)
    (loop.root / "finish").touch()
    until(lambda: (loop.root / "got.2").exists() and b"Look at tail()." in (loop.root / "got.2").read_bytes())
    assert [body["how"] for body in loop.bodies("NotesGiven")] == ["prompt"]


REFUSED = r"""#!/usr/bin/env python3
import json
def say(**event):
    print(json.dumps(event), flush=True)
say(type="system", subtype="init", session_id="11111111-1111-4111-8111-111111111111", model="m", claude_code_version="2")
why = "Failed to authenticate. API Error: 401 invalid x-api-key"
say(type="assistant", message={"id": "a", "model": "<synthetic>", "content": [{"type": "text", "text": why}]},
    error="authentication_failed")
say(type="result", subtype="success", is_error=True, api_error_status=401, result=why)
raise SystemExit(1)
"""


@pytest.mark.parametrize(
    ("first", "cli", "kind"),
    [("", "command", Kind.START_FAILED), (REFUSED, "claude", Kind.AUTH)],
    ids=["not started", "refused by inference"],
)
def test_a_note_that_no_model_has_read_is_in_the_prompt_after_the_person_mended_that(make, first, cli, kind):
    loop = make(first or "gone", cli=cli)
    if not first:
        loop.agent.unlink()
    name = note_name(7, "repair-operator", now=False)
    (loop.folder / "notes" / name).write_text("Look at tail().")
    loop.start()
    loop.wait_for("Held")
    assert loop.outcomes() == [kind]
    assert (loop.folder / "notes" / name).exists()
    loop.write_agent("#!/bin/sh\ncat >$ROOT/got.$RALPHD_TRAJECTORY\nuntil [ -e $ROOT/finish ]; do sleep 0.05; done\n")
    loop.order("running", retry=True)
    until(lambda: (loop.root / "got.2").exists() and b"Look at tail()." in (loop.root / "got.2").read_bytes())
    assert (loop.folder / "notes" / "used" / name).exists()


def test_a_prompt_of_megabytes_reaches_an_agent_that_is_told_things(make):
    """It is longer than a pipe: what can't be held at once is given as a file."""
    loop = make(talker())
    loop.prompt.write_text("x" * (3 << 20) + "the end")
    loop.start()
    until(lambda: began(loop, 0))
    assert heard(loop, 0)[0].endswith("the end")


def test_an_agent_that_never_reads_its_stdin_costs_nothing(make):
    loop = make(
        '#!/bin/sh\necho \'{"type":"result","subtype":"success","is_error":false,"result":"so"}\'\ndate >>file.txt\n'
    )
    loop.start()
    assert {body["outcome"]["kind"] for body in loop.wait_for("TrajectoryEnded", 3)} == {"done.next"}


def test_a_note_that_was_taken_back_while_it_was_read_keeps_none_of_the_others(tmp_path):
    (tmp_path / "notes").mkdir()
    for name in ("1-a.md", "2-b.md"):
        (tmp_path / "notes" / name).write_text("words")
    inbox = Inbox(str(tmp_path))
    notes = inbox.notes()
    (tmp_path / "notes" / "1-a.md").unlink()
    inbox.use(notes)
    assert inbox.trouble == ""
    assert [path.name for path in (tmp_path / "notes").rglob("*.md")] == ["2-b.md"]
    assert inbox.notes() == ()
