"""What tokens come to where the CLI tells no cost, by the list prices that genai-prices ships. Nothing is fetched."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ralphd.core.records import Usage

# Whose list a bare name is looked up in. Another name may be anybody's model behind anybody's endpoint, or one's own.
MAKERS = {
    "claude-": "anthropic",
    "gemini-": "google",
    "gpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "codex-": "openai",
}
PROVIDERS = {"gemini": "google", "vertex_ai": "google", "xai": "x-ai"}  # as CLIs call them -> as the list does
MODELS_KEPT = 64  # a night has a handful; a program can make up a new name each time it tells one
UNIT_TOKENS = 1000  # a request this small has the base price: usage is of many requests, none as large as their sum


def price(usage: Usage) -> float | None:
    """Return dollars, or None where the model, its price or the tokens are not known.

    The CLI's own figure is better wherever there is one. Long-context surcharges are left out.
    """
    rates = _rates(usage.model) if usage.model and None not in (usage.tokens_in, usage.tokens_out) else None
    if rates is None:
        return None
    counts = (usage.tokens_in or 0, usage.cache_read or 0, usage.tokens_out or 0)
    return sum(count * rate for count, rate in zip(counts, rates, strict=True))


@lru_cache(MODELS_KEPT)
def _rates(model: str) -> tuple[float, float, float] | None:
    """Return dollars a token: of input, of input from the cache, of output."""
    provider, name = _maker(model)
    if not provider:
        return None
    from genai_prices import Usage, calc_price  # noqa: PLC0415  # a quarter of a second, and most commands need none

    kinds = (
        Usage(input_tokens=UNIT_TOKENS),
        Usage(input_tokens=UNIT_TOKENS, cache_read_tokens=UNIT_TOKENS),
        Usage(output_tokens=UNIT_TOKENS),
    )
    try:
        fresh, cached, out = (
            float(calc_price(kind, name, provider_id=provider).total_price) / UNIT_TOKENS for kind in kinds
        )
    except LookupError:
        return None
    return fresh, cached, out


def _maker(model: str) -> tuple[str, str]:
    """Return the provider in the list and the model's name there; an empty provider: nobody's for certain."""
    provider, _, name = model.partition("/")
    if name and provider != "models":
        return PROVIDERS.get(provider, provider), name
    bare = name or model
    return next((maker for start, maker in MAKERS.items() if bare.startswith(start)), ""), bare
