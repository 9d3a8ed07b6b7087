"""Five hundred ways in which a ralphd.toml gets spoiled: each is read, or refused in one harmless line, and no other thing."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from support.spoiled_toml import WHOLE

from ralphd.core.configfile import read
from ralphd.core.errors import ConfigError

LINES = WHOLE.split("\n")
VALUES = (
    '""', "-1", "0", "1.5", "9" * 5000, "-" + "9" * 400, "1e999", "nan", "-inf", "true", "[]", "{}", "[[1]]", "{a=1}",
    "2026-01-01", "07:00:00", '"\\u0000"', '"\\u001b[2J"', '"a\\nb"', f'"{"x" * 100_000}"', f'"{"9" * 400}GiB"',
    "0x" + "f" * 5000, f'"{"9" * 5000}h"', f'"regex:{"(" * 5000}"', '"regex:a{9999999999}"', '"json:#x"', '"99 99 * * *"',
    '"\N{ARABIC-INDIC DIGIT ZERO}7:00"', '"²h"', '"http://["', "[" * 300 + "]" * 300, '"\\U0010FFFF"',
)  # fmt: skip
KEYS = ('"a\\nb"', '"\\u001b[2J"', '""', "k" * 5000, "a.b.c", '"a.b"', "'[x]'", '"\\u202e"')
PLACES = ("", "[night]\n", "[agent]\n", "[agent.env]\n", "[[task]]\n", "[[task]]\n[task.verify]\n")
WHOLES = (
    "a." * 50_000 + "b = 1",
    '"a".' * 50_000 + "b = 1",
    "[" + "a." * 50_000 + "b]",
    "x = " + "{a = " * 5000 + "1" + "}" * 5000,
    "[night]\nwidth = " + "[" * 100_000,
    "[[task]]\n" * 4000,
    "".join(f'[[task]]\nname = "a{n}"\n' for n in range(4000)),
    "\ufeff\ufeff",
    "\0",
    "\r",
    WHOLE.replace("\n", "\r"),
    WHOLE + WHOLE,
    "[night]\nwidth = 1\nwidth = 2\n",
    "[night]\n[night]\n",
    "night.width = 1\n[night]\n",
)


def with_other_values() -> Iterator[str]:
    """Each key once with eight of the odd values: all meet all kinds of keys over the file."""
    for at, line in enumerate(LINES):
        key, found, _ = line.partition("=")
        for n in range(8 if found else 0):
            value = VALUES[(at * 5 + n * 4) % len(VALUES)]
            yield "\n".join([*LINES[:at], f"{key}= {value}", *LINES[at + 1 :]])


def damaged() -> Iterator[str]:
    """Bytes changed, lost, doubled and cut off, as far as it still is text."""
    chance = random.Random(4711)
    for _ in range(300):
        data = bytearray(WHOLE.encode())
        for _ in range(chance.choice([1, 1, 2, 5])):
            at, from_ = chance.randrange(len(data)), chance.randrange(len(data))
            match chance.randrange(5):
                case 0:
                    data[at] = chance.randrange(128)
                case 1:
                    del data[at : at + chance.choice([1, 20])]
                case 2:
                    data[at:at] = data[from_ : from_ + 60]
                case 3:
                    data[at:at] = b"\r" if chance.random() < 0.5 else b"\0"
                case _:
                    del data[at + 1 :]
        yield data.decode()


SPOILED = {
    "values": tuple(with_other_values()),
    "keys": tuple(f"{place}{key} = 1\n" for place in PLACES for key in KEYS),
    "headers": tuple(header.format(key) for header in ("[{}]\n", "[[{}]]\n", "[night.{}]\n") for key in KEYS),
    "wholes": WHOLES,
    "damage": tuple(damaged()),
}


def test_there_are_five_hundred_of_them() -> None:
    assert len({text for texts in SPOILED.values() for text in texts}) >= 500


def refusal(text: str) -> ConfigError | None:
    try:
        read(text)
    except ConfigError as error:
        return error
    return None


@pytest.mark.parametrize("kind", SPOILED)
def test_what_is_spoiled_is_read_or_refused_in_one_harmless_line(kind: str) -> None:
    """A number with too many digits, a pattern with too many brackets, a key that holds a newline were three that got through."""
    refused = 0
    for text in SPOILED[kind]:
        error = refusal(text)
        if error is None:
            continue
        refused += 1
        said = str(error)
        assert said.isprintable(), (text[:200], said)
        assert len(said) < 700, (text[:200], said[:1000])
        assert said.startswith(f"ralphd.toml:{error.line}: " if error.line else "ralphd.toml: ")
        assert error.line <= text.count("\n") + text.count("\r") + 1
    assert refused > len(SPOILED[kind]) // 3


def test_a_value_that_is_wrong_is_refused_at_its_own_line() -> None:
    """Wherever the parser itself gets that far."""
    for at, line in enumerate(LINES, 1):
        key, found, _ = line.partition("=")
        if not found:
            continue
        for wrong in ("2026-01-01", "9" * 5000, "[[[1]]]", "= 1"):
            with pytest.raises(ConfigError) as caught:
                read("\n".join([*LINES[: at - 1], f"{key}= {wrong}", *LINES[at:]]))
            assert caught.value.line == at, (key, wrong[:20], str(caught.value))


@pytest.mark.parametrize("unit", ["a.", '"a".', "a . ", "[[task]]\n", "w", "[night]\n", "x\n", "a.b ", "\\", "'"])
def test_time_grows_with_the_size_and_not_with_its_square(unit: str) -> None:
    """Ten times the text in well under a hundred times the time, on any machine."""

    def cost(length: int) -> float:
        text = (unit * (length // len(unit) + 1))[:length]
        best = float("inf")
        for _ in range(2):
            begin = time.process_time()
            with pytest.raises(ConfigError):
                read(text + "= [")
            best = min(best, time.process_time() - begin)
        return best

    assert cost(60_000) < 25 * cost(6_000) + 0.5
