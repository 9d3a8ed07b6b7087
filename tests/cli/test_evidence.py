"""The excerpt at a failure's place: whole lines, no secret, nothing from outside of the night."""

from __future__ import annotations

import json
import os

import pytest

from ralphd.cli.evidence import EXCERPT_BYTES, WINDOW_BYTES, excerpt, excerpts
from ralphd.core.report_facts import TraceFact
from ralphd.views import html, words_trouble
from ralphd.views.blocks import Item, Items

SECRET = "hunter2-hunter2"


@pytest.fixture
def night(tmp_path):
    logs = tmp_path / "night" / "loops" / "fix-1" / "logs"
    logs.mkdir(parents=True)
    (logs.parent / "loop.json").write_text(json.dumps({"cli": "command", "secrets": [SECRET]}))
    return tmp_path / "night"


def log(night):
    return night / "loops" / "fix-1" / "logs" / "001-00001.log"


def at(file, start=0, end=0, loop="fix-1"):
    return TraceFact(kind="agent.exited", loop=loop, trajectory=1, what="w", file=str(file), start=start, end=end)


def test_it_is_the_whole_lines_of_the_place(night):
    log(night).write_bytes(b"one\ntwo two\nthree\nfour\n")
    assert excerpt(str(night), at(log(night), 6, 9)) == "two two"
    assert excerpt(str(night), at(log(night), 4, 14)) == "two two\nthree"
    assert excerpt(str(night), at(log(night), 4, 4)) == "two two"
    assert excerpt(str(night), at(log(night), 0, 999)) == "one\ntwo two\nthree\nfour"
    assert excerpt(str(night), at(log(night), 9999, 10000)) == ""


def test_no_secret_is_in_it_however_the_place_cuts_it(night):
    text = f"a {SECRET} b sk-ant-abcdefgh12345678\nnext\n".encode()
    log(night).write_bytes(text)
    for start in range(len(text)):
        told = excerpt(str(night), at(log(night), start, start + 1))
        assert "hunter2" not in told
        assert "12345678" not in told
    key = b"-----BEGIN RSA PRIVATE KEY-----\nMIIabc\nMIIdef\n-----END RSA PRIVATE KEY-----\nafter\n"
    log(night).write_bytes(key)
    for start in range(len(key)):
        assert "MII" not in excerpt(str(night), at(log(night), start, start + 1)), start
    assert excerpt(str(night), at(log(night), len(key) - 3, len(key))) == "after"


def test_no_colour_in_the_middle_of_a_secret_lets_it_through(night):
    """`grep --color` marks what it looked for, wherever that is."""
    for colour in ("\x1b[01;31m", "\x1b[K", "\x1b[m\x1b[K", "\x1b]8;;\x07"):
        log(night).write_bytes(f"{colour}a hun{colour}ter2-hunter2 b sk-{colour}ant-abcdefgh12345678\n".encode())
        told = excerpt(str(night), at(log(night)))
        assert told == "a [redacted] b [redacted]"


def test_colours_of_a_terminal_are_kept_as_classes(night):
    log(night).write_bytes(b"\x1b[1;31mFAILED\x1b[0m <b>test</b>\x1b[2J\n")
    told = excerpt(str(night), at(log(night)))
    page = html.render_block(Items(items=(Item(text="failed", places=("p",)),)), {"p": told})
    assert '<span class="t-bold t-red">FAILED</span> &lt;b&gt;test&lt;/b&gt;</pre>' in page


def test_a_verdict_s_file_is_free_of_the_loop_s_secrets_too(night):
    (night / "verdicts").mkdir()
    (night / "verdicts" / "a.log").write_text(f"said {SECRET}\n")
    assert excerpt(str(night), at(night / "verdicts" / "a.log")) == "said [redacted]"


def test_it_is_short_and_moves_nothing(night):
    log(night).write_bytes(b"\x1b[2J\x1b]0;t\x07x\xe2\x80\xae\xff\n" + b"y" * 9000 + b"\n")
    told = excerpt(str(night), at(log(night), 0, 9000))
    assert len(told.encode()) <= EXCERPT_BYTES
    assert told.startswith("x")
    assert not {"\x1b", "\x07", "\u202e"} & set(told)
    log(night).write_bytes(b"z" * (WINDOW_BYTES * 3))
    assert excerpt(str(night), at(log(night), WINDOW_BYTES * 2, WINDOW_BYTES * 2 + 5)) == ""


def test_nothing_from_outside_and_no_link(night, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("private\n")
    log(night).symlink_to(outside / "key")
    (night / "loops" / "fix-2").symlink_to(outside)
    os.mkfifo(night / "pipe")
    for place in (
        outside / "key", log(night), night / "loops" / "fix-2" / "key", night / ".." / "outside" / "key",
        night / "pipe", night / "loops", night, "outside/key", "", "/etc/passwd", night / "gone", f"{night}/a\0b",
    ):  # fmt: skip
        assert excerpt(str(night), at(place)) == "", place


def test_it_stands_below_its_place_on_the_page(night):
    from support.nights import Night

    from ralphd.core.outcomes import Evidence, Kind
    from ralphd.core.report import report

    log(night).write_text("<b>Segmentation fault</b>\n")
    told = Night()
    told.started()
    told.task()
    told.loop("fix-1")
    told.began("fix-1", 1)
    evidence = (Evidence(what="exit status 1", file=str(log(night)), start=0, end=5),)
    told.ended("fix-1", 1, Kind.EXITED, evidence=evidence)
    made = report(told.entries, told.now)
    found = excerpts(str(night), made)
    assert list(found) == [words_trouble.place(made.evidence[0])]
    page = html.render_report(made, html.Extras(excerpts=found))
    assert '</code><pre class="excerpt" tabindex="0">&lt;b&gt;Segmentation fault&lt;/b&gt;</pre>' in page
