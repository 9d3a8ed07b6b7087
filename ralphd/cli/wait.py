"""The time between two nights: a daemon that answers, and begins the next night when it is due."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from queue import Empty

from ralphd import __version__
from ralphd.cli import memory
from ralphd.cli.begin import Begun, Start, list_started
from ralphd.cli.daemonlog import DaemonLog
from ralphd.cli.memory import Memory
from ralphd.cli.wire import known_secrets, on_request, remembered
from ralphd.core import waiting
from ralphd.core.config import Config
from ralphd.core.errors import ConfigError, RalphdError
from ralphd.core.policy import LoopNow
from ralphd.core.redact import Redactor
from ralphd.core.state import NightState
from ralphd.core.status import DaemonFacts, status
from ralphd.daemon.inbox import Asked, Inbox, Leave
from ralphd.daemon.requests import NOTHING, refuse
from ralphd.edges.control import ControlServer
from ralphd.edges.schedule import calendar
from ralphd.edges.zone import local_zone

LOOK_S = 1.0
AGAIN_S = 60.0  # a night that can't begin (a mistake in ralphd.toml, a full disk) is tried again


@dataclass(kw_only=True)
class Wait:
    """Waits with ``start``'s settings. ``beat`` tells the service manager that we live; ``now`` is UTC."""

    start: Start
    config: Config
    beat: Callable[[str], None]
    inbox: Inbox = field(default_factory=Inbox)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    steady: Callable[[], float] = time.monotonic
    trouble: str = ""
    tried_at: float = float("-inf")
    gone: bool = False

    def __post_init__(self) -> None:
        self.place = self.start.place
        self.calendar = calendar(self.config.night.schedule, local_zone(self.start.environ))
        before = memory.recall(self.place)
        kept = before.waiting if before is not None else waiting.Waiting(looked_at=self.now())
        self.memory = Memory(settings=self.start.settings, waiting=kept)
        self.log = DaemonLog(self.place.log, Redactor(known_secrets(self.config, self.start.environ)))
        self.started_at = self.now().timestamp()
        self.stamp = self._stamp()

    def next_at(self) -> datetime | None:
        return self.calendar.next_after(self.now())

    def words(self) -> str:
        due = self.next_at()
        return (
            f"the next night begins {due.astimezone(self.calendar.zone):%Y-%m-%d %H:%M}" if due else "no night is due"
        )

    def until_begun(self, ready: Callable[[], None]) -> Begun | None:
        """Return the next night, begun; None when somebody asked us to go. ``ready`` is called once we can be asked."""
        self._keep()
        self.log.info("waiting", what=self.words())
        control = ControlServer(Path(self.place.state), on_request(self.inbox))
        try:
            ready()
            while not self.gone:
                self._reread()
                self.beat(self.words())
                self._hear()
                if not self.gone and (begun := self._look()) is not None:
                    return begun
        finally:
            control.close()
            self._send_away()
        return None

    def _send_away(self) -> None:
        """Answer whoever asked while the night was being begun, or while we left."""
        with contextlib.suppress(Empty):
            while True:
                message = self.inbox.get_nowait()
                if isinstance(message, Asked):
                    refuse(message.reply, "the daemon was just changing between waiting and a night; ask again", 1)

    def _stamp(self) -> int:
        try:
            return os.stat(self.start.settings.path).st_mtime_ns
        except OSError:
            return 0

    def _reread(self) -> None:
        """Follow an edit of ralphd.toml; over one that can't be, or that has no schedule any more, keep the old."""
        stamp, self.stamp = self.stamp, self._stamp()
        if stamp == self.stamp:
            return
        try:
            config = self.start.settings.read()
        except ConfigError as error:
            self.trouble = f"ralphd.toml was changed and refused, the old one stays: {error}"
            self.log.warning(self.trouble)
            return
        if not config.night.schedule:
            self.trouble = (
                "ralphd.toml has no night.schedule any more, the old one stays; `ralphd stop` ends the waiting"
            )
            return
        self.config, self.trouble = config, ""
        self.calendar = calendar(config.night.schedule, local_zone(self.start.environ))
        self.log.info("ralphd.toml was read again", what=self.words())

    def _hear(self) -> None:
        """Wait a moment for a request or a signal, and answer it."""
        try:
            message = self.inbox.get(timeout=LOOK_S)
        except Empty:
            return
        if isinstance(message, Leave):
            self.log.info("leaving", why=message.why, what="`ralphd start --only-scheduled` waits on")
            self.gone = True
        elif isinstance(message, Asked):
            self._answer(message)

    def _answer(self, asked: Asked) -> None:
        verb = asked.request.get("verb")
        if verb == "status":
            asked.reply({"ok": True, "code": 0, "data": self._status()}, True)
        elif verb == "stop" and not asked.request.get("loops"):
            memory.forget(self.place)
            self.gone = True
            asked.reply({"ok": True, "code": 0, "data": {"night": None, "trouble": []}}, True)
        else:
            refuse(asked.reply, f"no night runs; {self.words()}", NOTHING)

    def _status(self) -> dict[str, object]:
        due = self.next_at()
        facts = DaemonFacts(
            pid=os.getpid(),
            version=__version__,
            started_at=self.started_at,
            trouble=(self.trouble,) if self.trouble else (),
            next_night_at=due.timestamp() if due else None,
        )
        state = self._last_night()
        seen = {name: LoopNow(alive=False, head=None) for name in state.loops}
        told = status(state, seen, 0, facts, self.now().timestamp())
        return told if state.id else {**told, "night": None}

    def _last_night(self) -> NightState:
        try:
            rows = list_started(self.place, self.config)
            return remembered(self.place, self.config, rows[-1][0])[0] if rows else NightState()
        except RalphdError:
            return NightState()

    def _look(self) -> Begun | None:
        looked = waiting.look(self.memory.waiting, self.now(), self.config.night, self.calendar, self._dates)
        if looked.due is None:
            changed = looked.after.missed != self.memory.waiting.missed
            self.memory = replace(self.memory, waiting=looked.after)
            if changed:
                self.trouble = waiting.missed_words(looked.after.missed, self.calendar)
                self.log.warning(self.trouble)
                self._keep()
            return None
        if self.steady() < self.tried_at + AGAIN_S:
            return None
        self.tried_at = self.steady()
        return self._begin(looked, looked.due)

    def _begin(self, looked: waiting.Look, due: datetime) -> Begun | None:
        missed = looked.after.missed
        words = waiting.missed_words(missed, self.calendar) if missed else ""
        try:
            begun = replace(self.start, missed=words).begin()
        except (RalphdError, OSError) as error:
            self.trouble = f"the night that is due can't begin: {error}"
            self.log.warning(self.trouble)
            return None
        self.memory = replace(self.memory, waiting=looked.after.begun(due, self.now(), self.calendar))
        self._keep()
        return begun

    def _dates(self) -> frozenset[date]:
        return dates_of_nights(self.start, self.config, self.calendar)

    def _keep(self) -> None:
        try:
            memory.keep(self.place, self.memory)
        except OSError as error:
            self.trouble = (
                f"{self.place.schedule} can't be written ({error.strerror}): a restart may begin a night twice"
            )
            self.log.warning(self.trouble)


def dates_of_nights(start: Start, config: Config, known: waiting.Calendar) -> frozenset[date]:
    """Return the local dates on which the journal has nights beginning."""
    try:
        rows = list_started(start.place, config)
    except RalphdError:
        return frozenset()
    return frozenset(known.date(datetime.fromtimestamp(at, UTC)) for _, at in rows)


def account_before(start: Start, config: Config) -> Start:
    """Remember, before a night runs, that somebody waits after it. Returns the start with what was missed until now."""
    known = calendar(config.night.schedule, local_zone(start.environ))
    now, before = datetime.now(UTC), memory.recall(start.place)
    kept = before.waiting if before is not None else waiting.Waiting(looked_at=now)
    looked = waiting.look(kept, now, config.night, known, lambda: dates_of_nights(start, config, known))
    memory.keep(start.place, Memory(settings=start.settings, waiting=looked.after))
    missed = looked.after.missed
    return replace(start, missed=waiting.missed_words(missed, known) if missed else "")


def account_after(start: Start, config: Config) -> None:
    """Remember that a night ran until now: what was due meanwhile needs no other."""
    known = calendar(config.night.schedule, local_zone(start.environ))
    now, before = datetime.now(UTC), memory.recall(start.place)
    kept = before.waiting if before is not None else waiting.Waiting(looked_at=now)
    memory.keep(start.place, Memory(settings=start.settings, waiting=kept.ran(now, known)))
