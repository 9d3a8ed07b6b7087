"""Shared by all tests: nothing of the developer's own environment leaks in."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Its own limits are of time: 200 ms an example, which a machine with eight others at work doesn't keep.
settings.register_profile("ralphd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ralphd")

# Whoever starts us in the background (`scripts/test &`, nohup) leaves these ignored, and so would everything a test starts.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _no_state_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may find, or touch, the state folder or the tmux server of whoever runs it."""
    clients = ("CLAUDE", "CODEX", "OPENCODE", "PI", "GEMINI", "QWEN", "MINI")  # as tests/support/clients.py finds them
    kept = {"RALPHD_REAL_CLIENTS", "RALPHD_TEST_WORKERS", *(f"RALPHD_{name}" for name in clients)}
    ours = [name for name in os.environ if name.startswith("RALPHD_") and name not in kept]
    for name in ("XDG_STATE_HOME", "TMUX", "TMUX_PANE", *ours):
        monkeypatch.delenv(name, raising=False)
