"""What tests of the command line share."""

from __future__ import annotations

import pytest
from support.livenight import LiveNight


@pytest.fixture
def night(tmp_path):
    """A night that can be started; whatever runs of it at the end is ended."""
    live = LiveNight(tmp_path)
    yield live
    live.clean_up()
