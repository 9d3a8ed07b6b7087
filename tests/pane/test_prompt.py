from __future__ import annotations

import hashlib
import os

import pytest

from ralphd.pane import prompt


def test_the_operators_bytes_are_never_changed():
    exact = bytes(range(256)) * 3 + b"\r\n\n\n"
    composed = prompt.compose("Rules\n\n\n", exact, (("a.md", "note\n"),))
    assert composed.text == b"Rules\n\n" + exact + b"\n\n--- A note for this session (a.md) ---\nnote\n"
    assert composed.sha256 == hashlib.sha256(exact).hexdigest()
    assert composed.size_bytes == len(exact)


def test_without_preamble_and_notes_there_is_nothing_but_the_prompt():
    assert prompt.compose(" \n", b"x", ()).text == b"x"


def test_a_file_of_the_greatest_size_is_read_and_a_larger_one_refused(tmp_path):
    path = tmp_path / "PROMPT.md"
    with open(path, "wb") as file:
        file.truncate(prompt.PROMPT_LIMIT_BYTES)
    assert len(prompt.read(str(path))) == prompt.PROMPT_LIMIT_BYTES
    with open(path, "ab") as file:
        file.write(b"x")
    with pytest.raises(prompt.NoPrompt, match="larger than"):
        prompt.read(str(path))


def test_what_is_no_plain_file_is_refused_with_a_reason_and_a_way_out(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name, reason in {
        "folder": "not a regular file",
        "fifo": "not a regular file",
        "link": "symbolic link",
        "no": "is gone",
    }.items():
        with pytest.raises(prompt.NoPrompt, match=reason) as caught:
            prompt.read(str(tmp_path / name))
        assert "the loop goes on" in str(caught.value)
