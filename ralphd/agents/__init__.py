"""The coding CLIs that ralphd can speak to, by name."""

from __future__ import annotations

from ralphd.agents.base import File, Launch, Tells, Turn
from ralphd.agents.lines import Lines
from ralphd.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Adapter

NAMES = ("claude", "codex", "command", "demo", "gemini", "mini", "opencode", "pi", "qwen")  # modules of this package


def adapter(name: str) -> Adapter:
    """Return the adapter called ``name``. Raises UsageError that lists what there is.

    It is imported only now, because a pane pays in memory only for the CLI that it runs.
    """
    if name not in NAMES:
        raise UsageError(f"agent.cli: no adapter called {name[:40]!r}; there are: {', '.join(NAMES)}")
    found: Adapter = __import__(f"{__name__}.{name}", fromlist=["launch"])
    return found


__all__ = ["NAMES", "File", "Launch", "Lines", "Tells", "Turn", "adapter"]
