"""A night's report out of the journal, and as files in its folder."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable

from ralphd.cli import evidence
from ralphd.cli.logs import known_in
from ralphd.cli.place import Place
from ralphd.core.config import Config
from ralphd.core.errors import EdgeError, NothingRunning, UsageError
from ralphd.core.events import TaskAdded
from ralphd.core.redact import Redactor
from ralphd.core.report import report, to_json
from ralphd.core.report_parts import Report, TaskPart
from ralphd.core.status import iso
from ralphd.edges import takenfile
from ralphd.edges.journal import JournalReader
from ralphd.edges.night_repository import NightRepository
from ralphd.edges.prices import price
from ralphd.edges.taking import Workshop
from ralphd.views import html, markdown

PATCH_BYTES = 400_000  # of a page; `git diff` has the rest


def make_report(place: Place, night: str = "", config: Config | None = None) -> Report:
    """Fold a night's entries, the newest night's when none is named. Raises NothingRunning when there is none."""
    reader = JournalReader.open(place.journal(config))
    try:
        rows = reader.nights()
        known = [row.id for row in rows]
        if night and night not in known:
            raise NothingRunning(f"no night named {night!r}; there are: {', '.join(known[-10:]) or 'none'}")
        if not known:
            raise NothingRunning("no night has been yet; `ralphd start` begins one, `ralphd demo` shows one")
        name = night or known[-1]
        taken = takenfile.read(place.night(name))
        return report(reader.entries(name), time.time(), lambda: reader.unreadable, taken, price)
    finally:
        reader.close()


def list_nights(place: Place, config: Config | None = None) -> list[dict[str, object]]:
    """Return each night's id, start, end (None: not ended) and why it ended, the oldest first."""
    reader = JournalReader.open(place.journal(config))
    try:
        return [
            {"id": row.id, "started_at": iso(row.started_at), "ended_at": iso(row.ended_at), "why_ended": row.why_ended}
            for row in reader.nights()
        ]
    finally:
        reader.close()


def extras(place: Place, made: Report, config: Config | None) -> html.Extras:
    """Gather what only the HTML form shows: patches and subjects of the best commits, excerpts of logs.

    What can't be had is left out.
    """
    reader = JournalReader.open(place.journal(config))
    try:
        found = reader.entries(made.night.id, types=("TaskAdded",))
        tasks = {entry.body.task.name: entry.body.task for entry in found if isinstance(entry.body, TaskAdded)}
    finally:
        reader.close()
    hide = _hiding(place, made)
    patches: dict[str, str] = {}
    subjects: dict[str, str] = {}
    for part in made.tasks:
        with contextlib.suppress(EdgeError, UsageError, KeyError, OSError):
            workshop = Workshop(NightRepository(tasks[part.name].night_repository))
            workshop.require()
            loops = [loop.best_commit for loop in made.loops if loop.task == part.name and loop.best_commit]
            subjects |= {commit: hide(subject) for commit, subject in workshop.subjects(loops).items()}
            patches[part.name] = hide(_patch(workshop, part))
    return html.Extras(patches=patches, subjects=subjects, excerpts=evidence.excerpts(place.night(made.night.id), made))


def _hiding(place: Place, made: Report) -> Callable[[str], str]:
    """Return what takes out of commits what the night's agents were given: nobody did so when they were made."""
    loops = os.path.join(place.night(made.night.id), "loops")
    known = {secret for loop in made.loops for secret in known_in(os.path.join(loops, loop.id))}
    return Redactor(sorted(known)).text


def _patch(workshop: Workshop, part: TaskPart) -> str:
    if part.best is None or not part.base:
        return ""
    return workshop.patch(part.base, part.best.commit)[:PATCH_BYTES].decode("utf-8", "replace")


def write_report(place: Place, config: Config, night: str) -> None:
    """Leave report.md and report.json in the night's folder, each whole or as it was."""
    made = make_report(place, night, config)
    for name, text in (
        ("report.md", markdown.render_report(made)),
        ("report.json", json.dumps(to_json(made), indent=1)),
        ("report.html", html.render_report(made, extras(place, made, config))),
    ):
        path = os.path.join(place.night(night), name)
        draft = f"{path}.draft"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)  # left by a daemon that died over it, or put there by an agent
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
