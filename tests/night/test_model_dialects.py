"""The scripted model says the same things in each protocol that a real agent CLI speaks."""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.model_script import (
    Answer,
    bash,
    edit,
    error_event,
    fault,
    malformed,
    once,
    read,
    reset,
    say,
    session,
    stall,
    stories,
    story,
    too_long,
    truncate,
    using,
    write,
)
from support.model_server import ModelServer, serving
from support.wire import hands

Body = dict[str, Any]
CWD = "/w/one"


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """How a client asks and hears in one protocol; `past` are shell commands with what they printed."""

    ask: Callable[..., Body]
    path: str
    text: Callable[[list[Body]], str]
    command: Callable[[list[Body]], str]
    shell: str
    end: Callable[[list[Body]], bool]
    tokens_in: Callable[[list[Body]], int]
    whole_path: str = ""


def chat_body(*past: tuple[str, str], stream: bool = True, cwd: str = CWD, prompt: str = "Do it") -> Body:
    messages = [
        {"role": "system", "content": f"<env>\n  Working directory: {cwd}\n</env>"},
        {"role": "assistant", "content": "Got it. Thanks for the context!"},
        {"role": "user", "content": [{"type": "text", "text": prompt}]},
    ]
    for command, printed in past:
        call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": json.dumps(command)}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": printed},
        ]
    tools = [{"type": "function", "function": {"name": name}} for name in ("bash", "webfetch")]
    return {"model": "m", "stream": stream, "messages": messages, "tools": tools}


def responses_body(*past: tuple[str, str], stream: bool = True, cwd: str = CWD, prompt: str = "Do it") -> Body:
    def said(role: str, text: str) -> Body:
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}

    place = f"<environment_context>\n  <cwd>{cwd}</cwd>\n</environment_context>"
    items = [said("developer", "You are codex"), said("user", place), said("user", prompt)]
    for command, printed in past:
        items += [
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "name": "exec_command", "call_id": "c", "arguments": json.dumps(command)},
            {"type": "function_call_output", "call_id": "c", "output": printed},
        ]
    tools = [{"type": "function", "name": "exec_command"}, {"type": "web_search"}]
    return {"model": "m", "stream": stream, "input": items, "tools": tools, "prompt_cache_key": f"thread in {cwd}"}


def gemini_body(*past: tuple[str, str], stream: bool = True, cwd: str = CWD, prompt: str = "Do it") -> Body:
    place = (
        f"<session_context>\n- **Workspace Directories:**\n  - {cwd}\n- **Directory Structure:**\n</session_context>"
    )
    contents = [{"role": "user", "parts": [{"text": place}, {"text": prompt}]}]
    for command, printed in past:
        answer = {"name": "run_shell_command", "response": {"output": printed}}
        contents += [
            {"role": "model", "parts": [{"functionCall": {"name": "run_shell_command", "args": {"command": command}}}]},
            {"role": "user", "parts": [{"functionResponse": answer}]},
        ]
    return {"contents": contents, "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}]}


def chat_deltas(events: list[Body]) -> list[Body]:
    return [choice.get("message") or choice["delta"] for event in events for choice in event.get("choices", [])]


def chat_command(events: list[Body]) -> str:
    calls = [call for delta in chat_deltas(events) for call in delta.get("tool_calls", [])]
    return json.loads(calls[0]["function"]["arguments"])["command"]


def responses_items(events: list[Body]) -> list[Body]:
    return next((one["response"] for one in events if one.get("type") == "response.completed"), events[0])["output"]


def gemini_parts(events: list[Body]) -> list[Body]:
    return [part for event in events for part in event["candidates"][0]["content"]["parts"]]


SPEAKERS = {
    "chat": Speaker(
        ask=chat_body,
        path="/v1/chat/completions",
        text=lambda events: "".join(delta.get("content") or "" for delta in chat_deltas(events)),
        command=chat_command,
        shell="bash",
        end=lambda events: any(c.get("finish_reason") for e in events for c in e.get("choices", [])),
        tokens_in=lambda events: events[-1]["usage"]["prompt_tokens"],
    ),
    "responses": Speaker(
        ask=responses_body,
        path="/v1/responses",
        text=lambda events: responses_items(events)[0]["content"][0]["text"],
        command=lambda events: json.loads(responses_items(events)[0]["arguments"])["cmd"],
        shell="exec_command",
        end=lambda events: any(event.get("type") == "response.completed" for event in events),
        tokens_in=lambda events: events[-1].get("response", events[-1])["usage"]["input_tokens"],
    ),
    "gemini": Speaker(
        ask=gemini_body,
        path="/v1beta/models/m:streamGenerateContent?alt=sse",
        text=lambda events: "".join(part.get("text", "") for part in gemini_parts(events)),
        command=lambda events: gemini_parts(events)[0]["functionCall"]["args"]["command"],
        shell="run_shell_command",
        end=lambda events: any("finishReason" in event["candidates"][0] for event in events if "candidates" in event),
        tokens_in=lambda events: events[-1]["usageMetadata"]["promptTokenCount"],
        whole_path="/v1beta/models/m:generateContent",
    ),
}


@pytest.fixture(params=SPEAKERS)
def speaker(request: pytest.FixtureRequest) -> Speaker:
    return SPEAKERS[request.param]


def post(server: ModelServer, path: str, body: Body) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.base_url).netloc, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body))
        with connection.getresponse() as response:
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def hear(server: ModelServer, speaker: Speaker, *past: tuple[str, str], **more: str) -> list[Body]:
    data = post(server, speaker.path, speaker.ask(*past, **more))[2].decode()
    lines = [line[6:] for line in data.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def only(*steps: Any) -> Any:
    return story(session(*steps))


def test_words_and_tokens_come_as_a_stream(speaker: Speaker) -> None:
    with serving(only(using(say("hello you"), tokens_in=7, cache_read=5))) as server:
        events = hear(server, speaker)
    assert (speaker.text(events), speaker.end(events), speaker.tokens_in(events)) == ("hello you", True, 12)


def test_words_come_whole_too(speaker: Speaker) -> None:
    with serving(only(say("hello you"))) as server:
        answer = json.loads(post(server, speaker.whole_path or speaker.path, speaker.ask(stream=False))[2])
    assert speaker.text([answer]) == "hello you"


def test_a_shell_call_is_one_of_the_client_s_own_shell_tool(speaker: Speaker) -> None:
    with serving(only(bash("ls {cwd}"))) as server:
        events = hear(server, speaker)
        whole = json.loads(post(server, speaker.whole_path or speaker.path, speaker.ask(stream=False))[2])
    assert speaker.command(events) == speaker.command([whole]) == f"ls {CWD}"
    assert f'"{speaker.shell}"' in json.dumps(events)


def test_each_loop_lives_its_own_story_in_turns(speaker: Speaker) -> None:
    script = stories({"one": only(bash("1a"), say("1b")), "two": only(bash("2a"), say("2b"))})
    with serving(script) as server:
        first = speaker.command(hear(server, speaker))
        other = speaker.command(hear(server, speaker, cwd="/w/two"))
        next_other = speaker.text(hear(server, speaker, ("2a", "printed two"), cwd="/w/two"))
        next_first = speaker.text(hear(server, speaker, ("1a", "printed one")))
        assert [(one.directory, one.prompt, one.news) for one in server.seen()][-1] == (CWD, "Do it", "printed one")
    assert (first, other, next_other, next_first) == ("1a", "2a", "2b", "1b")


@pytest.mark.parametrize("name", ["chat", "gemini"])
def test_a_conversation_without_a_name_begins_anew_after_an_answer_but_not_after_a_fault(name: str) -> None:
    speaker = SPEAKERS[name]
    with serving(story(session(once(fault(529), say("first"))), session(say("second")))) as server:
        assert post(server, speaker.path, speaker.ask())[0] == 529
        assert [speaker.text(hear(server, speaker)) for _ in range(2)] == ["first", "second"]
    assert [(one.session, one.attempt) for one in server.seen()] == [(0, 0), (0, 1), (1, 0)]


def test_a_loop_without_a_directory_is_known_by_the_branch_in_its_prompt() -> None:
    body = chat_body(cwd="", prompt="You are on the branch `ralphd/n1/two`.")
    body["messages"][0]["content"] = "You are a helpful assistant."
    with serving(stories({"two": only(say("mine"))}, otherwise=only(say("a stranger's")))) as server:
        data = post(server, "/v1/chat/completions", body)[2].decode()
    assert "mi" in data
    assert server.seen()[0].branch == "ralphd/n1/two"


@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_a_status_comes_with_an_error_and_perhaps_a_time(speaker: Speaker, status: int) -> None:
    with serving(only(fault(status, "no", retry_after_s=3))) as server:
        answered, headers, data = post(server, speaker.path, speaker.ask())
    assert (answered, headers["retry-after"], json.loads(data)["error"]["message"]) == (status, "3", "no")


def test_too_long_a_conversation_is_refused_in_the_protocol_s_own_words(speaker: Speaker) -> None:
    with serving(only(too_long())) as server:
        status, _, data = post(server, speaker.path, speaker.ask())
    assert status == 400
    assert "maximum" in json.loads(data)["error"]["message"]


@pytest.mark.parametrize("at", ["accept", "headers", "start", "delta"])
def test_a_reset_is_a_reset_at_every_point(speaker: Speaker, at: Any) -> None:
    with serving(only(reset(at))) as server, pytest.raises(ConnectionResetError):
        post(server, speaker.path, speaker.ask())


@pytest.mark.parametrize("at", ["start", "delta"])
def test_a_truncated_stream_ends_well_formed_but_unfinished(speaker: Speaker, at: Any) -> None:
    with serving(only(truncate(at))) as server:
        events = hear(server, speaker)
    assert events
    assert not speaker.end(events)


def test_an_error_may_come_within_the_stream(speaker: Speaker) -> None:
    with serving(only(error_event(message="too busy"))) as server:
        events = hear(server, speaker)
    assert not speaker.end(events[:-1])
    assert "too busy" in json.dumps(events[-1])


def test_garbage_stands_between_events(speaker: Speaker) -> None:
    with serving(only(malformed(then=say("words")))) as server:
        data = post(server, speaker.path, speaker.ask())[2].decode()
    assert ": nope}" in data
    assert "rds" in data.partition(": nope}")[2]


def test_a_stall_is_silence_and_then_the_rest(speaker: Speaker) -> None:
    with serving(only(stall("delta", 0.5, then=say("late words")))) as server:
        began = time.monotonic()
        assert speaker.text(hear(server, speaker)) == "late words"
    assert time.monotonic() - began >= 0.5


def test_keep_alives_fill_a_stall(speaker: Speaker) -> None:
    with serving(only(stall("delta", 1.0, ping_every_s=0.25))) as server:
        assert b": keep-alive\n\n" in post(server, speaker.path, speaker.ask())[2]


def test_closing_the_server_ends_a_stall(speaker: Speaker) -> None:
    broken: list[BaseException] = []

    def wait(server: ModelServer) -> None:
        try:
            post(server, speaker.path, speaker.ask())
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


def test_a_session_of_mini_swe_agent_ends_by_a_command() -> None:
    told = hands.handed(say("it's done"), ("bash",), CWD)
    assert told.calls[0].arguments["command"].startswith("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    assert hands.handed(fault(500), ("bash",), CWD).calls == ()
    assert hands.handed(say("it's done"), ("bash", "read"), CWD).calls == ()


def test_reading_editing_and_writing_are_shell_commands_where_there_is_no_such_tool(tmp_path: Any) -> None:
    def run(answer: Answer) -> str:
        command = hands.handed(answer, ("bash", "task"), str(tmp_path)).calls[0].arguments["command"]
        return subprocess.run(["/bin/sh", "-c", command], check=True, capture_output=True, text=True).stdout

    run(write("a.txt", "it's one\n"))
    run(edit("a.txt", "it's", "it was"))
    assert run(read("a.txt")) == "it was one\n"


def test_a_client_keeps_the_tools_that_it_offers() -> None:
    call = hands.handed(read("a.txt"), ("Bash", "Read"), "/w").calls[0]
    assert (call.name, call.arguments) == ("Read", {"file_path": "/w/a.txt"})
