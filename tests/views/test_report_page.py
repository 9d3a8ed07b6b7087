"""The report as a page: in a real browser it asks for nothing, runs nothing, fits every width, and tells the truth."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support import browser
from support.needs import missing
from support.nights import Night, a_bare_night, a_good_night, a_null_night, commit
from support.payloads_html import PAYLOADS

from ralphd.core.hindsight import expected_best
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.report import report
from ralphd.views import diffs, html, svg, words_trouble

NIGHTS = {"good": a_good_night, "bare": a_bare_night, "null": a_null_night}


def a_wide_night(loops: int, sessions: int, seed: int = 1) -> Night:
    chance, night, best = random.Random(seed), Night(), 10.0
    night.started(width=loops)
    night.task()
    for number in range(loops):
        night.loop(f"loop-{number + 1}")
    night.verdict(best)
    step = 8 * 3600 / (sessions * loops) / 2 - 60
    for session in range(sessions):
        for number in range(loops):
            loop, made = f"loop-{number + 1}", commit(1000 + session * loops + number)
            night.now += step
            night.began(loop, session + 1)
            kind = chance.choice(
                [Kind.NEXT] * 8 + [Kind.NOOP, Kind.EXITED, Kind.HUNG, Kind.OVERLOADED, Kind.FALSE_DONE]
            )
            night.now += step
            night.ended(loop, session + 1, kind, after=made if kind is Kind.NEXT else "")
            if chance.random() < 0.05:
                best += chance.random()
                night.verdict(best, loop, session + 1, of=made, submission=True)
    night.over()
    return night


def rendered(night: Night, **extras) -> str:
    return html.render_report(report(night.entries, night.now), html.Extras(**extras))


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.program() is None:
        missing("chromium is not installed: apt-get install chromium")
    opened = browser.Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


def shown(chromium, tmp_path: Path, text: str, **how) -> None:
    page = tmp_path / "report.html"
    page.write_text(text, encoding="utf-8", errors="backslashreplace")
    chromium.open(page.as_uri(), **how)


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1000])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_asks_for_nothing(chromium, tmp_path, width, dark):
    for night in (a_wide_night(24, 12), a_good_night(), a_bare_night(), a_null_night()):
        patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 'b'\n+" + "long " * 100 + "\n"
        shown(chromium, tmp_path, rendered(night, patches={"main": patch}), width=width, dark=dark)
        assert chromium.complaints() == []
        assert [url for url in chromium.requests() if not url.startswith("file:")] == []
        assert len(chromium.requests()) == 1
        assert chromium.value("document.documentElement.scrollWidth") <= width
        background = chromium.value("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")


@pytest.mark.slow
def test_it_prints(chromium, tmp_path):
    shown(chromium, tmp_path, rendered(a_wide_night(8, 12)), media="print", width=700)
    assert chromium.value("getComputedStyle(document.querySelector('details > :not(summary)')).display") == "none"
    assert chromium.call("Page.printToPDF")["data"].startswith("JVBER")


@pytest.mark.slow
def test_no_foreign_text_runs_or_asks(chromium, tmp_path):
    """Three hundred strings, each in every place that foreign text can get to."""
    assert len(PAYLOADS) >= 300
    for at in range(0, len(PAYLOADS), 60):
        night, some = Night(), PAYLOADS[at : at + 60]
        night.started()
        night.task(some[0])
        night.verdict(1.0, task=some[0])
        for number, text in enumerate(some):
            night.loop(f"l{number}-{text}", task=some[0])
            night.began(f"l{number}-{text}", 1)
            evidence = (Evidence(what=text, file=f"/x/{text}", start=1, end=2),)
            night.ended(f"l{number}-{text}", 1, Kind.EXITED, evidence=evidence)
            night.verdict(2.0 + number, f"l{number}-{text}", 1, of=text, task=some[0], submission=True)
            from ralphd.core import events, records

            night.say(
                records.Repaired(outcome=Outcome(kind=Kind.STALE_LOCK), what=text, ref=text), f"l{number}-{text}", 1
            )
            night.say(events.ActionIntended(type=text, args={}, why=text, by=text), f"l{number}-{text}")
        patch = "".join(f"diff --git {text}\n+++ b/{text}.html\n@@ {text}\n-{text}\n+{text}\n" for text in some)
        shown_places = {
            words_trouble.place(trace): "\n".join(some) for trace in report(night.entries, night.now).evidence
        }
        subjects = dict(zip(some, some, strict=True))
        page = rendered(night, patches={some[0]: patch}, subjects=subjects, excerpts=shown_places)
        assert '<pre class="excerpt"' in page
        shown(chromium, tmp_path, page)
        assert chromium.complaints() == []
        assert len(chromium.requests()) == 1
        assert chromium.value("typeof window.pwned") == "undefined"
        assert (
            chromium.value("document.querySelectorAll('script,iframe,img,object,embed,link,base,a,form,input').length")
            == 0
        )
        assert (
            chromium.value(
                "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length"
            )
            == 0
        )


@pytest.mark.slow
def test_five_hundred_loops_of_eight_hours_are_one_light_page(chromium, tmp_path):
    text = rendered(a_wide_night(512, 40))
    assert len(text.encode()) < 1.5 * (1 << 20)
    shown(chromium, tmp_path, text)
    assert chromium.value("document.querySelectorAll('.strip-row').length") == 512
    assert chromium.complaints() == []


class Outline(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.labels: list[str] = []
        self.images = 0
        self._in = ""
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in {"meta", "line", "circle", "br"}:
            self.open.append(tag)
        given = dict(attrs)
        if given.get("role") == "img":
            self.images += 1
            self.labels.append(given.get("aria-label", ""))
        if tag in {"h1", "h2", "h3"}:
            self._in = tag
            self.headings.append("")

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self._in = ""

    def handle_data(self, data):
        if self._in:
            self.headings[-1] += data


@pytest.mark.parametrize("name", NIGHTS)
def test_every_picture_says_in_words_what_it_shows_and_every_tag_is_closed(name):
    outline = Outline(rendered(NIGHTS[name]()))
    assert outline.open == []
    assert all(outline.labels)
    assert outline.headings[0] == "Night 2026-11-30-a"


def test_the_page_says_what_the_other_forms_say():
    from ralphd.views import markdown

    night = a_good_night()
    text = re.sub(r"<[^>]+>", " ", rendered(night))
    for line in markdown.render_report(report(night.entries, night.now)).splitlines():
        for word in re.findall(r"[A-Za-z0-9.]{4,}", line.replace("\\", "")):
            assert word in text, line


def test_a_picture_has_round_figures():
    assert svg.ticks(7, 12.3) == [8, 10, 12]
    assert svg.ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert svg.ticks(-0.003, 0.004) == [-0.002, 0, 0.002, 0.004]
    assert svg.ticks(5, 5) == [5]
    assert svg.ticks(7542, 22205) == [10000, 15000, 20000]
    for began in (0.0, 1796076000.0, 1796076123.4):
        for length in (30, 600, 5000, 28_800, 400_000):
            marks = svg.time_ticks(began, began + length)
            assert len(marks) <= 9
            assert all(began <= at <= began + length and at % 60 == 0 for at in marks)


def test_a_diff_keeps_every_letter_and_colours_words():
    patch = "diff --git a/a.py b/a.py\nindex 1..2\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@ def f():\n-return 'a<b>'\n+return \"&\"\n kept\n"
    made = diffs.render(patch)
    assert '<span class="added">+<span class="c-k">return</span>' in made
    assert "&lt;b&gt;" in made
    assert "<b>" not in made
    plain = re.sub(r"<[^>]+>", "", made)
    assert '+return "&amp;"' in plain
    assert len(diffs.render("+x\n" * 10_000)) < 300_000


def test_what_fewer_loops_would_have_given_is_the_mean_over_all_choices():
    from itertools import combinations
    from statistics import mean

    scores = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0]
    for k in range(1, 7):
        assert expected_best(scores, k) == pytest.approx(mean(max(some) for some in combinations(scores, k)))
        assert expected_best(scores, k, lower_is_better=True) == pytest.approx(
            mean(min(some) for some in combinations(scores, k))
        )
