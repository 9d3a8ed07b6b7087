"""What is wanted of this loop right now, by orders, by signals and by a person's Ctrl-C."""

from __future__ import annotations

import os
import signal

from ralphd.core.exchange import Order, Want
from ralphd.pane.inbox import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.pane.inbox import Inbox


class Wishes:
    """The newest order together with what signals asked for.

    ``cut``, ``retry`` and ``ask`` are served once: ``cut`` ends the running session now, ``retry`` cuts a wait short,
    ``ask`` has inference asked at once, also where the CLI itself waits.
    """

    def __init__(self, folder: str, inbox: Inbox) -> None:
        self._path = os.path.join(folder, "order.json")
        self._inbox = inbox
        self._seen: tuple[int, ...] | None = None
        self._order = Order(serial=-1, want=Want.RUNNING)
        self._leaving = ""
        self._by_hand = False
        self.cut = False
        self.retry = self.ask = False
        self.read()
        self.cut = self.retry = self.ask = False  # an order of before our time has no session to end

    @property
    def serial(self) -> int:
        return self._order.serial

    @property
    def why(self) -> str:
        if self._leaving:
            return self._leaving
        return "Ctrl-C was pressed in the pane" if self._by_hand else self._order.why

    @property
    def want(self) -> Want:
        if self._leaving:
            return Want.STOPPED
        if self._by_hand and self._order.want is Want.RUNNING:
            return Want.PAUSED
        return self._order.want

    def read(self) -> None:
        """Take a newer order, if there is one: looking costs microseconds, so any ring of the bell will do."""
        seen = stamp(self._path)
        if seen is None or seen == self._seen:
            return
        order = self._inbox.order()
        if order is None:
            return
        self._seen = seen
        read = self._order.serial
        if order.serial > read:
            self._order = order
            self._by_hand = False
            self.cut = self.cut or order.now or order.now_at > read
            self.retry = self.retry or order.retry or order.retry_at > read
            self.ask = self.ask or order.ask or order.ask_at > read

    def heed(self, signals: set[int]) -> None:
        """Take the signals that came. SIGINT is a person at the pane: this session ends and the loop pauses."""
        if signal.SIGTERM in signals:
            self._leaving = "SIGTERM"
        elif signal.SIGHUP in signals:
            self._leaving = "SIGHUP: the pane was closed"
        elif signal.SIGINT in signals:
            self._by_hand = True
        if signals:
            self.cut = True
        signals.clear()
