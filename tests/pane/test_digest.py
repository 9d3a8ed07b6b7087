from __future__ import annotations

import os
import re

import pytest

from ralphd.core.signals import Called, Compacted, Resulted, Retrying, Returned, Said, Unread, Used
from ralphd.pane.digest import LINES_A_SECOND, Digest, Screen, cut, plain

HOSTILE = (
    "\x1b]52;c;aGk=\x07 \x1b[2J \x9b31m \x00 \r\n bidi \u202e\u2066 zero\u200b \ufeff private \ue000 \U000e0041 "
    "separators \u2028\u2029 lone \ud800 é 日本 👩‍👩‍👧"
)


class Paper:
    def __init__(self, width=80):
        self.now, self.lines = 1000.0, []
        self.digest = Digest(self.lines.append, clock=lambda: self.now, width=lambda: width)

    def shown(self, signal):
        self.lines.clear()
        self.digest.show(signal)
        return [line.decode().rstrip("\r\n").split(" ", 1)[1] for line in self.lines]


@pytest.mark.parametrize(
    ("signal", "sentence"),
    [
        (Said(text="Looking at the tests."), "says: Looking at the tests."),
        (Called(id="1", tool="Bash", command="pytest -q"), "runs: pytest -q"),
        (Called(id="1", tool="Read"), "uses Read"),
        (Returned(id="1", text="collected 13\n\n3 failed, 10 passed\n"), "-> 3 failed, 10 passed"),
        (Returned(id="1", text="", is_error=True), "-> error: (no output)"),
        (Compacted(tokens_before=9, tokens_after=None), "context compacted (9 -> ? tokens)"),
        (Retrying(status=529, delay_s=4.2), "the CLI asks again in 4 s (529)"),
        (Retrying(status=429, silent_s=3600), "the CLI asks again (429)"),
        (Resulted(ok=True, text="All\ngood."), "result: good."),
        (Unread(text="plain words"), "plain words"),
    ],
)
def test_signals_become_sentences(signal, sentence):
    assert [line.strip() for line in Paper().shown(signal)] == [sentence]


def test_what_nobody_would_read_is_not_printed():
    assert Paper().shown(Used(tokens_in=1)) == Paper().shown(Said(text=" \n")) == []


def test_no_character_that_a_terminal_obeys_gets_through():
    paper = Paper(width=2000)
    for signal in (Said(text=HOSTILE), Called(id="1", tool=HOSTILE, command=HOSTILE), Unread(text=HOSTILE)):
        (line,) = paper.shown(signal)
        assert all(char.isprintable() for char in line)
    paper.digest.say(HOSTILE)
    assert re.fullmatch(rb"\d\d:\d\d [^\x00-\x1f\x7f]*\r\n", paper.lines[-1])
    assert "é 日本" in paper.lines[-1].decode()


def test_a_sentence_is_one_line_that_fits_wide_characters_included():
    paper = Paper(width=40)
    (line,) = paper.shown(Said(text="x" * 27 + "日本語" * 10))
    assert line.endswith("…")
    assert len(line.encode("utf-16-le")) // 2 < 40
    assert cut("日本語", 6) == "日本語"
    assert cut("日本語", 5) == "日本…"
    assert plain("a\tb\r\nc") == "a b  c"


def test_a_flood_prints_what_a_person_can_read_and_starts_again_with_the_next_second():
    paper = Paper()
    for _ in range(LINES_A_SECOND * 10):
        paper.digest.show(Unread(text="y"))
    assert len(paper.lines) == LINES_A_SECOND
    paper.now += 1
    paper.digest.show(Unread(text="z"))
    assert paper.lines[-1].endswith(b"z\r\n")


def test_secrets_never_reach_the_pane():
    paper = Paper()
    paper.digest.secrets = ("sk-ant-123", "")
    (line,) = paper.shown(Called(id="1", tool="Bash", command="curl -H sk-ant-123"))
    assert line == "runs: curl -H [redacted]"


def test_a_terminal_that_takes_nothing_holds_up_nobody_and_lines_are_counted():
    read, write = os.pipe()
    screen = Screen(write)
    for _ in range(3000):
        screen.write(b"x" * 99 + b"\n")
    assert len(os.read(read, 1 << 20)) < 100 * 3000
    screen.write(b"last\r\n")
    assert re.search(rb"\(\d+ lines not shown: the terminal was busy\)\r\nlast\r\n\Z", os.read(read, 1 << 16))
    assert os.get_blocking(write)  # others who write there are not disturbed
    os.close(read)
    os.close(write)


def test_a_terminal_that_is_gone_is_no_error():
    read, write = os.pipe()
    screen = Screen(write)
    os.close(read)
    screen.write(b"x\n")
    os.close(write)
    assert screen.width() > 0
