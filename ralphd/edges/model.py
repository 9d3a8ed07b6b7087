"""The supervisor's model: one question to an endpoint that speaks the Messages API, and the raw answer.

The anthropic package is loaded when a model is set, never before: it costs some 70 MiB and a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ralphd.core.advice import Question
from ralphd.core.answer import ANSWER_MOST_BYTES
from ralphd.core.errors import AdviserError
from ralphd.core.exchange import SUPERVISOR_KEY

# The supervisor's own key serves any endpoint; for the vendor's own address the usual name will do too.
VENDOR_KEY = "ANTHROPIC_API_KEY"
VENDOR_URL = "https://api.anthropic.com"
NO_KEY = "none"  # what an endpoint of one's own gets that asks for no key
ANSWER_TOKENS = 1024  # a call with a few numbers and a sentence takes some 150
MORE_TOKENS = 256  # for each more question in the request
CONNECT_S = 5.0
ANSWER_S = 25.0  # for the whole answer; with the connection it stays under the patience of half a minute
# What a request may carry, the last by which the client knows that a raw answer is wanted. Everything else that a
# package or its environment adds stays here.
HEADERS = frozenset(
    {
        "accept", "accept-encoding", "anthropic-version", "connection", "content-length", "content-type", "host",
        "transfer-encoding", "user-agent", "x-api-key", "x-stainless-raw-response",
    },
)  # fmt: skip


class PolicyOnly:
    """No model is set: nobody is ever asked."""

    model = ""

    def ask(self, question: Question) -> bytes:
        del question
        raise AdviserError("no model is set")

    def reach(self) -> None:
        raise AdviserError("no model is set")

    def close(self) -> None:
        """Nothing runs."""


def key_of(environ: Mapping[str, str], base_url: str) -> str:
    """Return the key for an endpoint; the vendor's is for the vendor's own address alone."""
    return environ.get(SUPERVISOR_KEY) or ("" if base_url else environ.get(VENDOR_KEY, ""))


class MessagesModel:
    """The working adviser. Raises AdviserError for everything but a whole answer with status 200.

    The client's own retries are off: whoever calls knows when to ask again, and what to do meanwhile.
    """

    def __init__(self, model: str, base_url: str, key: str, clock: Callable[[], float] = time.monotonic) -> None:
        import anthropic  # noqa: PLC0415  # only where a model is set

        self.model = model
        self._clock = clock
        http = anthropic.DefaultHttpxClient(
            follow_redirects=False,
            event_hooks={"request": [lambda request: _strip(request, key or NO_KEY)]},
            timeout=_timeouts(anthropic),
        )
        self._client = anthropic.Anthropic(
            api_key=key or NO_KEY,
            base_url=base_url or VENDOR_URL,
            max_retries=0,
            http_client=http,
            open_telemetry=False,
        )

    def ask(self, question: Question) -> bytes:
        system = [{"type": "text", "text": question.system, "cache_control": {"type": "ephemeral"}}]
        return self._send(
            max_tokens=ANSWER_TOKENS + (question.answers - 1) * MORE_TOKENS,
            system=system,
            messages=[{"role": "user", "content": question.text}],
            tools=list(question.tools),
            tool_choice={"type": "any", "disable_parallel_tool_use": question.answers == 1},
        )

    def reach(self) -> None:
        self._send(max_tokens=1, messages=[{"role": "user", "content": "Answer with one word."}])

    def close(self) -> None:
        self._client.close()

    def _send(self, **request: Any) -> bytes:
        until = self._clock() + ANSWER_S
        try:
            with self._client.messages.with_streaming_response.create(model=self.model, **request) as response:
                return self._take(response, until)
        except AdviserError:
            raise
        except Exception as error:  # noqa: BLE001  # the packages below have error trees of their own
            raise AdviserError(_words(error), floor_s=_floor_s(error)) from None

    def _take(self, response: Any, until: float) -> bytes:
        """Read a bounded answer in bounded time: an endpoint that drips bytes for ever is as good as down."""
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > ANSWER_MOST_BYTES:
                break  # too long already to count
            if self._clock() > until:
                raise AdviserError(f"no whole answer within {ANSWER_S:g} s")
        return bytes(body)


def adviser(model: str, base_url: str, environ: Mapping[str, str]) -> PolicyOnly | MessagesModel:
    """Return who is to be asked."""
    return MessagesModel(model, base_url, key_of(environ, base_url)) if model else PolicyOnly()


def _timeouts(anthropic: Any) -> Any:
    return anthropic.Timeout(ANSWER_S, connect=CONNECT_S)


def _strip(request: Any, key: str) -> None:
    """Leave what is needed and our own key: variables of the environment may add headers, and replace the key."""
    for name in [name for name in request.headers if name.lower() not in HEADERS]:
        del request.headers[name]
    if "x-api-key" in request.headers:
        request.headers["x-api-key"] = key
    else:
        request.headers["authorization"] = f"Bearer {key}"


def _words(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    said = " ".join(str(error).split())[:200] or type(error).__name__
    return f"HTTP {status}: {said}" if status else said


def _floor_s(error: Exception) -> float:
    """Return what the server says to wait; a text that is no number says nothing."""
    response = getattr(error, "response", None)
    try:
        told = float(response.headers.get("retry-after", "")) if response is not None else 0.0
    except ValueError:
        return 0.0
    return min(max(told, 0.0), 86_400.0)
