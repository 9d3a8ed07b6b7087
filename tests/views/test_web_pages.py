"""The dashboard in a real browser: it fits, complains of nothing, runs nothing foreign, and shows what is so."""

from __future__ import annotations

import time

import pytest
from support import axe, browser
from support.dashboard import TOKEN, Night, dashboard, loop_row, status_of
from support.needs import missing
from support.nights import a_good_night
from support.payloads_html import PAYLOADS

from ralphd.core.report import report
from ralphd.views import html

PAGES = ("/", "/loop/loop-1", "/nights", "/report")
ALIEN = "document.querySelectorAll('iframe,img,object,embed,base,form,input,script:not([src^=\"/static/\"])').length"
HANDLERS = (
    "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length"
)
CUT_OFF = (  # what reaches over the paper's edge, be it behind a scroll bar
    "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
    ".map(e => e.outerHTML.slice(0, 80))"
)
DEADLINE_S = 60.0
NOBODY = object()
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.program() is None:
        missing("chromium is not installed: apt-get install chromium")
    opened = browser.Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


def until(chromium, expression: str) -> None:
    """Wait until it is true. While a page is being replaced there is nobody to answer."""
    end = time.monotonic() + DEADLINE_S
    while not (told := answer(chromium, expression)) or told is NOBODY:
        assert time.monotonic() < end, expression
        time.sleep(0.05)


def answer(chromium, expression: str):
    try:
        return chromium.value(expression)
    except AssertionError:
        return NOBODY


def come_in(chromium, site) -> None:
    chromium.open("about:blank")  # else only the fragment would change
    chromium.open(f"{site.url}/#{TOKEN}")
    until(chromium, "document.querySelectorAll('nav').length === 1")


def a_night(loops: int = 24) -> Night:
    rows = [loop_row(f"loop-{number + 1}", note="a long note " * 9 if number % 3 else "") for number in range(loops)]
    outcome = {
        "at": "2026-12-01T00:00:00.000Z",
        "trajectory": 2,
        "kind": "done.next",
        "evidence": [{"what": "exit status 0 " * 20}],
    }
    told = a_good_night()
    return Night(
        status=status_of(*rows, trouble=("the quota is used up: " + "l " * 80,)), outcomes=[outcome] * 5, digest="It says\n" + "x" * 400,
        nights=[{"id": "2026-12-01-a", "started_at": "2026-12-01T00:00:00.000Z", "ended_at": None, "why_ended": ""}],
        report=html.report_body(report(told.entries, told.now), html.Extras()),
    )  # fmt: skip


@pytest.mark.parametrize("width", [360, 1000])
@pytest.mark.parametrize("dark", [False, True])
def test_every_page_fits_and_complains_of_nothing(chromium, width, dark):
    with dashboard(a_night(), actions=True) as site:
        come_in(chromium, site)
        for page in PAGES:
            chromium.open(site.url + page, width=width, dark=dark)
            assert chromium.value("document.documentElement.scrollWidth") <= width, page
            assert chromium.complaints() == [], page
            assert all(url.startswith(site.url) for url in chromium.requests()), page
            background = chromium.value("getComputedStyle(document.body).backgroundColor")
            assert background == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
        chromium.open("about:blank")


@pytest.mark.parametrize("width", [600, 700])  # A4 and letter have some 700 between usual margins
def test_every_page_prints_whole_on_paper(chromium, width):
    """Light though the browser is dark, nothing cut off at the right, none of what only a screen needs."""
    with dashboard(a_night(), actions=True) as site:
        come_in(chromium, site)
        for page in PAGES:
            chromium.open(site.url + page, width=width, dark=True, media="print")
            assert chromium.value("document.documentElement.scrollWidth") <= width, page
            assert chromium.value(CUT_OFF) == [], page
            assert chromium.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", page
            assert chromium.value("getComputedStyle(document.querySelector('nav')).display") == "none"
            assert chromium.complaints() == [], page
            assert chromium.call("Page.printToPDF")["data"].startswith("JVBER")
        chromium.open("about:blank")


def test_whoever_cannot_see_colours_or_cannot_see_reads_it_too(chromium):
    script = axe.script()
    with dashboard(a_night(), actions=True) as site:
        for page in ("enter", *PAGES):
            if page == "enter":
                chromium.open(site.url)
            else:
                come_in(chromium, site)
                chromium.open(site.url + page)
            for dark in (False, True):
                scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
                chromium.call("Emulation.setEmulatedMedia", features=[scheme])
                assert axe.grave_findings(chromium, script) == [], page
        chromium.open("about:blank")


def test_the_token_does_not_stay_in_the_address_and_no_script_reads_the_cookie(chromium):
    with dashboard(a_night()) as site:
        come_in(chromium, site)
        assert chromium.value("location.href") == f"{site.url}/"
        assert chromium.value("document.cookie") == ""
        chromium.open("about:blank")


def test_what_changes_is_seen_without_a_reload_and_keeps_the_focus(chromium):
    night = a_night(3)
    with dashboard(night) as site:
        come_in(chromium, site)
        until(chromium, "document.querySelectorAll('tbody tr').length === 3")
        chromium.value("window.stayed = true; document.querySelector('#row-1 a').focus()")
        rows = [loop_row("loop-1"), loop_row("loop-2", best_score=77.25), loop_row("loop-3")]
        night.status = status_of(*rows)
        until(chromium, "document.querySelector('#row-1').innerText.includes('77.25')")
        assert chromium.value("window.stayed && document.activeElement.innerText") == "loop-2"
        night.status = status_of(*rows, loop_row("loop-4"))
        until(chromium, "document.querySelectorAll('tbody tr').length === 4")
        night.status = status_of(*rows, loop_row("loop-4", state="dead"))
        until(chromium, "document.querySelector('tbody tr').innerText.includes('loop-4')")
        assert chromium.complaints() == []
        chromium.open("about:blank")


def test_a_button_acts_from_the_tab_that_came_in_with_the_token(chromium):
    night = a_night(1)
    with dashboard(night, actions=True) as site:
        come_in(chromium, site)
        chromium.open(f"{site.url}/loop/loop-1")
        chromium.value("document.querySelector('[data-verb=pause]').click()")
        until(chromium, "document.getElementById('said').innerText === 'pause: loop-1'")
        assert night.acted == [("pause", "loop-1")]
        chromium.value("sessionStorage.clear(); document.querySelector('[data-verb=resume]').click()")
        until(chromium, "document.getElementById('said').innerText.includes('in this tab')")
        assert night.acted == [("pause", "loop-1")]
        chromium.open("about:blank")


def test_a_dashboard_that_is_gone_is_said_to_be(chromium):
    with dashboard(a_night(1)) as site:
        come_in(chromium, site)
        until(chromium, "document.querySelectorAll('tbody tr').length === 1")
    until(chromium, "document.getElementById('said').innerText.startsWith('Not live')")
    assert chromium.value("document.querySelectorAll('tbody tr').length") == 1  # what was known last stays on the page
    chromium.open("about:blank")


def test_no_foreign_text_runs_or_asks(chromium):
    """Three hundred strings in every place that a daemon, an agent or a repository fills; at once and by the stream."""
    night = Night()
    with dashboard(night, actions=True) as site:
        come_in(chromium, site)
        for at in range(0, len(PAYLOADS), 60):
            some = PAYLOADS[at : at + 60]
            named = [{"id": text, "started_at": text, "ended_at": text, "why_ended": text} for text in some]
            told = [{"at": text, "trajectory": text, "kind": text, "evidence": [{"what": text}]} for text in some]
            full = {key: " ".join(some) for key in loop_row()}
            rows = [loop_row(text, **{key: text for key in loop_row() if key != "id"}) for text in some]
            before = status_of(loop_row(), *[loop_row()] * len(some))
            hostile = status_of({**full, "id": "loop-1"}, *rows, trouble=tuple(some), night=some[0])
            night.nights, night.outcomes, night.digest = named, told, "\n".join(some)
            for page in PAGES[:3]:
                night.status = before
                chromium.open(site.url + page)
                night.status = hostile
                if page == "/":
                    until(chromium, f"document.querySelectorAll('.needs').length === {len(some)}")
                elif page != "/nights":
                    until(chromium, "document.getElementById('facts').innerText.length > 2000")
                chromium.open(site.url + page)
                assert chromium.complaints() == []
                assert all(url.startswith(site.url) for url in chromium.requests())
                assert chromium.value("typeof window.pwned") == "undefined"
                assert chromium.value(ALIEN) == 0
                assert chromium.value(HANDLERS) == 0
                assert chromium.value("[...document.links].every(a => a.origin === location.origin)")
        chromium.open("about:blank")
