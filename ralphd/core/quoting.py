"""How words that are not ours go into a prompt."""

from __future__ import annotations

QUOTED_CHARS = 2000  # of foreign words in a note: a page


def quoted(text: str) -> str:
    """Mark foreign words as words: each line behind ``> ``, no more than a page, and nothing that moves or hides."""
    lines = "".join(char if char.isprintable() else " " if char != "\n" else char for char in text[-QUOTED_CHARS:])
    return "\n".join(f"> {line}" for line in lines.splitlines()) or "> (nothing)"
