"""`ralphd web` and `top` beside a real night of 64: they show what is so, cost little, and the night never notices them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.dashboard import entered
from support.hook import hook
from support.livenight import LiveNight, until
from support.terminal import Terminal

from ralphd.daemon.run import PASS_S
from ralphd.views import top_app, webapp

# Sessions last until they are told to end: what happens, happens when the test wants it.
AGENT = r"""#!/bin/sh
cat >/dev/null
echo '{"type": "text", "text": "I hold sk-ant-0123456789abcdefghij and <script>window.pwned=1</script>"}'
while [ ! -e "$HOME/go-$RALPHD_LOOP" ]; do sleep 1; done
echo '{"type": "usage", "input": 100, "output": 10}'
echo '{"type": "result", "ok": true, "text": "counted"}'
sleep 0.5
"""
LOOPS = 64
SPAN_S = 8.0


@pytest.fixture
def night(tmp_path):
    live = LiveNight(tmp_path, agent=AGENT)
    yield live
    live.clean_up()


def web(night, *more):
    process = night.popen("web", *more, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return process, entered(process.stdout.readline().decode().strip())


def end(process, how=signal.SIGINT):
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    return said.decode()


def cpu_s(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Listener:
    """Holds a page's stream open, as a browser does."""

    def __init__(self, site, path):
        self.text = ""
        self._thread = threading.Thread(target=self._listen, args=(site, path), daemon=True)
        self._thread.start()

    def _listen(self, site, path):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", site.port)) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {site.host}\r\nCookie: {site.cookie}\r\n\r\n".encode())
            while chunk := connection.recv(65536):
                self.text += chunk.decode(errors="replace")


@pytest.fixture
def terminal(night):
    opened = Terminal(night.root / "t.sock", night.env, night.repo)
    yield opened
    opened.close()


def sessions(night):
    """What runs: the daemon, and each loop's session and agent."""
    told = night.status()
    assert {loop["state"] for loop in told["loops"]} == {"running"}
    return told["daemon"]["pid"], {loop["id"]: (loop["trajectory"], loop["pid"]) for loop in told["loops"]}


@pytest.mark.slow
def test_sixty_four_loops_are_looked_at_by_ten_and_never_notice(night, terminal):
    night.toml.write_text(f"{night.toml.read_text()}\n[supervisor]\nwidth_max = {LOOPS}\n")
    night.start("--width", str(LOOPS))
    until(lambda: {loop["state"] for loop in night.rows().values()} == {"running"}, "every loop runs")
    ran = sessions(night)
    process, site = web(night)
    terminal.run(sys.executable, "-P", "-m", "ralphd", "top")
    terminal.wait(rf"{LOOPS} running")
    top = int(terminal.tmux("list-panes", "-F", "#{pane_pid}"))
    top = int(Path(f"/proc/{top}/task/{top}/children").read_text().split()[0])  # below the shell
    listeners = [Listener(site, path) for path in ("/events/now", "/events/loop/loop-1") for _ in range(5)]
    until(lambda: all("event: regions" in one.text for one in listeners), "ten look")

    before, began = cpu_s(process.pid) + cpu_s(top), time.monotonic()
    time.sleep(SPAN_S)  # the span that the share is of
    share = (cpu_s(process.pid) + cpu_s(top) - before) / (time.monotonic() - began)
    assert share < 0.12, share  # 0.02 on a quiet machine; of a view that never rests, half a core or more

    night.good("pause", "loop-7", "--now")
    until(lambda: "1 paused" in listeners[0].text, "the pause is seen")
    terminal.wait(r"(?m)^loop-7 +paused")  # what needs a person stands first
    night.good("resume", "loop-7")
    until(lambda: night.rows()["loop-7"]["state"] == "running", "it goes on")
    for pid in (process.pid, top):
        os.kill(pid, signal.SIGKILL)
    assert end(process, signal.SIGKILL) == ""
    terminal.wait("LEFT")
    daemon, left = sessions(night)
    was, others = ran
    assert (daemon, {**left, "loop-7": None}) == (was, {**others, "loop-7": None})
    told = night.journal("outcomes")
    assert {one["loop"] for one in told} == {"loop-7"}, [one for one in told if one["loop"] != "loop-7"]


def test_what_a_daemon_knows_is_on_the_screen_within_two_seconds():
    """As far as it is ours: a pass of the daemon, and a look of whoever looks. `scripts/bench look` has the figures."""
    for look_s in (webapp.STATUS_EVERY_S, top_app.POLL_S):
        assert PASS_S + look_s <= 2.0


@pytest.mark.slow
def test_a_night_is_steered_from_a_page_and_its_end_is_told(night):
    with hook() as place:
        night.toml.write_text(night.toml.read_text() + f'\n[notify]\nurls = ["{place.url}"]\n')
        night.start()
        until(lambda: all(loop["state"] == "running" for loop in night.rows().values()), "both loops run")
        process, site = web(night)
        listener = Listener(site, "/events/loop/loop-1")
        until(lambda: "event: regions" in listener.text, "a stream is open")
        page = site.ask("GET", "/loop/loop-1").body
        assert "&lt;script&gt;" in page
        assert "sk-ant-" not in page + listener.text
        assert 'ralphd_loops{state="running"} 2' in site.ask("GET", "/metrics").body
        assert site.post("/act", {"verb": "pause", "loop": "loop-1"}).status == 403  # it only looks
        assert end(process, signal.SIGKILL) == ""

        night.good("pause", "loop-1", "--now")
        process, site = web(night, "--allow-actions")
        assert site.post("/act", {"verb": "resume", "loop": "nobody"}).status == 409
        assert site.post("/act", {"verb": "resume", "loop": "loop-1"}).body == "resume: loop-1"
        until(lambda: night.rows()["loop-1"]["state"] == "running", "it goes on")
        (night.root / "go-loop-2").touch()
        until(lambda: night.rows()["loop-2"]["trajectory"] > 2, "sessions end and begin")
        held = Listener(site, "/events/now")
        until(lambda: "event: regions" in held.text, "a stream is open")
        night.good("stop", "--now")
        until(lambda: "has ended" in site.ask("GET", "/").body, "the end is told")
        assert "Night " in site.ask("GET", "/report").body
        assert site.ask("GET", "/metrics").body.endswith("ralphd_up 0\n")
        assert end(process) == ""  # no traceback though a stream was open
        told = [one["title"] for one in place.told]
        assert [title.split(" ", 2)[1] for title in told][:1] == ["night"]
        assert any(title.endswith("has begun") for title in told), told
        assert any(title.endswith("is ready") for title in told), told
        assert "sk-ant" not in json.dumps(place.told)


DEAR = r"""#!/bin/sh
cat >/dev/null
echo '{"type": "usage", "input": 100, "output": 10, "cost_usd": 3.5}'
echo '{"type": "result", "ok": true, "text": "counted"}'
sleep 0.5
"""


@pytest.mark.slow
def test_a_spent_budget_is_told_everywhere_and_ends_the_night_that_is_to_end_by_it(tmp_path):
    night = LiveNight(tmp_path, agent=DEAR)
    told = "The night has cost $"
    try:
        with hook() as place:
            text = night.toml.read_text().replace("width = 2", "width = 2\nbudget_usd = 5\nbudget_ends_night = false")
            night.toml.write_text(f'{text}\n[notify]\nurls = ["{place.url}"]\n')
            night.start()
            until(lambda: told in night.good("status"), "status tells of it")
            until(lambda: any(told in one["message"] for one in place.told), "somebody was told")
            assert "Nothing is stopped by that" in " ".join(night.good("status").split())
            sessions_then = sum(loop["trajectory"] for loop in night.loops().values())
            until(
                lambda: sum(loop["trajectory"] for loop in night.rows().values()) > sessions_then + 2,
                "the night goes on",
            )
            assert sum(told in one["message"] for one in place.told) == 1
            night.good("stop", "--now")
            assert "The budget of $5.00 is spent: the night cost $" in " ".join(night.good("report").split())
            night.toml.write_text(night.toml.read_text().replace("ends_night = false", "ends_night = true"))
            night.start()
            until(lambda: night.daemon_pid() is None, "the night ends by itself")
            why = json.loads(night.good("report", "--json"))["night"]["why_ended"]
            assert "budget" in why
    finally:
        night.clean_up()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_this_machine_gets_nothing_from_it(night):
    """Loopback is open to every user: who has not the token sees no page, and none can be had from the process."""
    night.state.mkdir(mode=0o700)
    process, site = web(night, "--allow-actions")
    try:
        told = subprocess.run(
            [sys.executable, "-I", "-c", STRANGER, str(site.port), str(process.pid), str(night.state)],
            cwd="/", env={}, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert json.loads(told) == {
            "/": 200, "/nights": 403, "/report": 403, "/loop/loop-1": 403, "/events/now": 403, "/metrics": 403, "/act": 403,
            "says": False, "/enter": 403, "environ": False, "mem": False, "fd": False, "state": False, "token": False,
        }  # fmt: skip
        assert site.ask("GET", "/nights").status == 200
    finally:
        assert end(process) == ""


STRANGER = r"""
import encodings.idna, http.client, json, os, socket, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
port, pid, state = int(sys.argv[1]), sys.argv[2], sys.argv[3]
told = {}
def ask(method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{port}", **headers})
    answer = connection.getresponse()
    told[path] = answer.status
    return answer.read()
told["says"] = any(word in ask("GET", "/") for word in (b"loop", b"Night", b"daemon", b"state"))
for path in ("/nights", "/report", "/loop/loop-1", "/events/now", "/metrics"):
    ask("GET", path, Cookie=f"ralphd-{port}=guess", Authorization="Bearer guess")
ask("POST", "/enter", json.dumps({"token": "guess"}))
ask("POST", "/act", json.dumps({"verb": "pause", "loop": "loop-1"}), **{"X-Ralphd-Token": "guess"})
def can(what):
    try:
        return bool(what())
    except OSError:
        return False
told["environ"] = can(lambda: open(f"/proc/{pid}/environ", "rb").read())
told["mem"] = can(lambda: open(f"/proc/{pid}/mem", "rb"))
told["fd"] = can(lambda: os.listdir(f"/proc/{pid}/fd"))
told["state"] = can(lambda: os.listdir(state))
told["token"] = any(len(word) > 30 for word in open(f"/proc/{pid}/cmdline").read().split(chr(0)) if "/" not in word)
print(json.dumps(told))
"""


def test_the_address_is_of_this_start_and_only_this_machine_is_listened_to(night):
    night.state.mkdir(mode=0o700)
    process, site = web(night)
    try:
        listening = subprocess.run(
            [sys.executable, "-c", "import psutil,sys; print([c.laddr.ip for c in psutil.Process(int(sys.argv[1])).net_connections() if c.status == 'LISTEN'])", str(process.pid)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert listening == "['127.0.0.1']\n"
        assert site.ask("GET", "/").status == 200
        assert "no night" in site.ask("GET", "/").body.lower()
        assert site.ask("GET", "/report").status == 404
    finally:
        assert end(process) == ""
    again, other = web(night)
    assert other.token != site.token
    assert len(other.token) >= 43
    end(again)


def test_a_token_of_ones_own_is_for_looking_only_and_for_no_other_eyes(night):
    night.state.mkdir(mode=0o700)
    file = night.root / "token"
    file.write_text("a" * 64 + "\n")
    file.chmod(0o644)
    assert "chmod 600" in night.ralphd("web", "--token-file", str(file)).stderr
    file.chmod(0o600)
    done = night.ralphd("web", "--token-file", str(file), "--allow-actions")
    assert (done.returncode, "exclude" in done.stderr) == (2, True)
    process, site = web(night, "--token-file", str(file))
    metrics = site.ask("GET", "/metrics", {"Cookie": "", "Authorization": f"Bearer {'a' * 64}"})
    assert (metrics.status, metrics.body.splitlines()[-1]) == (200, "ralphd_up 0")
    end(process)
    file.write_text("short")
    assert "openssl rand" in night.ralphd("web", "--token-file", str(file)).stderr
