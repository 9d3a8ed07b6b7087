"""Names that somebody could give a loop, a night, a task or a file to get out of where it belongs."""

from __future__ import annotations

import random
from collections.abc import Iterator

SEEDS = (
    "..", ".", "/", "~", "-", "--", "-rf", "--help", "\0", "\n", "\r\n", "\t", " ", "\u202e", "\u200b", "é", "e\u0301", "\uff21\uff22",
    "\u0430", "🐉", "%2e%2e", "%00", "\\", "\\\\?\\C:", "C:", "nul", "con", "$(id)", "`id`", "${IFS}", "#(touch x)", "#{pane_id}", ";id",
    "|id", "&", "'", '"', "*", "?", "[a]", "{a,b}", "!", "^", "@{-1}", "a:b", "refs/heads/x", ".git", ".lock", "a.lock", "=", "=a", "%1",
    "$1", "@0", "+1", "loop-1", "night", "used", "logs", "con1", "\x1b[31m", "\x9b", "\udcff", "\ud800", "A", "a_b", "a b", "a.b", "\u0661",
)  # fmt: skip


def hostile_names(count: int, seed: int) -> Iterator[str]:
    """Yield ``count`` names: each piece alone, then mixed with one another, with steps upwards and with length."""
    chance = random.Random(seed)
    yield from ("", *SEEDS)
    for _ in range(count - len(SEEDS) - 1):
        pieces = [chance.choice(SEEDS) for _ in range(chance.randint(1, 6))]
        name = chance.choice(("", "/", "-", "..", "../", " ")).join(pieces)
        yield name * chance.choice((1, 1, 1, 1, 40))
