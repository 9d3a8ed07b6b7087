"""How fast secrets are taken out of what agents say."""

from __future__ import annotations

import json
import time
from statistics import median

from benchmarks.table import Row
from ralphd.core.redact import Redactor

GOAL_MIB_S = 10.0
KNOWN = tuple(f"a-value-that-was-passed-on-{n}-{'x1' * n}" for n in range(12))
TALK = "def parse(tokens, key):\n    return next(token for token in tokens if token.key == key)  # see https://example.org/a?b=c\n"
SPOKEN = 1 << 20  # bytes of a round, in texts as the journal gets them


def measure(runs: int = 6) -> list[Row]:
    prose, dense = _texts(hits=False), _texts(hits=True)
    redact = Redactor(KNOWN)
    plain = [_mib_a_second(redact, prose) for _ in range(runs)]
    full = [_mib_a_second(redact, dense) for _ in range(runs)]
    return [
        _row("redaction of what an agent says, 12 known values", plain),
        _row("  the same with a secret every 500 bytes", full),
    ]


def _row(what: str, found: list[float]) -> Row:
    return Row(what=what, unit="MiB/s", ours=median(found), judged=tuple(found), goal=GOAL_MIB_S, at_least=True)


def _texts(*, hits: bool) -> list[str]:
    page = json.dumps({"type": "text", "text": TALK * 4})
    secret = f" the key is {KNOWN[3]} or sk-ant-api03-AbCdEfGh1234567890-xyz"
    text = page + secret if hits else page
    return [text] * (SPOKEN // len(text))


def _mib_a_second(redact: Redactor, texts: list[str]) -> float:
    began = time.process_time()
    for text in texts:
        redact.text(text)
    return sum(map(len, texts)) / (1 << 20) / (time.process_time() - began)
