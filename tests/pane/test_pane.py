"""What a person at a pane is told when the disk takes no more records, whoever had one to write."""

from __future__ import annotations

import os
import types
from pathlib import Path

import pytest

from ralphd.core.records import Held
from ralphd.pane import recorder as module
from ralphd.pane.pane import Pane
from ralphd.pane.recorder import Recorder


def test_a_person_is_told_once_that_records_wait_and_of_each_other_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    rest = dict.fromkeys(("ears", "wishes", "watch", "gate"))
    recorder = Recorder(str(tmp_path))
    pane = Pane(recorder=recorder, digest=types.SimpleNamespace(say=said.append), **rest)  # type: ignore[arg-type]
    real, error = os.write, [28]

    def write(fd: int, data: bytes) -> int:
        if error[0]:
            raise OSError(error[0], os.strerror(error[0]))
        return real(fd, data)

    pane.record(Held(kind="", why="before"))
    monkeypatch.setattr(module.os, "write", write)
    pane.record(Held(kind="", why="one"))
    pane.record(Held(kind="", why="two"))
    assert said == ["records can't be written, they wait in memory: No space left on device"]
    error[0] = 5
    pane.record(Held(kind="", why="three"))
    assert said[1:] == ["records can't be written, they wait in memory: Input/output error"]
    error[0] = 0
    pane.record(Held(kind="", why="four"))
    assert len(said) == 2
    assert (tmp_path / "records.jsonl").read_bytes().count(b"\n") == 5
