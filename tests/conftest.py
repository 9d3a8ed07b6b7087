"""Shared by all tests: nothing of the developer's own environment leaks in."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_state_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may find, or touch, the state folder or the tmux server of whoever runs it."""
    kept = {"RALPHD_REAL_CLIENTS", "RALPHD_CLAUDE", "RALPHD_TEST_WORKERS"}
    ours = [name for name in os.environ if name.startswith("RALPHD_") and name not in kept]
    for name in ("XDG_STATE_HOME", "TMUX", "TMUX_PANE", *ours):
        monkeypatch.delenv(name, raising=False)
