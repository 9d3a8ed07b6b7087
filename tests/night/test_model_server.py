"""The scripted model speaks the Messages API, keeps conversations apart and breaks as told."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from typing import Any

import pytest
from support import model_server
from support.model_script import (
    Answer,
    Script,
    bash,
    close,
    edit,
    error_event,
    fault,
    from_json,
    hog,
    malformed,
    once,
    read,
    reset,
    reset_mid_stream,
    say,
    session,
    stall,
    stories,
    story,
    times,
    together,
    truncate,
    using,
)
from support.model_server import ModelServer, serving

Message = dict[str, Any]
TOOLS = [{"name": "Bash"}]


def opening(directory: str = "/w/one", session_id: str = "s1", *more: Message, stream: bool = False) -> Message:
    environment = f"# Environment\n - Primary working directory: {directory}\n - Platform: linux"
    return {
        "model": "m",
        "stream": stream,
        "tools": TOOLS,
        "metadata": {"user_id": json.dumps({"session_id": session_id.ljust(36, "0").replace("s", "a")})},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "reminder"}, {"type": "text", "text": "Do it"}]},
            {"role": "system", "content": environment},
            *more,
        ],
    }


def replied(text: str = "x") -> list[Message]:
    return [
        {"role": "assistant", "content": text},
        {"role": "user", "content": [{"type": "tool_result", "content": f"result of {text}"}]},
    ]


def post(server: ModelServer, body: Message, path: str = "/v1/messages?beta=true") -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.base_url).netloc, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body))
        with connection.getresponse() as response:
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def ask(server: ModelServer, body: Message) -> Message:
    status, _, data = post(server, body)
    assert status == 200, data
    return json.loads(data)


def said(server: ModelServer, body: Message) -> str:
    return ask(server, body)["content"][0]["text"]


def stream(server: ModelServer, body: Message) -> list[Message]:
    return [json.loads(line[6:]) for line in post(server, body)[2].decode().splitlines() if line.startswith("data: ")]


def only(*steps: Any) -> Script:
    return story(session(*steps))


def test_words_end_the_turn_and_carry_usage() -> None:
    with serving(only(using(say("hello"), tokens_in=7, tokens_out=3))) as server:
        answer = ask(server, opening())
    assert (answer["stop_reason"], answer["content"]) == ("end_turn", [{"type": "text", "text": "hello"}])
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (7, 3)


def test_tool_calls_name_files_below_the_asker_s_directory() -> None:
    with serving(only(together(read("a.py"), edit("a.py", "{cwd}", "new"), bash("ls")))) as server:
        answer = ask(server, opening("/w/place"))
    assert answer["stop_reason"] == "tool_use"
    assert [block["name"] for block in answer["content"]] == ["Read", "Edit", "Bash"]
    assert answer["content"][0]["input"] == {"file_path": "/w/place/a.py"}
    assert len({block["id"] for block in answer["content"]}) == 3


def test_a_stream_holds_the_same_message_as_events() -> None:
    with serving(only(Answer(text="words", calls=bash("ls -l").calls))) as server:
        events = stream(server, opening(stream=True))
    kinds = [event["type"] for event in events]
    block = ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"]
    assert kinds == ["message_start", *block, *block, "message_delta", "message_stop"]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "words"
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == {"command": "ls -l"}
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_each_loop_lives_its_own_story_whatever_the_order() -> None:
    script = stories({"one": only(say("1a"), say("1b")), "two": only(say("2a"), say("2b"))})
    with serving(script) as server:
        first = said(server, opening("/w/one", "s1"))
        other = said(server, opening("/w/two", "s2"))
        other_next = said(server, opening("/w/two", "s2", *replied()))
        first_next = said(server, opening("/w/one", "s1", *replied()))
    assert (first, other, other_next, first_next) == ("1a", "2a", "2b", "1b")


def test_a_loop_is_known_by_its_branch_too() -> None:
    body = opening("/elsewhere", "s1")
    body["messages"][0]["content"][0]["text"] = "Current branch: ralphd/n1/two\n"
    with serving(stories({"two": only(say("mine"))}, otherwise=only(say("stranger")))) as server:
        assert said(server, body) == "mine"
        assert said(server, opening("/w/two-more", "s2")) == "stranger"


def test_sessions_of_a_directory_come_in_order_and_the_last_repeats() -> None:
    with serving(story(session(say("first")), session(say("second")))) as server:
        answers = [said(server, opening("/w/one", f"s{number}")) for number in (1, 2, 3)]
    assert answers == ["first", "second", "second"]


def test_a_session_past_its_last_step_has_nothing_more_to_do() -> None:
    with serving(only(say("only"))) as server:
        assert "nothing more" in said(server, opening("/w/one", "s1", *replied()))


def test_the_same_turn_asked_again_is_another_attempt() -> None:
    with serving(only(times(2, fault(529), say("well")), say("next"))) as server:
        statuses = [post(server, opening())[0] for _ in range(3)]
        assert said(server, opening("/w/one", "s1", *replied())) == "next"
    assert statuses == [529, 529, 200]


def test_a_compaction_gets_a_summary_and_the_story_goes_on() -> None:
    with serving(only(say("a"), say("b"), say("c"))) as server:
        said(server, opening())
        said(server, opening("/w/one", "s1", *replied("a")))
        plea = {"role": "user", "content": "Your task is to create a detailed summary of it"}
        assert "<summary>" in said(server, opening("/w/one", "s1", *replied("a"), *replied("b"), plea))
        assert said(server, opening("/w/one", "s1", *replied("kept"))) == "c"


def test_a_compaction_after_a_refusal_comes_back_to_the_same_turn() -> None:
    with serving(only(say("a"), once(fault(400, "prompt is too long"), then=say("b")))) as server:
        said(server, opening())
        assert post(server, opening("/w/one", "s1", *replied("a")))[0] == 400
        plea = {"role": "user", "content": "Your task is to create a detailed summary of it"}
        said(server, opening("/w/one", "s1", *replied("a"), plea))
        assert said(server, opening("/w/one", "s1", *replied("a"))) == "b"


@pytest.mark.parametrize("status", [401, 403, 429, 500, 529])
def test_a_status_comes_with_the_error_the_protocol_gives_it(status: int) -> None:
    with serving(only(fault(status, "no"))) as server:
        answered, headers, data = post(server, opening())
    assert (answered, json.loads(data)["type"], json.loads(data)["error"]["message"]) == (status, "error", "no")
    assert json.loads(data)["error"]["type"] == {
        401: "authentication_error", 403: "permission_error", 429: "rate_limit_error", 500: "api_error",
        529: "overloaded_error"}[status]  # fmt: skip
    assert "retry-after" not in headers


def test_a_refusal_may_say_when_to_come_back() -> None:
    with serving(only(once(fault(429, retry_after_s=3), then=say("welcome")))) as server:
        status, headers, _ = post(server, opening())
        assert (status, headers["retry-after"]) == (429, "3")
        assert said(server, opening()) == "welcome"


@pytest.mark.parametrize("at", ["accept", "headers", "start", "delta"])
def test_a_reset_is_a_reset_at_every_point(at: Any) -> None:
    with serving(only(reset(at))) as server, pytest.raises(ConnectionResetError) as seen:
        post(server, opening(stream=True))
    assert seen.type is ConnectionResetError  # not its child for a connection that just ended


def test_a_close_mid_stream_ends_the_body_too_early() -> None:
    with serving(only(close())) as server, pytest.raises((http.client.IncompleteRead, ConnectionError)):
        post(server, opening(stream=True))


def test_a_reset_happens_without_streaming_too() -> None:
    with serving(only(once(reset_mid_stream(), then=say("back")))) as server:
        with pytest.raises(ConnectionResetError):
            post(server, opening())
        assert said(server, opening()) == "back"


def test_a_truncated_stream_ends_well_formed_but_unfinished() -> None:
    with serving(only(truncate())) as server:
        kinds = [event["type"] for event in stream(server, opening(stream=True))]
    assert kinds == ["message_start", "content_block_start", "content_block_delta"]


def test_garbage_stands_between_events() -> None:
    with serving(only(malformed(then=say("words")))) as server:
        data = post(server, opening(stream=True))[2].decode()
    assert '{"type": nope}' in data
    assert "message_stop" in data


def test_an_error_event_ends_a_stream() -> None:
    with serving(only(error_event())) as server:
        events = stream(server, opening(stream=True))
    assert [event["type"] for event in events] == ["message_start", "error"]
    assert events[-1]["error"]["type"] == "overloaded_error"


@pytest.mark.parametrize("at", ["accept", "headers", "delta"])
def test_a_stall_is_silence_and_then_the_rest(at: Any) -> None:
    with serving(only(stall(at, 0.5, then=say("late")))) as server:
        began = time.monotonic()
        events = stream(server, opening(stream=True))
    assert time.monotonic() - began >= 0.5
    assert events[-1]["type"] == "message_stop"


def test_pings_keep_a_stalled_stream_alive() -> None:
    with serving(only(stall("delta", 1.5, ping_every_s=0.25))) as server:
        kinds = [event["type"] for event in stream(server, opening(stream=True))]
    assert "ping" in kinds


def test_closing_the_server_ends_a_stall() -> None:
    broken: list[BaseException] = []

    def wait(server: ModelServer) -> None:
        try:
            post(server, opening(stream=True))
        except (OSError, http.client.HTTPException) as why:
            broken.append(why)

    with serving(only(stall("delta", 3600))) as server:
        asker = threading.Thread(target=wait, args=(server,))
        asker.start()
        until = time.monotonic() + 60
        while not server.seen() and time.monotonic() < until:
            time.sleep(0.01)
    asker.join(60)
    assert broken


def test_a_test_can_ask_what_was_sent_back_later() -> None:
    with serving(only(say("a"), say("b"))) as server:
        said(server, opening())
        before = server.seen()[-1]
        said(server, opening("/w/one", "s1", *replied("call")))
        assert server.contains("result of call", after=before.number)
        assert not server.contains("result of call", after=before.number + 1)
        assert not server.contains("result of other")
    assert (before.prompt, before.directory, before.turn) == ("Do it", "/w/one", 0)


def test_side_questions_tokens_and_models_are_answered_without_the_script() -> None:
    with serving(only(say("main"))) as server:
        assert said(server, {**opening(), "tools": []}) == "ok"
        assert post(server, opening(), "/v1/messages/count_tokens")[0] == 200
        assert post(server, opening(), "/v1/nonsense")[0] == 404
        assert list(server.strangers) == ["POST /v1/nonsense"]
        assert said(server, opening()) == "main"


def test_the_log_has_a_line_for_each_request() -> None:
    log = io.StringIO()
    with serving(only(once(fault(500), then=bash("ls"))), log=log) as server:
        post(server, opening())
        post(server, opening())
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["fault"], line["calls"], line["attempt"]) for line in lines] == [("500", [], 0), (None, ["Bash"], 1)]


def test_a_scenario_is_the_same_story_in_json() -> None:
    scenario = {
        "loops": {
            "one": [[{"do": "once", "fault": {"do": "fault", "status": 529}, "then": {"do": "say", "text": "a"}}]]
        },
        "otherwise": [[{"do": "say", "text": "b"}]],
    }
    with serving(from_json(json.dumps(scenario))) as server:
        assert post(server, opening())[0] == 529
        assert said(server, opening()) == "a"
        assert said(server, opening("/w/two", "s2")) == "b"


def test_the_hog_fills_memory_step_by_step_and_waits(tmp_path: Any) -> None:
    command = hog(8).calls[0].arguments["command"]
    with subprocess.Popen(["/bin/sh", "-c", f"exec {command}"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "filled 8 MiB\n"
            assert process.poll() is None
        finally:
            process.kill()


def test_a_body_that_is_no_json_is_refused() -> None:
    with serving(only(say("never"))) as server:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.base_url).netloc, timeout=60)
        connection.request("POST", "/v1/messages", "{nope")
        with connection.getresponse() as response:
            assert response.status == 400
        connection.close()
        assert server.seen() == ()


def test_it_runs_as_a_program(tmp_path: Any) -> None:
    scenario, port, log = (str(tmp_path / name) for name in ("scenario.json", "port", "log"))
    with open(scenario, "w", encoding="utf-8") as file:
        json.dump({"otherwise": [[{"do": "say", "text": "hello"}]]}, file)
    command = [sys.executable, model_server.__file__, "--scenario", scenario, "--port-file", port, "--log", log]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            until = time.monotonic() + 60
            while not os.path.exists(port) and time.monotonic() < until and process.poll() is None:
                time.sleep(0.01)
            with open(port, encoding="ascii") as file:
                connection = http.client.HTTPConnection("127.0.0.1", int(file.read()), timeout=60)
            connection.request("POST", "/v1/messages", json.dumps(opening()))
            with connection.getresponse() as response:
                assert json.loads(response.read())["content"][0]["text"] == "hello"
            connection.close()
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    with open(log, encoding="utf-8") as file:
        assert len(file.readlines()) == 1
