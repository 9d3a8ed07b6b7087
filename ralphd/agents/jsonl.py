"""The JSON objects on a line of an agent's output, and those of their values that have the right type."""

from __future__ import annotations

import json
from math import isfinite

from ralphd.agents.lines import OVERLONG
from ralphd.core.signals import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RESULT_CHARS = 16384  # of a final answer, which is held to the end
LONGEST_WAIT_S = 31 * 86400.0  # a monthly quota; a program that names more would hold its loop for ever
OBJECTS = 1000  # on one line; two glued events are the most that was ever seen
TEXT_CHARS = 4096  # of a tool result or a plain line: more than a digest shows or a rule reads
_BETWEEN = (" ", "\t", "\r", "\0")
_DECODER = json.JSONDecoder(strict=False)  # a raw NUL or tab within a string is no reason to lose an event


def objects(line: bytes) -> tuple[list[dict[str, object]], str]:
    """Return the JSON objects that begin ``line``, glued or apart, and the text left over.

    What follows a broken piece is left over too: inside a cut string anything may look like an event.
    """
    if line == OVERLONG:
        return [], ""
    text = line.decode("utf-8", "replace").strip(" \t\r\n\0\ufeff")
    found: list[dict[str, object]] = []
    at = 0
    while text.startswith("{", at) and len(found) < OBJECTS:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        found.append(value)
        while text[at : at + 1] in _BETWEEN:
            at += 1
    return found, text[at:]


def plain(rest: str) -> str:
    """Return ``rest`` if it may be plain text; a piece of JSON is nobody's words, but for what an error quotes."""
    piece = rest.startswith("{") or (rest.endswith("}") and not rest.startswith("API Error"))
    return "" if piece else rest[:TEXT_CHARS]


def record(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def records(value: object) -> Iterator[dict[str, object]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def real(value: object) -> float | None:
    """Return a finite number that is not negative, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if isfinite(value) and value >= 0 else None
    except OverflowError:  # an integer of thousands of digits
        return None


def whole(value: object) -> int:
    """Return a count; 0 for anything that is none."""
    number = real(value)
    return 0 if number is None else int(number)


def count(value: object) -> int | None:
    """Return a count, or None for anything that is none: who tells nothing of it has not told 0."""
    number = real(value)
    return None if number is None else int(number)


def status(value: object) -> int | None:
    """Return an HTTP status that says something failed, or None."""
    number = whole(value)
    return number if 400 <= number <= 599 else None


def error_object(event: dict[str, object], start: int, end: int) -> Failed | None:
    """Read an API's own error object, as some programs print it bare: ``{"type":"error","error":{"type":…}}``."""
    kind, inner = event.get("type"), event.get("error")
    if kind != "error" and (kind is not None or not ("error" in event or "http_status" in event)):
        return None
    told = record(inner)
    wait_s = real(event.get("retry_after_s", event.get("retry_after")))
    return Failed(
        start=start,
        end=end,
        status=next((code for code in map(status, _statuses(event, told)) if code), None),
        error=(text(inner) or text(told.get("type")) or text(told.get("code")))[:200],
        message=(text(told.get("message")) or text(event.get("message")))[:TEXT_CHARS],
        retry_after_s=None if wait_s is None else min(wait_s, LONGEST_WAIT_S),
        retry_after=text(event.get("retry_after"))[:200],
        resets_at=real(event.get("resets_at")),
    )


def _statuses(event: dict[str, object], told: dict[str, object]) -> list[object]:
    return [source.get(name) for source in (event, told) for name in ("status", "http_status", "status_code", "code")]
