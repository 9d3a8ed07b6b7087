"""What must not be written down: exact known secrets, then everything that has the shape of one."""

from __future__ import annotations

import json
import re

from ralphd.core import unseen

MARK = "[redacted]"
SHORTEST_VALUE = 6  # characters; a shorter "secret" would blank half the journal
SHORTEST_TOKEN = 15  # characters of the shortest shape that is one word

# Values under these names are ralphd's own names and places: recovery reads them back, so they stay as they are.
WORKING = frozenset(
    {
        "base", "boot_id", "branch", "commit", "file", "folder", "head", "head_after", "head_before", "id", "kind",
        "log", "loop", "night_repository", "nonce", "output", "pane", "pod", "prompt", "prompt_sha256", "ref",
        "repository", "reset_to", "score", "session", "task", "template", "tree", "type", "worktree",
    },
)  # fmt: skip
# Below these names everything is somebody else's text, whatever it calls its keys.
FOREIGN = frozenset({"detail", "config", "slots"})

_SECRET_NAME = re.compile(r"(?i)passw|secret|credential|api_?key|private_?key|(?:^|[_-])token$|^authorization$")

# What a text must hold (in small letters) before the pattern is looked for: that is ten times quicker than to look.
# A pattern is compiled when first needed: most panes never see one, and each costs memory in every pane.
# Every class is bounded or starts at a token's beginning: no text makes one of these slow.
_SHAPES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("private key",),
        (
            r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
        ),
        MARK,
    ),
    (("sk-ant-",), r"(?<![A-Za-z0-9])sk-ant-[A-Za-z0-9_-]{8,}+", MARK),
    (("sk-",), r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{16,}+", MARK),
    (("gh",), r"(?<![A-Za-z0-9])gh[a-z]_[A-Za-z0-9]{20,}+", MARK),
    (("github_pat_",), r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{20,}+", MARK),
    (("glpat-",), r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{16,}+", MARK),
    (("xox",), r"(?<![A-Za-z0-9])xox[a-z]-[A-Za-z0-9-]{10,}+", MARK),
    (("akia", "asia"), r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])", MARK),
    (("aiza",), r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30,}+", MARK),
    (
        ("hf", "npm", "pypi", "dckr_pat"),
        r"(?<![A-Za-z0-9])(?:hf|npm|pypi|dckr_pat)[_-](?=[A-Za-z_-]{0,64}\d)[A-Za-z0-9_-]{20,}+",
        MARK,
    ),
    (("eyj",), r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?", MARK),
    (("://",), r"://[^\s/?#:@]{0,256}+:[^\s/?#]{1,1024}@", f"://{MARK}@"),
    (("://",), r"://[^\s/?#:@]{16,1024}+@", f"://{MARK}@"),
    (
        ("bearer", "basic"),
        r"(?i)\b(bearer|basic)[ \t]{1,8}(?=[^\s\d]{0,256}\d)[A-Za-z0-9._~+/=-]{8,}+",
        rf"\1 {MARK}",
    ),
    (
        ("key", "secret", "passw", "token"),
        (
            r"(?i)(api[_-]?key|secret(?:[_-]?key)?|passw(?:or)?d|access[_-]?token|auth[_-]?token)"
            r"([\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?)(?=[^\s\"',;\d]{0,256}\d)[^\s\"',;\[\]]{6,}+"
        ),
        rf"\1\2{MARK}",
    ),
)
_COMPILED: dict[str, re.Pattern[str]] = {}


def _shape(pattern: str) -> re.Pattern[str]:
    if pattern not in _COMPILED:
        _COMPILED[pattern] = re.compile(pattern)
    return _COMPILED[pattern]


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def _percent(value: str) -> str:
    """Return what urllib.parse.quote makes of it, which would cost every pane 300 KiB."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in value.encode("utf-8", "replace"))


def _forms(value: str) -> set[str]:
    """Return the ways a known value may appear: itself, percent-encoded, quoted, and its longer lines."""
    lines = {line.strip() for line in value.splitlines() if len(line.strip()) >= 2 * SHORTEST_VALUE}
    quoted = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    return {value, value.strip(), unseen.without(value), _percent(value), *lines, *quoted}


def secrets_of(passed: dict[str, str], written: dict[str, str]) -> tuple[str, ...]:
    """Return what of an agent's environment nobody may read: all that is passed on, and what is written down as one."""
    return (*passed.values(), *(value for name, value in written.items() if _SECRET_NAME.search(name)))


class Redactor:
    """Replaces secrets by ``[redacted]``. ``values``: known ones; those under ``shortest`` characters are ignored."""

    def __init__(self, values: tuple[str, ...] | list[str] = (), *, shortest: int = SHORTEST_VALUE) -> None:
        self._shortest = shortest
        self._forms: frozenset[str] = frozenset()
        self._known: re.Pattern[str] | None = None
        self.learn(values)

    def learn(self, values: tuple[str, ...] | list[str]) -> None:
        """Take more known secrets in. What was known stays known: it may turn up late."""
        forms = {form for value in values for form in _forms(value) if len(form) >= self._shortest}
        if forms <= self._forms:
            return
        self._forms |= forms
        longest_first = sorted(self._forms - {MARK}, key=lambda form: (-len(form), form))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Return ``text`` without secrets. Where one comes together once the unseen is gone, all the unseen is."""
        seen = unseen.without(text)
        if seen != text and (hidden := self._hidden(seen)) != seen:
            return hidden  # first of all: of one that a colour stands in, the part before may have its shape alone
        return self._hidden(text)

    def _hidden(self, text: str) -> str:
        if len(text) < self._shortest:
            return text
        if self._known is not None:
            text = self._known.sub(MARK, text)
        if len(text) < SHORTEST_TOKEN and text.isidentifier():
            return text  # most names of fields: half the cost of a row
        small = text.lower()
        for hints, shape, instead in _SHAPES:
            if any(hint in small for hint in hints):
                text = _shape(shape).sub(instead, text)
        return text

    def data(self, data: object) -> object:
        """Return JSON-ready data without secrets; values under ``WORKING`` names are kept."""
        return self._clean(data, foreign=False)

    def _clean(self, data: object, *, foreign: bool) -> object:
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, (list, tuple)):
            return [self._clean(item, foreign=foreign) for item in data]
        if isinstance(data, dict):
            return {self.text(str(key)): self._item(str(key), item, foreign) for key, item in data.items()}
        return data

    def _item(self, key: str, item: object, foreign: bool) -> object:
        if isinstance(item, str):
            if not foreign and key in WORKING:
                return item
            if item and _SECRET_NAME.search(key):
                return MARK
        return self._clean(item, foreign=foreign or key in FOREIGN)
