"""Whether the last words that a program printed are a dialog: about trust, a login, a permission, a key to press.

Words alone are no evidence of anything: ask only about a program that fell silent behind them, or that gave up there.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LOOK_AT_CHARS = 2000  # of a line
QUESTION_CHARS = 200

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[ -/]{0,4}[0-~])")
_ORNAMENTS = re.compile(r"[\s\u2500-\u259f\u25a0-\u25ff\u2770-\u2771\u276f\u203a>*|]+")
_SHAPES = (
    r"\b(?:do|can|should) (?:you|we|i) (?:want to )?(?:trust|allow|proceed|continue|run|permit|accept)\b.{0,120}\?",
    r"\bdo you want to .{1,120}\?",
    r"\btrust (?:the (?:files|contents|authors) (?:in|of)|this|parent) .{0,80}\b(?:folder|director|workspace)",
    r"\bone you trust\?",
    r"\byes, (?:i trust|proceed|i accept|and don't ask)",
    r"\bno, (?:exit|quit|cancel|keep)",
    r"\ballow (?:this|once|always|execution|command|access)\b.{0,80}[?:]",
    r"[\[(]y(?:es)?/no?(?:/.{1,40})?[\])]\s?\??:?\s?$",
    r"\bpress (?:enter|return|any key|y)\b",
    r"\b(?:log|sign) ?in (?:with|at|to|using|method)\b",
    r"\b(?:visit|open|go to|browse to) .{0,60}https?://.{1,200}",
    r"\bwaiting for (?:auth|authentication|authorization|login|browser|user|input|approval|confirmation)",
    r"\b(?:enter|paste|type|provide) (?:your |the |an? )?(?:api[ -]?key|password|passphrase|token|username)",
    r"\b(?:enter|paste|type) (?:your |the |an? )?(?:one-time |login |authori[sz]ation |verification )?code\b",
    r"^(?:password|passphrase|username|login|token)\b.{0,120}:\s?$",
    r"\bhow would you like to (?:auth|log|sign|proceed)",
    r"\bselect (?:a |an |the |your )?(?:login|auth|account|option|theme|model)\b",
    r"\bapproval (?:is )?(?:required|needed)\b",
)
_QUESTION = re.compile("|".join(_SHAPES), re.IGNORECASE)


def question_in(lines: Iterable[str]) -> str:
    """Return the first of the lines that belongs to a dialog, as plain text; empty when none does."""
    return next((shown[:QUESTION_CHARS] for line in lines if _QUESTION.search(shown := plain(line))), "")


def plain(line: str) -> str:
    """Return what a person sees of a line: without control sequences, frames and the marks of a selection."""
    line = _ESCAPES.sub("", line[:LOOK_AT_CHARS]).replace("\u2019", "'")
    return _ORNAMENTS.sub(" ", line).strip()
