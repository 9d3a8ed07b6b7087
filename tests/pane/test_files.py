"""How an adapter's files come to lie in a loop's folder that an agent can write to."""

from __future__ import annotations

import os
import stat

import pytest

from ralphd.agents import File
from ralphd.pane.files import lay


def test_files_are_whole_and_for_their_owner_alone(tmp_path):
    home = tmp_path / "agent"
    before = os.umask(0)
    try:
        lay(str(home), (File(path="config.toml", text="a = 'ü'\n"), File(path="bin/bash", link="/opt/guard")))
    finally:
        os.umask(before)
    assert (home / "config.toml").read_bytes() == "a = 'ü'\n".encode()
    assert os.readlink(home / "bin" / "bash") == "/opt/guard"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "bin")] == [0o700, 0o700]
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o600


def test_they_replace_what_an_agent_made_of_them(tmp_path):
    home, victim = tmp_path / "agent", tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    home.mkdir()
    (home / "sub").symlink_to(victim)
    (home / "file").symlink_to(victim / "file")
    lay(str(home), (File(path="sub/file", text="new"), File(path="file", text="new")))
    assert (victim / "file").read_text() == "precious"
    assert (home / "sub" / "file").read_text() == (home / "file").read_text() == "new"
    lay(str(home), (File(path="file", link="/opt/guard"),))
    assert os.readlink(home / "file") == "/opt/guard"


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/out", "", "a//b"])
def test_nothing_is_laid_elsewhere(tmp_path, path):
    with pytest.raises(ValueError, match="not a path below"):
        lay(str(tmp_path / "agent"), (File(path=path, text="x"),))
    assert not (tmp_path / "out").exists()
