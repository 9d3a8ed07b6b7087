"""PROMPT.md is edited, replaced, spoilt and removed while loops run: each session reads exactly what lies there, or none begins."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cast import bodies, cast
from support.nightbox import NightBox

from ralphd.core import records

TOML = """\
[night]
width = 1
[agent]
cli = "command"
program = "PROGRAM"
"""
# Keeps what it was given, and ends when the test says so. It edits what it finds beside it: no session reads that.
PART = """
cat >"$HOME/given.new"; mv "$HOME/given.new" "$HOME/given-$RALPHD_TRAJECTORY"
echo "not the question" >PROMPT.md; git commit -qam "session $RALPHD_TRAJECTORY"
[ -e "$HOME/edit" ] && { echo "edited by an agent" >"$(cat "$HOME/edit")"; rm "$HOME/edit"; }
until [ -e "$HOME/end-$RALPHD_TRAJECTORY" ]; do echo .; sleep 0.1; done
"""
SECRET = "-----BEGIN OPENSSH PRIVATE KEY----- of the person"
ODD = {
    "every byte": bytes(range(256)) * 3 + b"\r\n\n",
    "no end of line": b"Go on",
    "half a letter": "Weiter: ü".encode()[:-1],
    "300 kB": b"a line of a long question\n" * 12_000,
}


def link(prompt: Path, home: Path) -> None:
    (home / "id_rsa").write_text(SECRET)
    prompt.symlink_to(home / "id_rsa")


def flood(prompt: Path, home: Path) -> None:
    with prompt.open("wb") as file:
        file.truncate(100 << 20)


SPOILT: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "a link to a private file": (link, "is a symbolic link"),
    "gone": (lambda prompt, home: None, "is gone"),
    "100 MiB": (flood, "is larger than"),
    "a pipe": (lambda prompt, home: os.mkfifo(prompt), "is not a regular file"),
}
pytestmark = pytest.mark.slow


@pytest.fixture
def box(tmp_path: Path) -> Iterator[NightBox]:
    with cast(tmp_path, {"loop-1": PART}, TOML, {}) as box:
        yield box


def given(box: NightBox, session: int) -> bytes:
    """What a session was given, once it has read it."""
    path = box.home / f"given-{session}"
    box.wait_until(path.exists, f"session {session} has read its prompt")
    return path.read_bytes()


def must_be(box: NightBox, session: int, text: bytes) -> None:
    assert given(box, session).endswith(b"\n\n" + text)
    started = bodies(box, "loop-1", "TrajectoryStarted")[session - 1]
    assert (started["prompt_bytes"], started["prompt_sha256"]) == (len(text), hashlib.sha256(text).hexdigest())


def end(box: NightBox, session: int) -> None:
    (box.home / f"end-{session}").touch()


def test_each_session_reads_what_lies_there_or_none_begins(box: NightBox) -> None:
    prompt, session = box.repo / "PROMPT.md", 1
    box.start("--for", "1h")
    must_be(box, session, b"Go on.\n")
    for text in ODD.values():
        prompt.write_bytes(text)
        end(box, session)
        session += 1
        must_be(box, session, text)
    (box.home / "edit.new").write_text(str(prompt))
    (box.home / "edit.new").rename(box.home / "edit")
    end(box, session)
    session += 2  # the next one makes the edit
    given(box, session - 1)
    box.wait_until(lambda: not (box.home / "edit").exists(), "an agent has edited the person's file")
    end(box, session - 1)
    must_be(box, session, b"edited by an agent\n")
    for spoil, words in SPOILT.values():
        prompt.unlink()
        spoil(prompt, box.home)
        end(box, session)
        box.wait_until(lambda words=words: words in box.rows()["loop-1"]["note"], f"status says: {words}")
        assert box.loops()["loop-1"]["state"] == "paused"
        assert not (box.home / f"given-{session + 1}").exists()
        prompt.with_name("new").write_text(f"after it {words}\n")
        prompt.with_name("new").rename(prompt)
        session += 1
        must_be(box, session, f"after it {words}\n".encode())
    box.stop("--now")
    assert len(box.journal(records.Held)) == len(SPOILT)
    outcomes = box.outcomes("loop-1")
    assert set(outcomes) <= {"done.next", "done.stopped"}
    assert not any(SECRET.encode() in path.read_bytes() for path in box.home.glob("given-*"))
    for file in (box.folder("loop-1") / "prompts").glob("*"):
        assert SECRET.encode() not in file.read_bytes()
