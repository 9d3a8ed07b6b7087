"""The dashboard from the wrong side: nobody gets in who has not the token, and whoever looks changes nothing."""

from __future__ import annotations

import re

import pytest
from support.dashboard import SESSION, TOKEN, Night, dashboard, loop_row, status_of

from ralphd.core.errors import NothingRunning
from ralphd.views.top import shown
from ralphd.views.webgate import POLICY

PAGES = (
    "/",
    "/report",
    "/report/2026-12-01-a",
    "/nights",
    "/loop/loop-1",
    "/metrics",
    "/static/style.css",
    "/static/live.js",
)
STREAMS = ("/events/now", "/events/loop/loop-1")
METHODS = ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "HACK")
REFUSED = {400, 403, 404, 405}


@pytest.fixture(scope="module")
def place():
    """One that may act: what it refuses, one that only looks refuses too."""
    night = Night()
    with dashboard(night, actions=True) as site:
        yield site, night
        assert night.acted in ([], [("pause", "loop-1")])  # by the one test that has the right to, if it ran here


@pytest.mark.parametrize("path", [*PAGES, *STREAMS])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", "[::1]:{port}", "localhost.:{port}", "0.0.0.0:{port}"])  # fmt: skip
def test_a_name_that_was_rebound_to_this_machine_is_refused_on_every_page(place, path, host):
    site, night = place
    asked = night.asked
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        answer = site.ask(method, path, {"Host": host.format(port=site.port), "Authorization": f"Bearer {TOKEN}"})
        assert answer.status in REFUSED
        assert "loop-1" not in answer.body
    assert night.asked == asked


def test_no_host_two_hosts_and_another_in_the_target_are_refused(place):
    site, _ = place
    cookie = f"Cookie: {site.cookie}\r\nConnection: close\r\n\r\n"
    host = f"Host: {site.host}\r\n"
    for head in (
        "GET /nights HTTP/1.0\r\n",
        "GET /nights HTTP/1.1\r\n",
        f"GET /nights HTTP/1.1\r\n{host}Host: evil.example\r\n",
        f"GET /nights HTTP/1.1\r\n{host}{host}",
        f"GET http://evil.example/nights HTTP/1.1\r\n{host}",
    ):
        assert int(site.raw((head + cookie).encode()).split()[1]) in REFUSED, head


@pytest.mark.parametrize("path", [*PAGES[1:6], "/static/live.js", *STREAMS])
def test_without_the_cookie_nothing_is_told(place, path):
    site, night = place
    asked = night.asked
    for cookie in (
        "",
        "ralphd=1",
        f"ralphd-{site.port}={TOKEN}",
        f"ralphd-{site.port}={SESSION[:-1]}",
        f"ralphd-1={SESSION}",
    ):
        answer = site.ask("GET", path, {"Cookie": cookie})
        assert answer.status == 403
        assert TOKEN not in answer.body + str(answer.headers)
    assert site.ask("GET", path, {"Cookie": "", "Authorization": f"Bearer {TOKEN}x"}).status == 403
    assert night.asked == asked


def test_the_first_page_says_nothing_to_who_is_not_known(place):
    site, night = place
    asked = night.asked
    answer = site.ask("GET", "/", {"Cookie": ""})
    assert answer.status == 200
    assert "loop-1" not in answer.body
    assert "2026" not in answer.body
    assert TOKEN not in answer.body
    assert night.asked == asked


def test_the_token_is_taken_once_for_a_cookie_that_no_script_reads(place):
    site, _ = place
    assert site.post("/enter", {"token": "x"}, {"Cookie": ""}).status == 403
    assert site.post("/enter", {"token": None}, {"Cookie": ""}).status == 403
    assert site.post("/enter", ["x" * 5000], {"Cookie": ""}).status == 403
    answer = site.post("/enter", {"token": TOKEN}, {"Cookie": ""})
    assert answer.status == 204
    assert answer.headers["set-cookie"] == f"ralphd-{site.port}={SESSION}; HttpOnly; Path=/; SameSite=strict"


@pytest.mark.parametrize(
    "forged",
    [
        {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": ""}, {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"}, {"Origin": "http://127.0.0.1:{port}.evil.example"}, {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"}, {"Content-Type": "text/plain"}, {"Content-Type": ""},
        {"Content-Type": "application/x-www-form-urlencoded"}, {"X-Ralphd-Token": ""}, {"X-Ralphd-Token": SESSION},
        {"X-Ralphd-Token": "ü"}, {"Cookie": ""}, {"Cookie": "", "Authorization": "Basic " + TOKEN},
    ],
)  # fmt: skip
def test_no_other_page_makes_it_act(place, forged):
    site, night = place
    acted = list(night.acted)
    headers = {name: value.replace("{port}", str(site.port)) for name, value in forged.items()}
    assert site.post("/act", {"verb": "pause", "loop": "loop-1"}, headers).status in REFUSED
    assert night.acted == acted


@pytest.mark.parametrize(
    "told",
    [
        {}, [], {"verb": "stop", "loop": "loop-1"}, {"verb": "pause"}, {"verb": "pause", "loop": ["loop-1"]}, {"verb": ["pause"], "loop": "a"},
        {"verb": "pause", "loop": "../x"}, {"verb": "pause", "loop": ""}, {"verb": "pause", "loop": "x" * 5000}, {"verb": {"a": 1}, "loop": "a"},
    ],
)  # fmt: skip
def test_it_acts_on_nothing_but_one_loop_by_three_verbs(place, told):
    site, night = place
    acted = list(night.acted)
    assert site.post("/act", told).status == 400
    assert night.acted == acted


def test_who_has_the_token_may_act_where_that_is_allowed(place):
    site, night = place
    answer = site.post("/act", {"verb": "pause", "loop": "loop-1"})
    assert (answer.status, answer.body) == (200, "pause: loop-1")
    assert night.acted == [("pause", "loop-1")]


def test_a_dashboard_that_only_looks_acts_for_nobody():
    night = Night()
    with dashboard(night) as site:
        answer = site.post("/act", {"verb": "pause", "loop": "loop-1"})
        assert answer.status == 403
        assert "--allow-actions" in answer.body
        assert "data-verb" not in site.ask("GET", "/loop/loop-1").body
        assert night.acted == []


@pytest.mark.parametrize("method", METHODS)
def test_other_methods_are_refused_everywhere(place, method):
    site, night = place
    asked = night.asked
    for path in (*PAGES, *STREAMS, "/act", "/enter", "/nowhere"):
        assert site.ask(method, path, {"Origin": site.url, "X-Ralphd-Token": TOKEN}).status in REFUSED
    assert night.asked == asked


def test_a_get_changes_nothing(place):
    site, night = place
    acted = list(night.acted)
    for path in ("/act", "/act?verb=pause&loop=loop-1", "/enter", f"/enter?token={TOKEN}", "/?a=1"):
        for method in ("GET", "HEAD"):
            assert site.ask(method, path, {"X-Ralphd-Token": TOKEN}).status in REFUSED
    for path in (*PAGES[1:6], *STREAMS):
        assert site.post(path, {"verb": "pause", "loop": "loop-1"}).status == 405
    assert night.acted == acted


@pytest.mark.parametrize(
    "target",
    [
        "/x/../act", "/x/../nights", "//nights", "/nights/", "/./nights", "/%6eights", "/static/..%2f..%2fetc/passwd", "/static/../web.css",
        "/static/html.py", "/static/web.css", "/loop/..%2f", "/loop/%00", "/nights;a=1", "/nights\\x", "/report/..", "/report/.hidden",
        "nights", "*", "/nights#x", "/nights?x", "/" + "a" * 300, "/events/", "/events/loop/", "/loop/",
    ],
)  # fmt: skip
def test_odd_paths_are_refused(place, target):
    site, night = place
    asked = night.asked
    for method in ("GET", "POST"):
        assert site.ask(method, target, {"Origin": site.url, "Content-Type": "application/json"}).status in REFUSED
    assert night.asked == asked


@pytest.mark.parametrize("path", ["/", "/events/now", "/act", "/nowhere"])
def test_nothing_is_upgraded_to(place, path):
    site, _ = place
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13", "Origin": site.url}
    for upgrade in (
        {"Upgrade": "websocket", "Connection": "Upgrade"},
        {"Upgrade": "h2c", "Connection": "Upgrade, HTTP2-Settings"},
    ):
        assert site.ask("GET", path, {**key, **upgrade}).status in REFUSED


def test_a_page_of_another_site_can_follow_a_link_here_and_read_nothing(place):
    site, _ = place
    for where in ("cross-site", "same-site"):
        for path in (*PAGES, *STREAMS):
            assert site.ask("GET", path, {"Sec-Fetch-Site": where, "Sec-Fetch-Mode": "no-cors"}).status == 403
            assert site.ask("GET", path, {"Sec-Fetch-Site": where, "Sec-Fetch-Mode": "cors"}).status == 403
    assert site.ask("GET", "/nights", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}).status == 200


def test_every_answer_forbids_what_a_page_of_ours_does_not_need(place):
    site, _ = place
    told = [site.ask("GET", path) for path in (*PAGES, "/nowhere", "/static/nowhere")]
    told += [site.ask("GET", "/", {"Host": "evil.example"}), site.ask("PUT", "/"), site.post("/act", {})]
    for answer in told:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "server" not in answer.headers
        assert "unsafe" not in POLICY


def test_the_loops_stand_in_the_order_of_top():
    rows = [loop_row("loop-10"), loop_row("loop-2", state="waiting"), loop_row("loop-5", state="dead")]
    rows.append(loop_row("loop-6", needs_person=True, note="asks: may I?"))
    night = Night(status=status_of(*rows))
    with dashboard(night) as site:
        page = site.ask("GET", "/").body
    assert re.findall(r'href="/loop/([^"]+)"', page) == list(shown(night.status).names)
    assert list(shown(night.status).names) == ["loop-6", "loop-5", "loop-2", "loop-10"]
    assert "needs you: asks: may I?" in page


def test_a_night_that_nobody_answers_for_is_told_and_asked_for_seldom():
    night = Night(status=NothingRunning("no daemon runs <b>here</b>"))
    with dashboard(night) as site:
        for _ in range(5):
            assert "no daemon runs &lt;b&gt;here&lt;/b&gt;" in site.ask("GET", "/").body
        assert site.ask("GET", "/metrics").body.endswith("ralphd_up 0\n")
        assert site.ask("GET", "/loop/loop-1").status == 404
        assert night.asked <= 3
