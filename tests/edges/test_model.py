"""The supervisor's model over the real wire: what leaves the machine, what comes back, and what counts as down."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from support.endpoint import Received, Reply, free_port, message, said, serving

from ralphd.core.advice import Case, Row, question
from ralphd.core.answer import ANSWER_MOST_BYTES, Advice, read
from ralphd.core.errors import AdviserError
from ralphd.edges.model import MessagesModel, PolicyOnly, adviser, key_of

ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "canary-api-key-1",
    "ANTHROPIC_AUTH_TOKEN": "canary-auth-token-2",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Canary: canary-header-3\nAuthorization: Bearer canary-4",
    "ANTHROPIC_PROFILE": "canary-profile-5",
    "SOME_SECRET": "canary-some-6",
    "HTTP_PROXY": "",
}


class Offer:
    name, why = "carry_on", "so"


ASKED = question(
    Case(trouble="t", facts=(), rows=(Row(id=7, text="what happened"),), excerpt="a log"),
    [Offer()],
    system="the rules",
    fence="f" * 32,
    hide=str,
)
GOOD = message("carry_on", {"evidence": [7], "why": "so"})


def model(url: str, key: str = "own-key", **more: object) -> MessagesModel:
    return MessagesModel("some-model", url, key, **more)


def test_a_question_and_its_answer_travel_whole():
    with serving(lambda _: said(GOOD)) as endpoint:
        body = model(endpoint.url).ask(ASKED)
    told, spent = read(ASKED, body)
    assert told == Advice(choice="carry_on", evidence=(7,), why="so")
    assert spent.tokens_in == 1000
    (got,) = endpoint.received
    assert got.path == "/v1/messages"
    assert got.body["model"] == "some-model"
    assert got.body["system"][0]["text"] == "the rules"
    assert got.body["messages"] == [{"role": "user", "content": ASKED.text}]
    assert [tool["name"] for tool in got.body["tools"]] == ["carry_on"]
    assert got.body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}


def test_several_questions_in_one_request_may_be_answered_by_as_many_calls():
    with serving(lambda _: said(GOOD)) as endpoint:
        model(endpoint.url).ask(replace(ASKED, answers=3))
    (got,) = endpoint.received
    assert got.body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": False}
    assert got.body["max_tokens"] == 1024 + 2 * 256


def test_an_address_with_a_path_is_kept():
    with serving(lambda _: said(GOOD)) as endpoint:
        model(f"{endpoint.url}/proxy/").ask(ASKED)
    assert endpoint.received[0].path == "/proxy/v1/messages"


def test_nothing_of_the_environment_leaves_with_a_request(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with serving(lambda _: said(GOOD)) as endpoint:
        chosen = adviser("m", endpoint.url, {**ENVIRONMENT, "RALPHD_SUPERVISOR_KEY": "own-key"})
        chosen.ask(ASKED)
        chosen.reach()
        chosen.close()
    assert len(endpoint.received) == 2
    assert {got.headers["authorization"] for got in endpoint.received} == {"Bearer own-key"}
    for got in endpoint.received:
        assert "canary" not in got.everything
        assert {name.lower() for name in got.headers} <= {
            "host", "accept", "accept-encoding", "connection", "content-length", "content-type", "user-agent", "authorization",
            "anthropic-version", "x-stainless-raw-response",
        }  # fmt: skip


def test_its_own_key_goes_anywhere_and_the_vendors_to_the_vendor_alone():
    both = {"RALPHD_SUPERVISOR_KEY": "own", "ANTHROPIC_API_KEY": "vendor"}
    assert key_of(both, "http://host") == key_of(both, "") == "own"
    assert key_of({"ANTHROPIC_API_KEY": "vendor"}, "") == "vendor"
    assert key_of({"ANTHROPIC_API_KEY": "vendor"}, "http://host") == ""


def test_it_is_asked_once_whatever_fails():
    """The client's own retries are off; the caller knows when to ask again."""
    broken = Reply(status=500, body=(b"oops",))
    with serving(lambda _: broken) as endpoint, pytest.raises(AdviserError, match="HTTP 500"):
        model(endpoint.url).ask(ASKED)
    assert len(endpoint.received) == 1


@pytest.mark.parametrize(
    ("reply", "words", "floor_s"),
    [
        (Reply(status=429, headers={"retry-after": "7"}), "HTTP 429", 7.0),
        (Reply(status=529, headers={"retry-after": "soon"}), "HTTP 529", 0.0),
        (Reply(status=401, body=(b'{"type":"error","error":{"type":"authentication_error","message":"no"}}',)), "HTTP 401", 0.0),
        (Reply(status=404), "HTTP 404", 0.0),
        (Reply(status=302, headers={"location": "http://127.0.0.1:9/"}), "HTTP 302", 0.0),
        (Reply(status=429, headers={"retry-after": "1e300"}), "HTTP 429", 86_400.0),
    ],
)  # fmt: skip
def test_a_refusal_is_told_with_its_floor(reply: Reply, words: str, floor_s: float):
    with serving(lambda _: reply) as endpoint, pytest.raises(AdviserError, match=words) as caught:
        model(endpoint.url).ask(ASKED)
    assert caught.value.floor_s == floor_s
    assert len(str(caught.value)) < 250


def test_a_redirect_takes_the_key_nowhere():
    with (
        serving(lambda _: said(GOOD)) as other,
        serving(lambda _: Reply(status=307, headers={"location": other.url})) as endpoint,
        pytest.raises(AdviserError),
    ):
        model(endpoint.url).ask(ASKED)
    assert not other.received


def test_an_endpoint_that_is_not_there_is_down():
    with pytest.raises(AdviserError):
        model(f"http://127.0.0.1:{free_port()}").ask(ASKED)


def test_an_endpoint_that_drips_for_ever_is_given_up():
    """Each byte comes in time, the answer doesn't. The clock is ours, so nobody waits for it."""
    times = iter([0.0, *(10.0 * n for n in range(1000))])
    reply = Reply(body=[b" "] * 500, pause_s=0.02)
    with serving(lambda _: reply) as endpoint, pytest.raises(AdviserError, match="no whole answer"):
        model(endpoint.url, clock=lambda: next(times)).ask(ASKED)


def test_an_endless_answer_is_cut_where_it_can_no_longer_count():
    with serving(lambda _: Reply(body=[b"x" * 65536] * 2000)) as endpoint:
        body = model(endpoint.url).ask(ASKED)
    assert ANSWER_MOST_BYTES < len(body) < ANSWER_MOST_BYTES * 4


def test_an_answer_that_breaks_off_is_no_answer():
    whole = json.dumps(GOOD).encode()
    reply = Reply(body=(whole[:50],), headers={"content-length": str(len(whole))})
    with serving(lambda _: reply) as endpoint, pytest.raises(AdviserError):
        model(endpoint.url).ask(ASKED)


def test_a_look_at_it_asks_for_one_token():
    def answer(got: Received) -> Reply:
        assert got.is_probe
        return said(message("x", {}))

    with serving(answer) as endpoint:
        model(endpoint.url).reach()
    assert endpoint.received[0].body["max_tokens"] == 1


def test_without_a_model_nothing_is_loaded_and_nobody_asked():
    code = (
        "import sys; from ralphd.edges.model import adviser; a = adviser('', '', {}); assert a.model == '';"
        "assert not {'anthropic', 'httpx', 'httpx2', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AdviserError):
        PolicyOnly().ask(ASKED)
    with pytest.raises(AdviserError):
        PolicyOnly().reach()


def test_closing_it_ends_no_other_call():
    with serving(lambda _: said(GOOD)) as endpoint:
        one, other = model(endpoint.url), model(endpoint.url)
        one.close()
        assert other.ask(ASKED)


def test_the_time_for_an_answer_is_under_the_patience():
    from ralphd.daemon.weigh import PATIENCE_S
    from ralphd.edges.model import ANSWER_S, CONNECT_S

    assert ANSWER_S + CONNECT_S <= PATIENCE_S
