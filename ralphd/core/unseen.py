"""What no screen shows of a text: sequences that steer a terminal, and characters that have no picture and no width."""

from __future__ import annotations

import re

# CSI, OSC (title, clipboard, links) and the short escapes; bounded, so that no text makes it slow.
ESCAPE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x9d\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]{0,8}[0-~]?"
)
# Of letters and marks those that are there to be ignored: joiners, selectors of a variant, fillers.
IGNORED = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
_SPACE_THAT_IS_NONE = "\x1c\x1d\x1e\x1f"


def without(text: str) -> str:
    """Return what is seen of ``text``, its lines and spaces kept. It may not be harmless yet: that is for views."""
    if not text.isprintable():  # most is; and a pane that never sees anything else compiles no pattern for it
        text = "".join(filter(_seen, re.sub(ESCAPE, "", text)))
    return text if text.isascii() else re.sub(IGNORED, "", text)


def _seen(char: str) -> bool:
    return char.isprintable() or (char.isspace() and char not in _SPACE_THAT_IS_NONE)
