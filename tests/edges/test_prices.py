"""Dollars for tokens: the list's where they are certain, unknown otherwise, and nothing from the network."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from ralphd.core.records import Usage
from ralphd.edges.prices import price

MILLION = 1_000_000


def usage(model: str, tokens_in: int | None = 0, tokens_out: int | None = 0, cache_read: int | None = 0) -> Usage:
    return Usage(model=model, tokens_in=tokens_in, tokens_out=tokens_out, cache_read=cache_read)


@pytest.mark.parametrize(
    "model", ["gemini-2.5-pro", "models/gemini-2.5-pro", "gemini/gemini-2.5-pro", "google/gemini-2.5-pro"]
)
def test_input_output_and_what_the_cache_gave_have_prices_of_their_own(model):
    fresh, out, cached = (
        price(usage(model, MILLION)),
        price(usage(model, 0, MILLION)),
        price(usage(model, 0, 0, MILLION)),
    )
    assert out > fresh > cached > 0
    assert price(usage(model, MILLION, MILLION, MILLION)) == pytest.approx(fresh + out + cached)


def test_a_nights_tokens_are_many_requests_and_none_of_them_is_a_long_one():
    """The list has a higher price for a request beyond 200 000 tokens; a trajectory's sum is no request."""
    assert price(usage("gemini-2.5-pro", MILLION)) == pytest.approx(1000 * price(usage("gemini-2.5-pro", 1000)))


@pytest.mark.parametrize(
    "model", ["claude-sonnet-4-5", "claude-sonnet-4-5[1m]", "gpt-5-codex", "openai/gpt-5", "anthropic/claude-opus-4-5"]
)
def test_models_of_known_makers_have_a_price(model):
    assert price(usage(model, 1000, 1000)) > 0


@pytest.mark.parametrize(
    "model", ["", "fake-model", "qwen3-coder", "gpt-9000-imaginary", "nobody/model", "deepseek-chat", "/", "a/b/c"]
)
def test_a_model_of_anybodys_is_unknown_and_not_free(model):
    """qwen3-coder may run on one's own machine: a list price would be made up."""
    assert price(usage(model, 1000, 1000)) is None


@pytest.mark.parametrize(("tokens_in", "tokens_out"), [(None, None), (None, 5), (5, None)])
def test_unknown_tokens_have_no_price(tokens_in, tokens_out):
    assert price(usage("gemini-2.5-pro", tokens_in, tokens_out)) is None


def test_tokens_of_an_untold_cache_are_none():
    assert price(usage("gemini-2.5-pro", 1000, 0, None)) == price(usage("gemini-2.5-pro", 1000, 0, 0))


def test_nothing_used_costs_nothing():
    assert price(usage("gemini-2.5-pro")) == 0.0


def test_no_price_is_fetched(monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert price(usage("gemini-2.0-flash", 1000, 1000)) is not None


def test_the_list_is_loaded_only_where_a_price_is_asked_for():
    code = (
        "import sys; import ralphd.cli.reports; from ralphd.edges.prices import price; from ralphd.core.records import Usage;"
        "price(Usage()); price(Usage(model='qwen3-coder', tokens_in=1, tokens_out=1)); print('genai_prices' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"
