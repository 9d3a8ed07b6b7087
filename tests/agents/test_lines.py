"""Lines out of hostile bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphd.agents.lines import OVERLONG, Lines

pieces = st.lists(
    st.sampled_from([b"a", b"\n", b"\r\n", b"\0", b"\xff\xfe", b"{}", b"longer than the limit", "…".encode()])
)


def cut(data: bytes, size: int, limit: int = 1 << 20) -> list[tuple[int, int, bytes]]:
    lines = Lines(limit_bytes=limit)
    found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
    return found + lines.close()


@given(pieces, st.integers(1, 9))
def test_chunks_split_anywhere_change_nothing(parts, size):
    data = b"".join(parts)
    assert cut(data, size, limit=12) == cut(data, max(1, len(data)), limit=12)


@given(pieces)
def test_every_byte_range_holds_its_line_and_nothing_is_lost(parts):
    data = b"".join(parts)
    found = cut(data, 5)
    assert [data[start:end].removesuffix(b"\r") for start, end, _ in found] == [line for _, _, line in found]
    assert [line for _, _, line in found] == [
        line for line in (whole.removesuffix(b"\r") for whole in data.split(b"\n")) if line
    ]


def test_a_line_past_the_limit_is_named_and_the_next_one_stands_where_it_should():
    data = b"x" * 50 + b"\nnext\r\n"
    assert cut(data, 7, limit=49) == [(0, 50, OVERLONG), (51, 56, b"next")]
    assert cut(data, 7, limit=50)[0] == (0, 50, b"x" * 50)


def test_two_hundred_megabytes_without_a_newline_stay_in_bounds():
    lines, chunk, most = Lines(), b"\0" * (1 << 20), 0
    for _ in range(200):
        assert lines.feed(chunk) == []
        most = max(most, len(lines._held))
    assert most <= lines.limit_bytes
    assert lines._held == b""
    assert lines.feed(b"\nafter\n") == [(0, 200 << 20, OVERLONG), ((200 << 20) + 1, (200 << 20) + 6, b"after")]


def test_a_five_megabyte_line_in_tiny_chunks_is_kept_whole():
    data = b"y" * (5 << 20)
    assert cut(data + b"\n", 4096, limit=8 << 20) == [(0, len(data), data)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_what_stands_after_the_last_newline_comes_with_the_close(end):
    assert [line for _, _, line in cut(b"one\n\n\ntwo" + end, 3)] == [b"one", b"two"]
