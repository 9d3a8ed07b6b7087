"""Why no daemon answers, and what runs on without it."""

from __future__ import annotations

import os

from ralphd.cli.nightfolders import loop_folders
from ralphd.cli.place import Place
from ralphd.core.config import Config
from ralphd.core.errors import JournalError, NothingRunning
from ralphd.edges.journal import JournalReader, NightRow
from ralphd.edges.loopfolder import LoopFolders
from ralphd.edges.processes import boot_id


def why_nobody_answers(where: Place, config: Config | None) -> str:
    """Say what is so: never a night, an ended one, or an open one whose daemon is gone."""
    try:
        newest = _newest(where, config)
    except NothingRunning:
        return f"no night has been yet in {where.state}; `ralphd start` begins one, `ralphd demo` shows one"
    except JournalError as error:
        return f"no daemon runs for {where.state}, and {error}"
    if newest is None:
        return f"no daemon runs for {where.state}; `ralphd start` starts one"
    if newest.ended_at is not None:
        return f"nothing runs: night {newest.id} has ended ({newest.why_ended}); `ralphd report` tells what it gave"
    running = _alive(where, newest.id)
    loops = f"{running} of its loops run on" if running else "none of its loops runs"
    return f"night {newest.id} is open but its daemon is gone; {loops}; `ralphd start` takes it up again"


def _newest(where: Place, config: Config | None) -> NightRow | None:
    reader = JournalReader.open(where.journal(config))
    try:
        rows = reader.nights()
    finally:
        reader.close()
    return next((row for row in rows if row.ended_at is None), rows[-1] if rows else None)


def _alive(where: Place, night: str) -> int:
    folders = LoopFolders(boot_id())
    return sum(folders.alive(folder) for folder in loop_folders(os.path.join(where.night(night))).values())
