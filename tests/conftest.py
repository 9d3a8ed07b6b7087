"""Shared by all tests: nothing of the developer's own environment leaks in."""

from __future__ import annotations

import os
import signal
from itertools import groupby, zip_longest

import pytest
from hypothesis import HealthCheck, settings

# Its own limits are of time: 200 ms an example, which a machine with eight others at work doesn't keep.
settings.register_profile("ralphd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ralphd")

# Whoever starts us in the background (`scripts/test &`, nohup) leaves these ignored, and so would everything a test starts.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Hand the modules with slow tests or nights to the workers early, and no longer one after another than the others last.

    Those wait most of their time, and the others want a processor: mixed, they share it well. By the number of their
    tests, as xdist would have them, the longest modules would come last, and one of them would run alone at the end.
    """
    if hasattr(config, "workerinput"):
        modules = [list(of_one) for _, of_one in groupby(items, key=lambda item: item.path)]
        slow = sorted((one for one in modules if _slow(one)), key=_slow, reverse=True)
        others = sorted((one for one in modules if not _slow(one)), key=len, reverse=True)
        items[:] = [item for pair in zip_longest(slow, others, fillvalue=[]) for one in pair for item in one]


def _slow(items: list[pytest.Item]) -> int:
    marked = sum(item.get_closest_marker("slow") is not None for item in items)
    return 10 * marked + len(items) * (items[0].path.parent.name == "night")


@pytest.fixture(autouse=True)
def _no_state_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may find, or touch, the state folder or the tmux server of whoever runs it."""
    clients = ("CLAUDE", "CODEX", "OPENCODE", "PI", "GEMINI", "QWEN", "MINI")  # as tests/support/clients.py finds them
    kept = {"RALPHD_REAL_CLIENTS", "RALPHD_TEST_WORKERS", *(f"RALPHD_{name}" for name in clients)}
    ours = [name for name in os.environ if name.startswith("RALPHD_") and name not in kept]
    for name in ("XDG_STATE_HOME", "TMUX", "TMUX_PANE", *ours):
        monkeypatch.delenv(name, raising=False)
