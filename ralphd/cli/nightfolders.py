"""Which nights and loops have a folder in the state: what can be told without a daemon or a journal."""

from __future__ import annotations

import os

from ralphd.cli.place import Place
from ralphd.core.errors import NothingRunning
from ralphd.core.model import is_loop_id


def newest_night(where: Place, named: str = "") -> str:
    """Return the folder of the night called ``named``, else of the newest. Raises NothingRunning."""
    nights = night_names(where)
    if not nights:
        raise NothingRunning(f"no night has been yet in {where.state}; `ralphd start` begins one")
    if named and named not in nights:
        raise NothingRunning(f"no night named {named!r}; there are: {', '.join(nights[-10:])}")
    return where.night(named or nights[-1])


def night_names(where: Place) -> list[str]:
    """Return the ids of all nights that have a folder, the oldest first."""
    return sorted(_folders(os.path.join(where.state, "nights")), key=by_age)


def loop_folders(night: str) -> dict[str, str]:
    """Return the folder of each loop of a night, by its id, in order."""
    above = os.path.join(night, "loops")
    found = [name for name in _folders(above) if is_loop_id(name)]
    return {name: os.path.join(above, name) for name in sorted(found, key=lambda name: (len(name), name))}


def loop_folder(night: str, loop: str) -> str:
    """Return the folder of one loop. Raises NothingRunning that names those there are."""
    folders = loop_folders(night)
    if loop not in folders:
        raise NothingRunning(no_such_loop(loop, list(folders)))
    return folders[loop]


def no_such_loop(loop: str, known: list[str]) -> str:
    return f"no loop named {loop!r}; there are: {', '.join(known[:40]) or 'none'}{' …' if len(known) > 40 else ''}"


def by_age(night: str) -> tuple[str, int, str]:
    """2026-11-30-z comes before 2026-11-30-aa."""
    return night[:10], len(night), night


def _folders(above: str) -> list[str]:
    try:
        with os.scandir(above) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
