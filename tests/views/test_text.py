from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphd.views.text import clean, fit, for_encoding, lines, pad, width, wrap


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b2Jgone", "gone"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\x", "x"),
        ("a\x00b\x08c\x7fd", "abcd"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("one\ntwo\r\nthree\ttab", "one two three tab"),
        ("line\u2028separator\x85next", "line separator next"),
        ("half \ud83d pair", "half ? pair"),
        ("日本 é 🦊", "日本 é 🦊"),
        ("e" + "\u0301" * 50, "e" + "\u0301" * 4),
    ],
)
def test_what_moves_colours_reorders_or_hides_is_gone(text, harmless):
    assert clean(text) == harmless


@given(st.text(st.characters(codec=None)))
def test_any_text_is_printable_afterwards(text):
    assert all(char.isprintable() or char == "\u3000" or char.isspace() for char in clean(text))
    assert "\n" not in clean(text)
    clean(text).encode()


def test_lines_stay_lines():
    assert lines("a\nb\x1b[1m\r\nc") == ["a", "b", "c"]


def test_width_is_that_of_a_terminal():
    assert [width(text) for text in ("abc", "日本", "e\u0301", "")] == [3, 4, 1, 0]


@given(st.text(), st.integers(3, 30))
def test_a_cell_never_passes_its_width(text, columns):
    assert width(fit(clean(text), columns)) <= columns


def test_what_was_cut_shows_it():
    assert fit("abcdefgh", 6) == "abc..."
    assert fit("日本日本", 6) == "日..."
    assert fit("abc", 3) == "abc"


def test_padding_counts_columns():
    assert pad("日", 4) == "日  "
    assert pad("7", 3, right=True) == "  7"


def test_paths_are_left_whole_for_copying():
    assert wrap("see /a/" + "b" * 90, 80) == ["see", "/a/" + "b" * 90]


def test_an_encoding_gets_what_it_has():
    assert for_encoding("é日", "latin-1") == "é?"
    assert for_encoding("é", None) == "?"
