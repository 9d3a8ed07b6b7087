from __future__ import annotations

import os

from ralphd.pane import rawlog as module
from ralphd.pane.rawlog import RawLog


def pieces(folder):
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def test_all_bytes_are_kept_while_they_fit(tmp_path):
    log = RawLog(str(tmp_path / "logs"), "a.log", piece_bytes=10)
    log.write(b"0123")
    log.write(b"456789ABC")
    log.close()
    assert pieces(tmp_path / "logs") == {"a.log": b"0123456789", "a.log.1": b"ABC"}
    assert log.offset == 13


def test_of_an_endless_stream_the_beginning_and_the_end_are_kept_in_their_places(tmp_path):
    log = RawLog(str(tmp_path / "logs"), "a.log", piece_bytes=4)
    log.write(b"".join(b"%04d" % n for n in range(10)))
    log.close()
    assert pieces(tmp_path / "logs") == {"a.log": b"0000", "a.log.7": b"0007", "a.log.8": b"0008", "a.log.9": b"0009"}


def test_a_full_disk_stops_the_log_and_says_how_much_is_missing(tmp_path, monkeypatch):
    log = RawLog(str(tmp_path / "logs"), "a.log")
    log.write(b"kept")

    def full(_fd, _data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_all", full)
    log.write(b"12345")
    log.write(b"67")
    assert (log.trouble, log.lost_bytes, log.offset) == ("No space left on device", 7, 11)


def test_a_link_or_a_fifo_in_the_place_of_a_piece_is_not_followed(tmp_path):
    logs, victim = tmp_path / "logs", tmp_path / "victim"
    logs.mkdir()
    victim.write_text("mine")
    (logs / "a.log").symlink_to(victim)
    os.mkfifo(logs / "a.log.1")
    log = RawLog(str(logs), "a.log", piece_bytes=4)
    log.write(b"12345678")
    log.close()
    assert victim.read_text() == "mine"
    assert pieces(logs) == {"a.log": b"1234", "a.log.1": b"5678"}


def test_a_log_whose_name_was_taken_away_goes_on_in_its_own_file(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    log = RawLog(str(tmp_path / "logs"), "a.log")
    log.write(b"one")
    os.unlink(log.path)
    os.symlink(victim, log.path)
    log.write(b"two")
    assert victim.read_text() == "mine"
    assert log.trouble == ""


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs").symlink_to(tmp_path / "elsewhere")
    log = RawLog(str(tmp_path / "logs"), "a.log")
    log.write(b"x")
    assert log.trouble
    assert os.listdir(tmp_path / "elsewhere") == []
