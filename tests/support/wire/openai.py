"""How do both of OpenAI's protocols tell of an error and of tokens?"""

from __future__ import annotations

from typing import Any

from support.model_script import Refusal

TOO_LONG = "This model's maximum context length is 100000 tokens. However, your messages resulted in 120000 tokens."
CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
PING = ": keep-alive\n\n"


def refused(refusal: Refusal, number: int) -> dict[str, Any]:
    code = "context_length_exceeded" if refusal.too_long else refusal.error or CODES.get(refusal.status)
    words = refusal.message or (TOO_LONG if refusal.too_long else "scripted error")
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {"error": {"message": words, "type": kind, "param": None, "code": code}}
