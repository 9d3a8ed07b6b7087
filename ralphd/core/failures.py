"""Which kind of inference failure a CLI's structured report, or its last words, tell of.

A report is judged by its names and HTTP status, and by its message where those leave it open. A line of plain text must
begin with the trouble, so that prose about limits, time-outs and exceptions tells nothing.
"""

from __future__ import annotations

import re

from ralphd.core.outcomes import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.signals import Failed

WORDS_CHARS = 300  # the longest error line of a CLI that was recorded has 190

NAMES: dict[str, Kind] = {
    "rapid_refill_breaker": Kind.CONTEXT_OVERFLOW,
    "autocompact_thrashing": Kind.CONTEXT_OVERFLOW,
    "prompt_too_long": Kind.CONTEXT_OVERFLOW,
    "blocking_limit": Kind.CONTEXT_OVERFLOW,
    "image_error": Kind.CONTEXT_OVERFLOW,  # what Claude Code calls a 413
    "request_too_large": Kind.CONTEXT_OVERFLOW,
    "context_length_exceeded": Kind.CONTEXT_OVERFLOW,
    "context_overflow": Kind.CONTEXT_OVERFLOW,
    "contextwindowexceedederror": Kind.CONTEXT_OVERFLOW,  # this and the like: exceptions of litellm
    "billing_error": Kind.QUOTA,
    "insufficient_quota": Kind.QUOTA,
    "usage_limit_reached": Kind.QUOTA,
    "quota": Kind.QUOTA,
    "quota_exceeded": Kind.QUOTA,
    "authentication_failed": Kind.AUTH,
    "authentication_error": Kind.AUTH,
    "permission_error": Kind.AUTH,
    "invalid_api_key": Kind.AUTH,
    "auth": Kind.AUTH,
    "model_not_found": Kind.MODEL_MISSING,
    "model_missing": Kind.MODEL_MISSING,
    "max_output_tokens": Kind.TRUNCATED,
    "truncated": Kind.TRUNCATED,
    "refusal": Kind.REFUSED,
    "refused": Kind.REFUSED,
    "rate_limit": Kind.RATE_LIMITED,
    "rate_limit_error": Kind.RATE_LIMITED,
    "rate_limit_exceeded": Kind.RATE_LIMITED,
    "rate_limited": Kind.RATE_LIMITED,
    "overloaded": Kind.OVERLOADED,
    "overloaded_error": Kind.OVERLOADED,
    "connection_failed": Kind.CONNECTION,
    "connection": Kind.CONNECTION,
    "timeout_error": Kind.CONNECTION,
    "stalled": Kind.STALLED,
    "malformed": Kind.MALFORMED,
    "contentpolicyviolationerror": Kind.REFUSED,
    "apiconnectionerror": Kind.CONNECTION,
}
VAGUE_NAMES: dict[str, Kind] = {  # said of several things at once: status and words are better
    "not_found_error": Kind.MODEL_MISSING,
    "server_error": Kind.CONNECTION,
    "api_error": Kind.CONNECTION,
    "invalid_request": Kind.MALFORMED,
    "invalid_request_error": Kind.MALFORMED,
}
STATUSES: dict[int, Kind] = {
    400: Kind.MALFORMED,
    401: Kind.AUTH,
    402: Kind.QUOTA,
    403: Kind.AUTH,
    404: Kind.MODEL_MISSING,
    408: Kind.CONNECTION,
    409: Kind.CONNECTION,
    413: Kind.CONTEXT_OVERFLOW,
    422: Kind.MALFORMED,
    425: Kind.CONNECTION,
    429: Kind.RATE_LIMITED,
    503: Kind.OVERLOADED,
    529: Kind.OVERLOADED,
}


def _words(kind: Kind, *patterns: str) -> tuple[Kind, re.Pattern[str]]:
    return kind, re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


# A limit that was hit, not the warning "You've used 90% of your session limit".
QUOTA_WORDS = _words(
    Kind.QUOTA,
    r"you(?:'| ha)?ve (?:hit|reached|exceeded) your [^.]{0,60}(?:limit|quota)",
    r"[\w' -]{0,40}(?:usage|session|weekly|monthly|daily|spending|spend|\d+-hour) (?:limit|cap)"
    r" (?:has been |was )?(?:reached|hit|exceeded)",
    r"(?:your )?credit balance is too low",
    r"insufficient (?:quota|credits?|funds|balance)",
    r"(?:quota exceeded|(?:you )?exceeded your current quota)",
    r"(?:you're|you are) out of (?:extra )?(?:usage|credits?)",
    r"[\w' ]{0,60}usage (?:has been |is |was )?disabled",
)
WORDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    QUOTA_WORDS,
    _words(
        Kind.CONTEXT_OVERFLOW,
        "prompt is too long",
        "autocompact is thrashing",
        "input is too long",
        "context (?:window|length) exceeded",
        "ran out of room in the model's context",
        r"[\w' ]{0,40}maximum context length is",
        r"[\w' ]{0,40}input token count [^.]{0,40}exceeds the maximum",
        "range of input length should be",
        "ContextWindowExceededError",
    ),
    _words(
        Kind.AUTH,
        "not logged in",
        "please set an auth method",
        "invalid auth method selected",
        "no auth type is selected",
        "please run /login",
        "(?:invalid|incorrect|missing) (?:x-)?(?:api|auth)[ -]?(?:key|token)",
        "failed to authenticate",
        "no api key found for",
        "authentication[ _]?(?:error|failed)",
        "(?:401 )?unauthorized",
        "oauth token (?:has )?(?:expired|been revoked)",
    ),
    _words(
        Kind.MODEL_MISSING,
        "there's an issue with the selected model",
        r"model (?:\"[^\"]{1,200}\" )?not found",
        "no such model",
        r"models/\S{1,80} is not found",
    ),
    _words(
        Kind.OVERLOADED,
        r"overloaded(?:_error)?(?:[.:!]|$)",
        "(?:529|503) (?:overloaded|service)",
        "service unavailable",
        "selected model is at capacity",
        "ServiceUnavailableError:",
    ),
    _words(
        Kind.RATE_LIMITED,
        "rate limited",
        "rate limit (?:reached|exceeded|hit)",
        "too many requests",
        "rate_limit_",
        "RateLimitError:",
    ),
    _words(
        Kind.CONNECTION,
        r"connection (?:refused|reset|dropped|error|closed|timed out)",
        "unable to connect",
        "cannot connect to api",
        "request timed out",
        "(?:connect )?ECONN[A-Z]+",
        "ETIMEDOUT",
        "ENOTFOUND",
        "EAI_AGAIN",
        "internal ?server ?error",
        "APIConnectionError:",
        "fetch failed",
        "socket hang up",
    ),
    _words(Kind.REFUSED, r"[^.]{0,80}safeguards flagged", "unable to respond to this request"),
    _words(Kind.TRUNCATED, "model stream ended", r"[\w' ]{0,40}response exceeded the \d+ output token maximum"),
)
_PREFIX = re.compile(
    r"[\[(]?(?:(?:api error|error|fatal|fatal error|claude|exception)\b[:\s\W]{0,3}){0,2}", re.IGNORECASE
)
# A line of opencode's log: … level=ERROR … error="ProviderModelNotFoundError: Model not found: …" …
_LOGGED = re.compile(r"\blevel=ERROR\b.{0,300}?\berror=\"(?:\w{1,60}: )?([^\"]{1,300})")
_STATUS = re.compile(
    r"api error:? \(?([45]\d\d)\b|request rejected \((\d{3})\)|http(?: status)? ([45]\d\d)\b", re.IGNORECASE
)


def kind_of(failed: Failed) -> Kind | None:
    """Return the kind of a structured failure, or None if it tells of none."""
    names = failed.error.lower().replace(",", " ").split()
    kind = _first(NAMES, names) or _by_status(failed.status or _status_in(failed.message))
    if kind in (None, Kind.RATE_LIMITED, Kind.AUTH, Kind.MALFORMED) and QUOTA_WORDS[1].search(_flat(failed.message)):
        return Kind.QUOTA
    if kind in (None, Kind.MALFORMED):
        return _search(failed.message) or kind or _first(VAGUE_NAMES, names)
    return kind


def kind_of_words(line: str) -> Kind | None:
    """Return the kind that a short line of plain text begins with, or None."""
    logged = _LOGGED.search(line)
    line = logged[1] if logged else line
    if not 0 < len(line) <= WORDS_CHARS:
        return None
    line = _flat(line)
    told = _STATUS.match(line.lstrip("[ "))
    start = _PREFIX.match(line)
    at = start.end() if start else 0
    found = next((kind for kind, words in WORDS if words.match(line, at)), None)
    return found or (_by_status(int(told[1] or told[2] or told[3])) if told else None)


def _first(table: dict[str, Kind], names: list[str]) -> Kind | None:
    return next((table[name] for name in names if name in table), None)


def _by_status(status: int | None) -> Kind | None:
    if status is None:
        return None
    return STATUSES.get(status, Kind.CONNECTION if status >= 500 else None)


def _status_in(message: str) -> int | None:
    """Find the status in a message of the CLI, where it names none beside it."""
    told = _STATUS.search(message[:WORDS_CHARS])
    return int(told[1] or told[2] or told[3]) if told else None


def _search(message: str) -> Kind | None:
    return next((kind for kind, words in WORDS if words.search(_flat(message))), None)


def _flat(words: str) -> str:
    return words[: 2 * WORDS_CHARS].replace("\u2019", "'")  # the typographic apostrophe
