"""Recordings of the real CLIs, spoilt at random: whatever bytes come, nobody stumbles and nothing that steers a terminal gets through."""

from __future__ import annotations

import itertools
import os
import random
import re
import time
from collections.abc import Iterator

import pytest
from support.recordings import NAMES, cli_of, content, stream

from ralphd.agents import adapter
from ralphd.agents.lines import Lines
from ralphd.core import records
from ralphd.core.classify import classify
from ralphd.core.events import Entry
from ralphd.core.facts import EndedBy, Facts
from ralphd.core.outcomes import Outcome
from ralphd.core.reading import Reading
from ralphd.core.redact import Redactor
from ralphd.edges.journal_schema import row_of
from ralphd.pane.digest import Digest
from ralphd.views import ansi, text

SECONDS = float(os.environ.get("RALPHD_TEST_FUZZ_S", "0"))  # 600 before a release
AT_LEAST = 50  # however quick the machine is
PIECES = (
    b"\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", b"\x1b]52;c;aGk=\x07", b"\x1b[?1049h\x1b[2J\x1b[31m",
    b"\x1bP+q544e\x1b\\", b"\x9b31m\x9d0;title\x9c\x90", "\u009b31m\u009d".encode(), b"\0" * 9, b"\x7f\x08\x08\r",
    b"\xff\xfe\xc3", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", "\u202e\u2066\u200f\ufeff".encode(),
    "\u2028\u2029\u0085".encode(), b"e" + "\u0301".encode() * 3000, b"\\u001b[31m\\u009b", b'\\ud800"', b'"',
    b"\n", b"\r\n", b"{", b"}", b"[" * 3000, b'{"a":' * 3000, b"1e999", b"-1", b"9" * 5000, b"null", b"NaN", b"true",
    b"<script>alert(1)</script>", b"&amp;\"'<img src=x onerror=alert(1)>", b"x" * 70_000, b"\t\x0b\x0c",
)  # fmt: skip
STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
OURS = re.compile(r'</?span(?: class="[a-z0-9 -]+")?>')


def spoilt(chance: random.Random, data: bytes) -> bytes:
    """Return a recording in which bytes were changed, lost, doubled and put in."""
    made = bytearray(data[chance.randrange(len(data)) :][: chance.choice((300, 3000, 60_000))])
    for _ in range(chance.choice((1, 3, 30))):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(5):
            case 0:
                made[at:at] = chance.choice(PIECES)
            case 1:
                made[at : at + 1] = bytes([chance.randrange(256)])
            case 2:
                del made[at : at + chance.choice((1, 7, 400))]
            case 3:
                made[at:at] = chance.randbytes(chance.choice((1, 16, 300)))
            case _:
                made[at:at] = made[: chance.choice((1, 50, 2000))]
    return bytes(made)


def pieces(chance: random.Random, data: bytes) -> Iterator[bytes]:
    """Cut anywhere, in the middle of a letter too."""
    at = 0
    while at < len(data):
        size = chance.choice((1, 2, 3, 50, 4096, 65_536))
        yield data[at : at + size]
        at += size


def lines_of(chunks: Iterator[bytes]) -> Iterator[tuple[int, int, bytes]]:
    cutter = Lines()
    for chunk in chunks:
        yield from cutter.feed(chunk)
    yield from cutter.close()


def harmless(shown: str) -> str:
    """Return it, once nothing in it could steer a terminal."""
    found = STEERS.search(shown)
    assert found is None, (found, shown[max(0, found.start() - 40) : found.end() + 40])
    shown.encode()  # strictly
    return shown


def read(chance: random.Random, cli: str, data: bytes, stderr: bytes) -> tuple[Reading, list[bytes]]:
    """Have it read as the runner does; return what it came to and every line of the pane."""
    shown: list[bytes] = []
    seconds = itertools.count(1000)
    digest = Digest(shown.append, clock=lambda: next(seconds), width=lambda: chance.choice((1, 40, 80, 500)))
    fold, reader = Reading(), adapter(cli).reader()
    for start, end, line in lines_of(pieces(chance, data)):
        for signal in reader.read(line, start, end):
            fold.add(signal)
            digest.show(signal)
    for line in stderr.split(b"\n"):
        digest.show_error(line)
    return fold, shown


def come_to(chance: random.Random, cli: str, fold: Reading, stderr: bytes) -> Outcome:
    ended_by = chance.choice([EndedBy(""), *EndedBy])
    tail = stderr[-8192:].decode("utf-8", "replace")
    code = chance.choice((0, 1, 2, 127))
    return classify(
        Facts(cli=cli, exit_code=code, signal=None, ended_by=ended_by, reading=fold, stderr_tail=tail, log="x")
    )


def one(seed: int) -> None:
    chance = random.Random(seed)
    name = chance.choice(NAMES)
    data = spoilt(chance, stream(name) or b"x")
    stderr = spoilt(chance, content(f"{name}.stderr") or b"x")
    fold, shown = read(chance, cli_of(name), data, stderr)
    for line in shown:
        assert line.endswith(b"\r\n")
        harmless(line.removesuffix(b"\r\n").decode())
    outcome = come_to(chance, cli_of(name), fold, stderr)
    body = records.AttemptEnded(attempt=1, outcome=outcome, wait_s=0.0)
    entry = Entry(id=0, at=0.0, night="n", loop="l", generation=1, trajectory=1, seq=1, nonce="", body=body)
    row = row_of(entry, Redactor())
    assert row["type"] == "AttemptEnded", row["body"]
    harmless(row["body"])
    words = [str(value) for value in outcome.detail.values()] + [piece.what for piece in outcome.evidence]
    for words_ in (data.decode("utf-8", "replace"), *words):
        for line in text.lines(words_):
            harmless(line)
        page = ansi.render("\n".join(ansi.coloured(words_)))
        assert "<" not in OURS.sub("", harmless(page))


@pytest.mark.timeout(max(300, 2 * SECONDS))
def test_whatever_bytes_come_nothing_breaks_and_nothing_steers_a_terminal() -> None:
    """RALPHD_TEST_FUZZ_S asks for so many seconds of it."""
    first, until, done = random.randrange(1 << 48), time.monotonic() + SECONDS, 0
    while done < AT_LEAST or time.monotonic() < until:
        try:
            one(first + done)
        except BaseException as error:
            error.add_note(f"one({first + done})")
            raise
        done += 1
    print(f"{done} streams")
