"""One stage for each test, on which a real agent CLI plays, and nothing of it left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.clients import CLIENTS, Client
from support.model_server import serving
from support.stage import Director, Stage

SetUp = Callable[..., Stage]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


@pytest.fixture
def stage(client: Client, tmp_path: Path) -> Iterator[SetUp]:
    """Sets the stage with these limits; called once."""
    director, stages = Director(), []
    with serving(director) as server:

        def set_up(**limits: float) -> Stage:
            stages.append(Stage(tmp_path, client, server, director, **limits))
            return stages[-1]

        yield set_up
        for one in stages:
            one.loop.clean_up()
