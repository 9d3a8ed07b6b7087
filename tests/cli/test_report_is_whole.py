"""Whoever dies over a report leaves the old one or the new one, whole; never half of one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.nights import NIGHT, a_good_night

from ralphd.cli import shipped
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal

KILLS = 12
# Writes reports without a pause until it is killed, at moments spread over the writing of one; then looks at what is there.
WRITER = r"""
import json, os, pathlib, signal, sys, time
from ralphd.cli.place import Place
from ralphd.cli.reports import write_report
from ralphd.core.config import Config
place, folder, kills = Place(state=sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
began = time.monotonic()
write_report(place, Config(), folder.name)
once_s = time.monotonic() - began
markdown = (folder / "report.md").read_text()
for number in range(kills):
    child = os.fork()
    if not child:
        while True:
            write_report(place, Config(), folder.name)
    time.sleep(once_s * (0.3 + 1.4 * number / kills))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    texts = {kind: (folder / f"report.{kind}").read_text() for kind in ("json", "md", "html")}
    told = json.loads(texts["json"])
    whole = told["night"]["id"] == folder.name and texts["html"].endswith("</html>\n") and texts["md"] == markdown
    assert whole, (number, {kind: len(text) for kind, text in texts.items()})
print("left over:", sorted(one.name for one in folder.glob("*.draft")))
write_report(place, Config(), folder.name)
print("at the end:", sorted(one.name for one in folder.iterdir()))
"""


@pytest.mark.slow
def test_a_report_whose_writer_is_killed_is_the_old_or_the_new_one(tmp_path):
    folder = tmp_path / "nights" / NIGHT
    folder.mkdir(parents=True)
    journal = Journal.open(str(tmp_path / "journal.db"), shipped.folder("migrations"), Redactor())
    journal.append(a_good_night().entries)
    journal.close()
    argv = [sys.executable, "-c", WRITER, str(tmp_path), str(folder), str(KILLS)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "at the end: ['report.html', 'report.json', 'report.md']" in done.stdout
