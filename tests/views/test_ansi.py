"""What a program coloured for a terminal keeps its colours on a page, and nothing else of what it wrote acts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.payloads_html import PAYLOADS

from ralphd.views import ansi
from ralphd.views.text import lines

SGR = re.compile(r"\x1b\[[0-9;:]{0,64}m")


def page(text: str) -> str:
    return ansi.render("\n".join(ansi.coloured(text)))


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ("\x1b[31mred\x1b[0m on", '<span class="t-red">red</span> on'),
        ("\x1b[1;32mok\x1b[22m still green\x1b[39m.", '<span class="t-bold t-green">ok</span><span class="t-green"> still green</span>.'),
        ("\x1b[91mbright\x1b[m", '<span class="t-red">bright</span>'),
        ("\x1b[33ma\nb\x1b[0m", '<span class="t-yellow">a\nb</span>'),
        ("\x1b[4m\x1b[34mu\x1b[24;37mw", '<span class="t-blue t-underline">u</span>w'),
        ("\x1b[38;5;196mx\x1b[38;2;1;31;4my\x1b[48;5;1mz", "xyz"),  # their figures are no colours of ours
        ("\x1b[4:3mx\x1b[58:2::1:2:3my\x1b[8mhidden\x1b[5;7;41m.", "xyhidden."),
        ("\x1b[31mnever closed", '<span class="t-red">never closed</span>'),
        ("  \x1b[36m  two  \x1b[0m  ", '  <span class="t-cyan">  two  </span>  '),
        ("\x1b[2J\x1b]0;t\x07x\x1b[3", "x"),
    ],
)  # fmt: skip
def test_a_colour_is_a_class_and_everything_else_is_gone(text, markup):
    assert page(text) == markup


@pytest.mark.parametrize("payload", PAYLOADS[::7])
def test_what_is_coloured_is_escaped_too(payload):
    made = page(f"\x1b[1m{payload}\x1b[31m{payload[::-1]}")
    assert not re.sub(r'<span class="[a-z -]+">|</span>', "", made).count("<")


@given(st.lists(st.one_of(st.text(max_size=9), st.sampled_from(["\x1b[31m", "\x1b[0m", "\x1b[1;9", "m", "\x1b]8;;", "\x07", "\u0301"]))))  # fmt: skip
def test_any_text_is_as_harmless_as_without_colours(parts):
    text = "".join(parts)
    kept = ansi.coloured(text)
    bare = [SGR.sub("", line) for line in kept]
    assert all(char.isprintable() or char.isspace() for line in bare for char in line)
    assert [line for one in bare for line in lines(one)] == bare
    made = ansi.render("\n".join(kept))
    assert made.count("<span") == made.count("</span>")
    assert "\x1b" not in made


def test_marks_are_counted_through_colours():
    assert page("e" + "\u0301\x1b[1m" * 50).count("\u0301") == 1
