"""The state folder and what lies where in it. Light: every verb imports this."""

from __future__ import annotations

import os
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.config import Config


@dataclass(frozen=True, kw_only=True)
class Place:
    """Paths below one state folder. ``state`` is absolute and exists."""

    state: str

    def journal(self, config: Config | None = None) -> str:
        """Return the journal's URL if one is configured, else SQLite's path."""
        url = config.journal.url if config is not None else ""
        return url or os.path.join(self.state, "journal.db")

    @property
    def log(self) -> str:
        return os.path.join(self.state, "daemon.log")

    @property
    def schedule(self) -> str:
        """Where a daemon that waits for its next night remembers that it does."""
        return os.path.join(self.state, "schedule.json")

    def night(self, night: str) -> str:
        return os.path.join(self.state, "nights", night)
