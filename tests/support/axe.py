"""What does axe-core, in a real browser, find on a page that keeps somebody from reading it?"""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.browser import Browser
from support.needs import missing

INSTALLER = Path(__file__).parents[2] / "scripts" / "axe"
GRAVE = ("serious", "critical")
RUN = """
axe.run(document, {resultTypes: ['violations']}).then(told => told.violations.map(one => ({
  impact: one.impact, id: one.id, where: one.nodes.slice(0, 3).map(node => node.html.slice(0, 200) + ' ' + node.failureSummary)
})))
"""


def script() -> str:
    """The text of axe-core; a skip or a failure where it is not installed."""
    found = subprocess.run([INSTALLER, "--where"], capture_output=True, text=True, check=False)
    if found.returncode:
        missing("axe-core is not installed: run scripts/axe")
    return Path(found.stdout.strip()).read_text(encoding="utf-8")


def grave_findings(browser: Browser, axe: str) -> list[dict]:
    """Everything serious or critical on the page that is open, its folded parts opened first."""
    browser.value("document.querySelectorAll('details').forEach(one => { one.open = true; }); 1")
    browser.value(f"{axe};1")
    return [one for one in browser.value(RUN) if one["impact"] in GRAVE]
