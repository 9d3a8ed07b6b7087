"""How a journal's schema is brought up to date. Apart, because alembic costs every start and the daemon's memory."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.exc import SQLAlchemyError

from ralphd.core.errors import JournalError
from ralphd.edges.journal_backup import back_up, backup_folder
from ralphd.edges.journal_db import is_url, shown, trouble

if TYPE_CHECKING:
    from sqlalchemy import Engine


def migrate(engine: Engine, migrations: str, place: str, current: str | None) -> None:
    """Bring the schema from ``current`` to the newest revision in the folder ``migrations``; refuse a newer one."""
    config = Config()
    config.set_main_option("script_location", migrations.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    try:
        known = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
        if current is not None and current not in known:
            raise JournalError(
                f"the journal {shown(place)} was written by a newer ralphd (its schema is {current!r}, "
                f"this one knows {max(known)!r}): use that version, or another state folder{_older(place)}",
            )
        if current is not None and not is_url(place):
            back_up(place, time.time())
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as error:
        raise JournalError(f"can't bring the journal {shown(place)} up to date: {error}") from None
    except SQLAlchemyError as error:
        kind, words = trouble(error, place)
        raise JournalError(f"can't bring the journal {shown(place)} up to date: {words}", kind=kind) from None


def _older(place: str) -> str:
    """Say where copies of before the newer version may lie."""
    folder = "" if is_url(place) else backup_folder(place)
    return f"; copies from before that may be in {folder}" if folder and os.path.isdir(folder) else ""
