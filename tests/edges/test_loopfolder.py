"""The folder that the daemon and a runner share: whole files in, genuine records out, whatever an agent does there."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ralphd.core import records
from ralphd.core.exchange import Assignment, Order, Want
from ralphd.core.model import Loop
from ralphd.edges.loopfolder import LINE_MAX_BYTES, LoopFolders
from ralphd.edges.processes import boot_id, identity

NIGHT = "2026-11-30-a"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "loop"


@pytest.fixture
def folders() -> LoopFolders:
    return LoopFolders(boot_id())


def loop(folder: Path) -> Loop:
    return Loop(id="l1", task="main", pod="pod-1", branch="b", worktree="/w", folder=str(folder), nonce="n")


def assignment(folder: Path) -> Assignment:
    return Assignment(
        night=NIGHT, loop="l1", generation=1, task="main", cli="command", program="/bin/true", folder=str(folder),
        worktree="/w", night_repository="/n", branch="b", base="0" * 40, prompt="/p", preamble=str(folder / "preamble.md"),
        nonce="n", env={"KEY": "sekret"},
    )  # fmt: skip


def line(seq: int, **more: object) -> bytes:
    body = {"pid": 1, "start_ticks": 1, "attempt": 1, "session": ""}
    record = {
        "seq": seq,
        "at": 1.0,
        "generation": 1,
        "trajectory": 1,
        "nonce": "n",
        "type": "AgentStarted",
        "body": body,
    }
    return json.dumps(record | more).encode() + b"\n"


def append(folder: Path, data: bytes) -> None:
    with (folder / "records.jsonl").open("ab") as file:
        file.write(data)


def seqs(folders: LoopFolders, folder: Path, after: int = 0) -> list[int]:
    return [entry.seq for entry in folders.told(loop(folder), NIGHT, after).entries]


def test_an_assignment_is_whole_and_private_under_any_umask(folders: LoopFolders, folder: Path) -> None:
    for mask in (0o000, 0o077):
        before = os.umask(mask)
        try:
            folders.assign(assignment(folder), "read me")
        finally:
            os.umask(before)
        assert (folder / "loop.json").stat().st_mode & 0o777 == 0o600
        assert (folder / "preamble.md").read_text() == "read me"
        assert not list(folder.glob(".*"))


def test_an_older_generation_never_replaces_a_newer_one(folders: LoopFolders, folder: Path) -> None:
    folders.assign(replace(assignment(folder), generation=2, reset_to="f" * 40), "")
    folders.assign(replace(assignment(folder), generation=1), "")
    assert json.loads((folder / "loop.json").read_text())["generation"] == 2


def test_an_order_rings_the_bell_only_where_somebody_listens(folders: LoopFolders, folder: Path) -> None:
    folders.assign(assignment(folder), "")
    folders.order(str(folder), Order(serial=1, want=Want.RUNNING))  # nobody listens: must not block
    ear = os.open(folder / "calls" / "bell", os.O_RDONLY | os.O_NONBLOCK)
    try:
        folders.order(str(folder), Order(serial=2, want=Want.PAUSED))
        assert os.read(ear, 100) == b"order\n"
    finally:
        os.close(ear)
    assert json.loads((folder / "order.json").read_text())["serial"] == 2


def test_an_older_order_does_not_take_the_place_of_a_newer_one(folders: LoopFolders, folder: Path) -> None:
    """A window that is opened late must not undo the stop that was ordered meanwhile."""
    folders.assign(assignment(folder), "")
    folders.order(str(folder), Order(serial=7, want=Want.STOPPED))
    folders.order(str(folder), Order(serial=6, want=Want.RUNNING))
    assert json.loads((folder / "order.json").read_text())["want"] == "stopped"
    folders.order(str(folder), Order(serial=7, want=Want.STOPPED, now=True))
    assert json.loads((folder / "order.json").read_text())["now"] is True


def test_a_bell_replaced_by_a_link_is_not_followed(folders: LoopFolders, folder: Path, tmp_path: Path) -> None:
    folders.assign(assignment(folder), "")
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (folder / "calls" / "bell").unlink()
    (folder / "calls" / "bell").symlink_to(victim)
    folders.order(str(folder), Order(serial=1, want=Want.RUNNING))
    assert victim.read_text() == "untouched"


def test_a_note_that_was_read_does_not_come_back(folders: LoopFolders, folder: Path) -> None:
    folders.assign(assignment(folder), "")
    folders.note(str(folder), "1.md", "once")
    (folder / "notes" / "1.md").rename(folder / "notes" / "used" / "1.md")
    folders.note(str(folder), "1.md", "once")
    assert not (folder / "notes" / "1.md").exists()


def test_a_note_is_taken_back_unless_it_was_read(folders: LoopFolders, folder: Path) -> None:
    folders.assign(assignment(folder), "")
    for name in ("1.md", "2.md"):
        folders.note(str(folder), name, "you gained nothing")
    (folder / "notes" / "1.md").rename(folder / "notes" / "used" / "1.md")
    for name in ("1.md", "2.md", "3.md"):
        folders.note(str(folder), name, "")
    assert [path.name for path in (folder / "notes").rglob("*.md")] == ["1.md"]


def test_records_are_told_once_and_in_order(folders: LoopFolders, folder: Path) -> None:
    folders.assign(assignment(folder), "")
    append(folder, line(1) + line(2))
    assert seqs(folders, folder) == [1, 2]
    assert seqs(folders, folder) == []
    append(folder, line(3)[:20])
    assert seqs(folders, folder) == []
    append(folder, line(3)[20:])
    assert seqs(folders, folder) == [3]


def test_a_new_daemon_goes_on_where_the_journal_ends(folder: Path) -> None:
    LoopFolders(boot_id()).assign(assignment(folder), "")
    append(folder, line(1) + line(2) + line(3))
    assert seqs(LoopFolders(boot_id()), folder, after=2) == [3]


@pytest.mark.parametrize(
    "forged",
    [
        b"junk\n",
        b"\xff\xfe\n",
        b"{}\n",
        b"[" * 5000 + b"\n",
        line(2, type="NightEnded", body={"why": "forged"}),
        line(2, type="AgentStarted", body={"pid": "x"}),
        line(2, at="soon"),
        line(2, at=float("nan")),
        line(-1),
        line(10**9),
        b'{"a":"' + b"x" * (LINE_MAX_BYTES + 10) + b'"}\n',
    ],
)
def test_a_line_no_runner_wrote_is_refused_and_the_next_one_counts(
    folders: LoopFolders, folder: Path, forged: bytes
) -> None:
    folders.assign(assignment(folder), "")
    append(folder, line(1) + forged + line(3))
    told = folders.told(loop(folder), NIGHT, 0)
    assert [entry.seq for entry in told.entries] == [1, 3]
    assert told.refused == 1
    assert all(isinstance(entry.body, records.AgentStarted) for entry in told.entries)


def test_records_replaced_by_a_fifo_or_a_link_block_nothing(folders: LoopFolders, folder: Path, tmp_path: Path) -> None:
    folders.assign(assignment(folder), "")
    os.mkfifo(folder / "records.jsonl")
    assert seqs(folders, folder) == []
    (folder / "records.jsonl").unlink()
    (tmp_path / "elsewhere").write_bytes(line(1))
    (folder / "records.jsonl").symlink_to(tmp_path / "elsewhere")
    assert seqs(folders, folder) == []


def test_records_replaced_by_a_new_file_tell_only_what_is_new(folders: LoopFolders, folder: Path) -> None:
    folders.assign(assignment(folder), "")
    append(folder, line(1) + line(2))
    assert seqs(folders, folder) == [1, 2]
    (folder / "records.jsonl").rename(folder / "old")
    append(folder, line(1) + line(2) + line(3))
    assert seqs(folders, folder) == [3]


def test_only_this_very_process_of_this_boot_is_a_living_runner(folders: LoopFolders, folder: Path) -> None:
    folders.assign(assignment(folder), "")
    assert not folders.alive(str(folder))
    me = identity(os.getpid())
    assert me is not None
    runner = {"pid": me.pid, "start_ticks": me.start_ticks, "boot_id": boot_id(), "generation": 1}
    cases = [(runner, True), (runner | {"start_ticks": 1}, False), (runner | {"boot_id": "another"}, False)]
    for number, (who, expected) in enumerate(cases):
        file = folder / "runner.json"
        file.write_text(json.dumps(who))
        os.utime(file, ns=(number, number))
        assert folders.alive(str(folder)) is expected
    (folder / "runner.json").write_text("{broken")
    assert not folders.alive(str(folder))
