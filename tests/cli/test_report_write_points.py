"""Whoever ends the daemon while it writes the morning's report, wherever: each file is the one before or the new one, whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ("report.md", "report.json", "report.html")

# Each child writes the report anew and is ended before one line of that, or in the middle of the bytes of a file.
SCRIPT = r"""
import os, resource, signal, sys
from dataclasses import replace
from pathlib import Path
from ralphd.cli import reports
from ralphd.cli.place import Place
from ralphd.core.config import Config
from ralphd.core.redact import Redactor
from ralphd.edges.journal import Journal
from support.nights import NIGHT, a_good_night

root, state = sys.argv[1:]
place, folder = Place(state=state), Path(state, "nights", NIGHT)
folder.mkdir(parents=True)
journal = Journal.open(os.path.join(state, "journal.db"), os.path.join(root, "migrations"), Redactor())
journal.append(a_good_night().entries)
journal.close()
made = reports.make_report(place, NIGHT)
extras = reports.extras(place, made, None)
reports.extras = lambda *_: extras

def write(night):
    reports.make_report = lambda *_: night
    reports.write_report(place, Config(), NIGHT)

def texts():
    return {path.name: path.read_bytes() for path in folder.glob("report.*") if path.suffix != ".draft"}

new = replace(made, night=replace(made.night, id="the new one"))
write(new)
after = texts()
write(made)
before = texts()
assert len(before) == 3 and all(before[name] != after[name] for name in before)

def child(prepare):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        prepare()
        write(new)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def before_line(number):
    seen = 0
    def lines(frame, event, _):
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGTERM)
        return lines
    def calls(frame, event, _):
        return lines if frame.f_code is reports.write_report.__code__ else None
    return lambda: sys.settrace(calls)

def after_bytes(count):
    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (count, count))
    return prepare

points, mixed = 0, 0
def try_point(prepare):
    global points, mixed
    status = child(prepare)
    found = texts()
    assert found.keys() == before.keys(), found.keys()
    torn = [name for name in found if found[name] not in (before[name], after[name])]
    assert not torn, torn
    points += status < 0
    mixed += 0 < sum(found[name] == after[name] for name in found) < 3
    write(made)
    assert texts() == before and not list(folder.glob("*.draft"))
    return status < 0

for count in (1, 4096, *(len(after[name]) // 2 for name in after)):
    assert try_point(after_bytes(count))
number = 1
while try_point(before_line(number)):
    number += 1
print(points, mixed)
"""


def test_at_every_point_each_file_is_whole(tmp_path: Path) -> None:
    env = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", SCRIPT, str(ROOT), str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    points, mixed = map(int, done.stdout.split())
    assert points >= 20
    assert mixed, "it was ended between two of its files, too"
