"""What is wanted of a loop: the newest order counts, and what earlier ones wanted once is not lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ralphd.core import codec
from ralphd.core.exchange import Order, Want, newest
from ralphd.pane.inbox import Inbox
from ralphd.pane.wishes import Wishes


def put(folder: Path, order: Order) -> None:
    (folder / "draft").write_text(json.dumps(codec.dump(order)))
    os.replace(folder / "draft", folder / "order.json")


@pytest.fixture
def wishes(tmp_path: Path) -> Wishes:
    put(tmp_path, Order(serial=1, want=Want.RUNNING))
    return Wishes(str(tmp_path), Inbox(str(tmp_path)))


def test_an_order_that_was_overtaken_before_it_was_read_still_ends_the_session(wishes: Wishes, tmp_path: Path) -> None:
    restart = Order(serial=2, want=Want.RUNNING, now=True, retry=True).after(None)
    put(tmp_path, Order(serial=3, want=Want.RUNNING).after(restart))
    wishes.read()
    assert (wishes.cut, wishes.retry, wishes.ask) == (True, True, False)


def test_an_order_that_was_read_ends_one_session_only(wishes: Wishes, tmp_path: Path) -> None:
    restart = Order(serial=2, want=Want.RUNNING, now=True, retry=True).after(None)
    put(tmp_path, restart)
    wishes.read()
    assert wishes.cut
    wishes.cut = wishes.retry = False  # served
    put(tmp_path, Order(serial=3, want=Want.RUNNING).after(restart))
    wishes.read()
    assert not wishes.cut
    assert not wishes.retry


def test_the_newest_of_several_is_what_is_wanted(wishes: Wishes, tmp_path: Path) -> None:
    order = None
    for serial, want in ((2, Want.PAUSED), (3, Want.RUNNING), (4, Want.STOPPED)):
        order = Order(serial=serial, want=want, now=serial == 2, ask=serial == 3).after(order)
    assert order is not None
    put(tmp_path, order)
    wishes.read()
    assert (wishes.want, wishes.cut, wishes.ask) == (Want.STOPPED, True, True)


def test_an_order_of_before_a_runner_came_up_has_no_session_to_end(tmp_path: Path) -> None:
    restart = Order(serial=2, want=Want.RUNNING, now=True).after(None)
    put(tmp_path, Order(serial=3, want=Want.RUNNING).after(restart))
    assert not Wishes(str(tmp_path), Inbox(str(tmp_path))).cut


def test_an_order_of_an_older_daemon_is_understood(wishes: Wishes, tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"serial": 2, "want": "running", "now": true}')
    wishes.read()
    assert wishes.cut


def test_of_two_orders_the_newer_counts_whichever_is_heard_of_first() -> None:
    restart = Order(serial=2, want=Want.RUNNING, now=True, retry=True)
    resume = Order(serial=3, want=Want.RUNNING, retry=True)
    stands = Order(serial=3, want=Want.RUNNING, retry=True, now_at=2, retry_at=3)
    assert newest(newest(None, restart), resume) == stands
    assert newest(newest(None, resume), restart) == stands
