"""The fold of an agent's signals: what a whole stream said so far, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.signals import Failed, Resulted


@dataclass
class Reading:
    """Grows signal by signal.

    ``failed`` is the newest structured failure that no later success of the same run overtook; ``result`` the last
    final result. Token figures are None until the CLI tells one.
    """

    session: str = ""
    model: str = ""
    version: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost_usd: float | None = None
    compactions: int = 0
    calls: int = 0
    open_calls: int = 0
    said: int = 0
    result: Resulted | None = None
    failed: Failed | None = None
    asked: str = ""
    unread: int = 0
