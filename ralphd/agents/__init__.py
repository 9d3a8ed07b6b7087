"""The coding CLIs that ralphd can speak to, by name."""

from __future__ import annotations

from ralphd.agents.base import Launch, Tells, Turn
from ralphd.agents.lines import Lines
from ralphd.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents.base import Adapter

NAMES = ("claude", "command", "demo")


def adapter(name: str) -> Adapter:
    """Return the adapter called ``name``. Raises UsageError that lists what there is.

    The imports stand here because a pane pays in memory only for the CLI that it runs.
    """
    if name == "claude":
        from ralphd.agents import claude  # noqa: PLC0415 -- see above

        return claude
    if name == "command":
        from ralphd.agents import command  # noqa: PLC0415 -- see above

        return command
    if name == "demo":
        from ralphd.agents import demo  # noqa: PLC0415 -- see above

        return demo
    raise UsageError(f"agent.cli: no adapter called {name[:40]!r}; there are: {', '.join(NAMES)}")


__all__ = ["NAMES", "Launch", "Lines", "Tells", "Turn", "adapter"]
