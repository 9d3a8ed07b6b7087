"""Who can't see colours, or can't see, reads the report too: axe-core finds nothing serious on it."""

from __future__ import annotations

import pytest
from support import axe, browser
from support.needs import missing
from support.nights import Night, a_bare_night, a_good_night, a_null_night, commit

from ralphd.core.compare import compare
from ralphd.core.outcomes import Evidence, Kind
from ralphd.core.report import report
from ralphd.views import compared, html

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.program() is None:
        missing("chromium is not installed: apt-get install chromium")
    opened = browser.Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def script():
    return axe.script()


def a_full_night() -> Night:
    """Everything that a page can show: many loops, every way a session ends, tokens, evidence, a long table."""
    night = Night()
    night.started(width=30)
    night.task(goal=20.0)
    night.verdict(7.0)
    for number in range(30):
        loop = f"loop-{number}"
        night.loop(loop)
        night.began(loop, 1)
        kind = (Kind.NEXT, Kind.NOOP, Kind.HUNG, Kind.OVERLOADED, Kind.EXITED)[number % 5]
        evidence = (Evidence(what="said so", file=night.log(loop, 1), start=3, end=9),)
        night.ended(loop, 1, kind, after=commit(number), evidence=evidence)
        night.verdict(8.0 + number, loop, 1, of=commit(number), submission=True)
    night.began("loop-1", 2)
    night.over()
    return night


def pages() -> dict[str, str]:
    nights = {"full": a_full_night(), "good": a_good_night(), "bare": a_bare_night(), "null": a_null_night()}
    made = {name: report(night.entries, night.now) for name, night in nights.items()}
    patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@ def f():\n-a = 'b'  # c\n+def f(a: int = 12): return None\n kept = @x\n"
    best = made["full"].tasks[0].best
    extras = html.Extras(patches={"main": patch}, subjects={best.commit: "Try something"})
    told = compare(made["good"], made["null"])
    beside = html.page(compared.title(told), "".join(map(html.render_block, compared.page(told))))
    return {**{name: html.render_report(one, extras) for name, one in made.items()}, "compared": beside}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious(chromium, script, tmp_path, dark):
    for name, text in pages().items():
        page = tmp_path / f"{name}.html"
        page.write_text(text, encoding="utf-8")
        chromium.open(page.as_uri(), dark=dark)
        assert axe.grave_findings(chromium, script) == [], name


def test_it_would_find_something(chromium, script, tmp_path):
    """The gate itself can close."""
    page = tmp_path / "bad.html"
    page.write_text(html.page("x", '<p style="color:#ccc">pale</p><button></button><div role="list"><p>x</p></div>'))
    chromium.open(page.as_uri())
    assert {"button-name"} <= {one["id"] for one in axe.grave_findings(chromium, script)}
