"""What does a daemon say of its night, for a test that asks until it says so?

`ralphd status` asks the same. A process for each look would take a half of what a processor can do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ralphd.edges.control import ask

PATIENCE_S = 60.0  # generous: nobody waits for it unless something is broken


def glance(state: Path) -> dict[str, Any]:
    """What `status --json` prints. Its loops are told by their ids."""
    (reply,) = ask(state, {"verb": "status"}, PATIENCE_S)
    assert reply.get("ok") is True, reply
    data = reply["data"]
    assert isinstance(data, dict)
    return data


def loops_at(state: Path) -> dict[str, dict[str, Any]]:
    return {loop["id"]: loop for loop in glance(state)["loops"]}
