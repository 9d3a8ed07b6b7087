from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.records import Held, Progressed, Resumed, TrajectoryStarted, Usage
from ralphd.pane import recorder as module
from ralphd.pane.recorder import Recorder


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path)


def lines(folder):
    with open(os.path.join(folder, "records.jsonl"), "rb") as file:
        return [json.loads(line) for line in file.read().split(b"\n")[:-1] if line.startswith(b"{")]


def held(recorder, why="x"):
    recorder.append(Held(kind="", why=why), at=1.0)


def test_numbers_go_on_after_a_restart_and_an_open_trajectory_is_remembered(folder):
    first = Recorder(folder)
    first.trajectory, first.nonce, first.generation = 7, "abc", 2
    first.append(TrajectoryStarted(head="h", log="l", prompt_sha256="s", prompt_bytes=1), at=5.0)
    held(first)
    first.close()
    second = Recorder(folder)
    assert (second.past.seq, second.past.trajectory, second.past.open_nonce, second.past.open_head) == (
        2,
        7,
        "abc",
        "h",
    )
    held(second)
    assert [line["seq"] for line in lines(folder)] == [1, 2, 3]


def test_a_line_that_a_crash_cut_is_ended_and_counts_for_nothing(folder):
    first = Recorder(folder)
    held(first)
    first.close()
    with open(os.path.join(folder, "records.jsonl"), "ab") as file:
        file.write(b'{"seq":2,"at":1.0,"gener')
    second = Recorder(folder)
    held(second)
    raw = Path(folder, "records.jsonl").read_bytes()
    assert raw.endswith(b"\n")
    first_line, cut_line, second_line, _ = raw.split(b"\n")
    assert cut_line == b'{"seq":2,"at":1.0,"gener'
    assert [json.loads(line)["seq"] for line in (first_line, second_line)] == [1, 2]


def test_a_line_that_lacks_only_its_newline_counts(folder):
    first = Recorder(folder)
    held(first)
    first.close()
    path = os.path.join(folder, "records.jsonl")
    os.truncate(path, os.path.getsize(path) - 1)
    second = Recorder(folder)
    held(second)
    assert [line["seq"] for line in lines(folder)] == [1, 2]


def test_zeros_and_garbage_in_the_middle_are_passed_over(folder):
    first = Recorder(folder)
    held(first)
    first.close()
    with open(os.path.join(folder, "records.jsonl"), "ab") as file:
        file.write(b"\0" * 5000 + b"\n[1]\n{}\n" + b"[" * 100_000 + b"\n")
    second = Recorder(folder)
    assert second.past.seq == 1


def test_forged_lines_are_dropped_and_their_numbers_never_used_again(folder):
    recorder = Recorder(folder)
    held(recorder)
    inode = os.stat(os.path.join(folder, "records.jsonl")).st_ino
    with open(os.path.join(folder, "records.jsonl"), "ab") as file:
        file.write(b'{"seq":5,"at":1.0,"generation":1,"trajectory":1,"nonce":"n","type":"TrajectoryEnded","body":{}}\n')
        file.write(b'{"seq":99999999999,"at":1.0,"generation":1,"trajectory":1,"nonce":"n","type":"Held","body":{}}\n')
    held(recorder)
    assert [line["seq"] for line in lines(folder)] == [1, 6]
    assert os.stat(os.path.join(folder, "records.jsonl")).st_ino != inode  # a reader's place in the old file is void
    assert recorder.tampered == 1


@pytest.mark.parametrize("harm", ["remove", "replace", "link", "fifo", "truncate"])
def test_a_file_that_was_tampered_with_is_written_anew_with_our_lines(folder, harm, tmp_path):
    recorder = Recorder(folder)
    held(recorder)
    path = os.path.join(folder, "records.jsonl")
    other = tmp_path / "other"
    other.write_text("mine")
    if harm == "truncate":
        os.truncate(path, 0)
    else:
        os.unlink(path)
    if harm == "replace":
        other.rename(path)
    elif harm == "link":
        os.symlink(other, path)
    elif harm == "fifo":
        os.mkfifo(path)
    held(recorder)
    assert not os.path.islink(path)
    assert [line["seq"] for line in lines(folder)] == ([2] if harm == "truncate" else [1, 2])
    if harm == "link":
        assert other.read_text() == "mine"


def test_a_new_runner_moves_a_link_aside_instead_of_following_it(folder, tmp_path):
    other = tmp_path / "other"
    other.write_text("mine")
    os.symlink(other, os.path.join(folder, "records.jsonl"))
    held(Recorder(folder))
    assert other.read_text() == "mine"
    assert [line["seq"] for line in lines(folder)] == [1]


def test_a_full_disk_delays_records_and_loses_none(folder, monkeypatch):
    recorder = Recorder(folder)
    held(recorder)
    real, room = os.write, [30]

    def write(fd, data):
        if room[0] <= 0:
            raise OSError(28, "No space left on device")
        count = real(fd, bytes(data)[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(module.os, "write", write)
    held(recorder)
    held(recorder)
    assert recorder.trouble == "No space left on device"
    assert not os.path.exists(os.path.join(folder, "records.reserve"))
    monkeypatch.setattr(module.os, "write", real)
    recorder.flush()
    assert recorder.trouble == ""
    assert [line["seq"] for line in lines(folder)] == [1, 2, 3]
    assert os.path.exists(os.path.join(folder, "records.reserve"))


def test_what_a_full_disk_makes_wait_for_hours_is_never_an_end_but_signs_of_life(folder, monkeypatch):
    recorder = Recorder(folder)
    real = os.write

    def refuse(_fd, _data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "WAITING_LIMIT", 10)
    monkeypatch.setattr(module.os, "write", refuse)
    for session in range(4):
        recorder.append(Held(kind="", why=f'"type":"Progressed" {session}'), at=1.0)
        for _ in range(50):
            recorder.append(Progressed(usage=Usage(), compactions=0, output_bytes=0, calls=0, quiet_for_s=0.0), at=1.0)
    monkeypatch.setattr(module.os, "write", real)
    held(recorder, "room")
    told = lines(folder)
    assert [line["body"]["why"][-4:] for line in told if line["type"] == "Held"] == [
        'd" 0',
        'd" 1',
        'd" 2',
        'd" 3',
        "room",
    ]
    assert len(told) <= 11
    assert [line["seq"] for line in told] == sorted({line["seq"] for line in told})


def test_what_takes_the_place_of_a_harmed_file_is_on_the_disk_before_it_has_the_name(folder, monkeypatch):
    """Else a power cut would leave neither: what was there had been synced."""
    recorder = Recorder(folder)
    held(recorder)
    done, rename = [], os.rename
    monkeypatch.setattr(module.os, "fsync", lambda fd: done.append(("sync", os.fstat(fd).st_ino)))
    monkeypatch.setattr(
        module.os, "rename", lambda old, new: done.append(("name", os.stat(old).st_ino)) or rename(old, new)
    )
    os.unlink(os.path.join(folder, "records.jsonl"))
    held(recorder)
    ino = os.stat(os.path.join(folder, "records.jsonl")).st_ino
    assert done == [("sync", ino), ("name", ino)]
    assert [line["seq"] for line in lines(folder)] == [1, 2]


def test_a_disk_that_fails_to_keep_is_named_asked_seldom_and_told_all_again(folder, monkeypatch):
    """An fsync that fails is no crash, and no busy loop either: the runner asks for one with each thing an agent says."""
    clock, asked, broken = [100.0], [], [True]

    def fsync(_fd):
        asked.append(clock[0])
        if broken[0]:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(module.os, "fsync", fsync)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    recorder = Recorder(folder)
    for _ in range(600):
        held(recorder)
        recorder.sync()
        clock[0] += 0.05
    assert len(asked) < 30
    broken[0] = False
    clock[0] += 10
    recorder.sync()
    recorder.sync()
    assert asked[-1] == clock[0]
    assert asked.count(clock[0]) == 1
    assert [line["seq"] for line in lines(folder)] == list(range(1, 601))


def test_words_of_an_agent_cannot_make_a_line_too_long_to_be_read(folder):
    recorder = Recorder(folder)
    outcome = Outcome(kind=Kind.UNKNOWN, detail={"message": "x" * 1_000_000})
    recorder.append(module_ended(outcome), at=1.0)
    raw = Path(folder, "records.jsonl").read_bytes()
    assert len(raw) < 128 << 10
    assert json.loads(raw)["body"]["outcome"]["kind"] == "agent.unknown"


def module_ended(outcome):
    from ralphd.core.records import AttemptEnded

    return AttemptEnded(attempt=1, outcome=outcome, wait_s=1.0)


def test_a_missing_file_is_made_for_its_owner_alone(folder):
    before = os.umask(0)
    try:
        recorder = Recorder(folder)
        recorder.append(Resumed(), at=1.0)
    finally:
        os.umask(before)
    assert os.stat(os.path.join(folder, "records.jsonl")).st_mode & 0o777 == 0o600
