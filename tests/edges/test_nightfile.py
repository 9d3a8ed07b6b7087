"""night.json: what a night is, beside its journal."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from support.nights import NIGHT, Night

from ralphd.core import events
from ralphd.core.events import Entry
from ralphd.core.redact import Redactor
from ralphd.edges import nightfile

SECRET = "hunter22-hunter22"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / NIGHT).mkdir()
    return str(tmp_path / NIGHT)


def frame() -> list[Entry]:
    night = Night()
    night.started()
    night.task(command=f"check --token {SECRET}")
    night.loop("fix-1")
    night.loop("fix-2")
    return [replace(entry, id=0, generation=0) for entry in night.entries]


def test_the_frame_comes_back_and_nothing_else(folder):
    session = Night()
    session.began("fix-1", 1)
    nightfile.write(folder, [*frame(), *session.entries], Redactor())
    found = nightfile.read(folder)
    assert found is not None
    assert list(found.frame) == frame()
    assert found.ended is None


def test_the_end_is_added_once(folder):
    nightfile.write(folder, frame(), Redactor())
    for why in ("goal", "time"):
        nightfile.close(folder, Entry(at=5.0, night=NIGHT, body=events.NightEnded(why=why)), Redactor())
    found = nightfile.read(folder)
    assert found is not None
    assert found.ended == Entry(at=5.0, night=NIGHT, body=events.NightEnded(why="goal"))
    assert list(found.frame) == frame()


def test_it_holds_no_secret_and_is_the_owners_alone(folder):
    before = os.umask(0)
    try:
        nightfile.write(folder, frame(), Redactor([SECRET]))
    finally:
        os.umask(before)
    path = Path(folder) / nightfile.NAME
    assert SECRET not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert nightfile.read(folder) is not None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: {**data, "night": "2026-11-30-b"},  # copied from another night
        lambda data: {**data, "entries": data["entries"][1:]},  # no NightStarted
        lambda data: {**data, "entries": []},
        lambda data: {**data, "entries": "all"},
        lambda data: {**data, "entries": [{**data["entries"][0], "body": {"width": "wide"}}]},
        lambda data: {**data, "entries": [{**data["entries"][0], "type": "Dreamt"}]},
        lambda data: [data],
    ],
)
def test_what_no_night_can_be_taken_up_from_is_none(folder, spoil):
    nightfile.write(folder, frame(), Redactor())
    path = Path(folder) / nightfile.NAME
    path.write_text(json.dumps(spoil(json.loads(path.read_text()))))
    assert nightfile.read(folder) is None


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("elsewhere"), os.mkfifo, os.mkdir, Path.touch])
def test_a_link_a_pipe_or_an_empty_file_is_none_and_blocks_nobody(folder, make):
    nightfile.write(folder, frame(), Redactor())
    path = Path(folder) / nightfile.NAME
    path.rename(path.with_name("elsewhere"))
    make(path)
    assert nightfile.read(folder) is None
