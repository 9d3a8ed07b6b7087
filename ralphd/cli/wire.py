"""The one place that builds everything: ports from edges, a daemon from ports."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from ralphd import __version__
from ralphd.cli import shipped
from ralphd.cli.daemonlog import DaemonLog
from ralphd.cli.place import Place
from ralphd.core import policy
from ralphd.core.config import Config
from ralphd.core.errors import JournalError
from ralphd.core.fold import fold
from ralphd.core.model import Candidate, Verdict
from ralphd.core.redact import Redactor, secrets_of
from ralphd.core.state import NightState
from ralphd.core.status import DaemonFacts
from ralphd.daemon.act import Doer
from ralphd.daemon.assign import Assigner, base_environment
from ralphd.daemon.close import Closing
from ralphd.daemon.consult import Consultant
from ralphd.daemon.guarding import Guarding
from ralphd.daemon.inbox import Asked, Inbox, Judged
from ralphd.daemon.news import News
from ralphd.daemon.observe import Sight
from ralphd.daemon.requests import Desk, Reply
from ralphd.daemon.run import Daemon, Hooks
from ralphd.daemon.tick import Night
from ralphd.daemon.verify import VerifyQueue, ending
from ralphd.daemon.weigh import Room
from ralphd.daemon.world import World
from ralphd.edges.journal import Journal, JournalReader
from ralphd.edges.journal_writer import JournalWriter
from ralphd.edges.judge import Verifiers
from ralphd.edges.loopfolder import LoopFolders
from ralphd.edges.model import adviser
from ralphd.edges.notifier import Apprise
from ralphd.edges.panes import TmuxPanes
from ralphd.edges.prices import price
from ralphd.edges.processes import LoopProcesses, boot_id
from ralphd.edges.repositories import NightRepositories
from ralphd.edges.tmux import Tmux
from ralphd.edges.tmux_socket import socket_path
from ralphd.edges.zone import local_zone

SHORTEST_TOLD = 8  # characters of a value that could be a secret; a shorter one is in every other line


class SystemClock:
    """The working default of ports.Clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


def tmux(place: Place, environ: Mapping[str, str]) -> Tmux:
    return Tmux(socket_path(place.state, environ), environ=environ)


def open_journal(place: Place, config: Config, environ: Mapping[str, str]) -> Journal:
    """Open for writing; the agent's secrets are redacted wherever they turn up."""
    return Journal.open(place.journal(config), shipped.folder("migrations"), redactor(config, environ))


def redactor(config: Config, environ: Mapping[str, str]) -> Redactor:
    return Redactor(known_secrets(config, environ))


def known_secrets(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
    passed = {name: environ[name] for name in config.agent.env_pass if name in environ}
    return (*secrets_of(passed, config.agent.env), *config.notify.urls)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a daemon is made of beyond its ports; ``close`` ends what has threads or children."""

    daemon: Daemon
    inbox: Inbox
    close: Callable[[], None]


def assigner(program: str, environ: Mapping[str, str]) -> Assigner:
    return Assigner(environ=environ, program=program, preamble=shipped.text("preamble.md"))


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What a night's daemon is built for. ``last_seq``: how far each runner's records are in the journal."""

    place: Place
    state: NightState
    last_seq: Mapping[str, int]
    config: Config
    program: str
    environ: Mapping[str, str]


def next_due(schedule: str, environ: Mapping[str, str]) -> float | None:
    """Tell when a schedule has its next night, in epoch seconds; None when there is no schedule."""
    if not schedule:
        return None
    from ralphd.edges.schedule import calendar  # noqa: PLC0415  # most nights have none

    due = calendar(schedule, local_zone(environ)).next_after(datetime.now(UTC))
    return due.timestamp() if due else None


def build(frame: Frame, journal: Journal, hooks: Hooks) -> Parts:
    """Wire a daemon for one night."""
    inbox: Inbox = Inbox()
    opened = _open(frame, journal, hooks)
    world = _world(frame, opened)
    doer = _doer(world, inbox, opened)
    night = Night(world=world, inbox=inbox, state=frame.state, sight=Sight(last_seq=dict(frame.last_seq)), doer=doer)
    consultant = _consultant(frame, journal, inbox)
    night.consult, night.hears = consultant.heed, consultant.chronicle.hear
    troubles: dict[str, str] = {}
    daemon = Daemon(
        night=night,
        desk=Desk(night=night, facts=_facts(world, troubles, frame.environ), hide=journal.redactor.text),
        closing=Closing(night=night),
        hooks=hooks,
        consultant=consultant,
        guarding=Guarding(night=night),
        troubles=troubles,
    )
    if world.notifier is not None:
        daemon.news = _news(frame.state, lambda title, body: opened.aside.submit(doer.tell_person, title, body))
    return Parts(daemon=daemon, inbox=inbox, close=lambda: _close(opened, consultant, night))


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What has a thread, a child or a file of its own. ``aside``: calls that a slow place elsewhere may hold."""

    journal: Journal
    writer: JournalWriter
    folders: LoopFolders
    processes: LoopProcesses
    verifiers: Verifiers
    notifier: Apprise | None
    slow: ThreadPoolExecutor
    judges: ThreadPoolExecutor
    aside: ThreadPoolExecutor


def _open(frame: Frame, journal: Journal, hooks: Hooks) -> Opened:
    processes = LoopProcesses(clock=time.monotonic, wait=time.sleep)
    slots = sum(task.task.verifier.slots for task in frame.state.tasks.values())
    nonce = secrets.token_hex(16)
    return Opened(
        journal=journal,
        writer=JournalWriter(journal, hooks.spare),
        folders=LoopFolders(boot_id()),
        processes=processes,
        verifiers=Verifiers(
            frame.place.night(frame.state.id),
            (*shipped.LEAN_PYTHON, shipped.GUARDED),
            {**base_environment(frame.environ), "RALPHD_NONCE": nonce},
            lambda: processes.end_leftovers([nonce]),
        ),
        notifier=notifier(frame.config, frame.environ),
        slow=ThreadPoolExecutor(1, "slow"),
        judges=ThreadPoolExecutor(max(1, slots), "judge"),
        aside=ThreadPoolExecutor(1, "aside"),
    )


def _world(frame: Frame, opened: Opened) -> World:
    place, environ, redactor = frame.place, frame.environ, opened.journal.redactor
    return World(
        clock=SystemClock(),
        journal=opened.writer,
        panes=TmuxPanes(tmux(place, environ), ("/usr/bin/tail", "-n", "200", "-F", place.log)),
        repositories=NightRepositories(),
        folders=opened.folders,
        judge=opened.verifiers,
        host=opened.processes,
        config=frame.config,
        assignment=assigner(frame.program, environ),
        runner=lambda folder, after_s: (*shipped.LEAN_PYTHON, shipped.RUNNER, folder, f"{after_s:g}"),
        template=lambda name: shipped.text(f"{name}.md"),
        log=DaemonLog(place.log, redactor),
        notifier=opened.notifier,
        hide=redactor.text,
        price=price,
    )


def _doer(world: World, inbox: Inbox, opened: Opened) -> Doer:
    def judged(intent: int, candidate: Candidate, verdict: Verdict) -> None:
        inbox.put(Judged(intent=intent, candidate=candidate, verdict=verdict))

    queue = VerifyQueue(
        judge=world.judge,
        pool=opened.judges,
        done=judged,
        superseded=lambda intent, by: inbox.put(ending(intent, by)),
    )
    return Doer(world=world, inbox=inbox, slow=opened.slow, aside=opened.aside, queue=queue)


def _facts(world: World, troubles: Mapping[str, str], environ: Mapping[str, str]) -> Callable[[], DaemonFacts]:
    started_at = time.time()
    return lambda: DaemonFacts(
        pid=os.getpid(),
        version=__version__,
        started_at=started_at,
        trouble=tuple(troubles.values()),
        next_night_at=next_due(world.config.night.schedule, environ),
    )


def _close(opened: Opened, consultant: Consultant, night: Night) -> None:
    """End what the night had open; who only leaves a night must not wait for a slow place elsewhere."""
    leaves = night.state.ended_at is None
    opened.verifiers.close()
    consultant.close()
    opened.slow.shutdown(wait=True, cancel_futures=True)
    opened.judges.shutdown(wait=True, cancel_futures=True)
    if opened.notifier is not None and leaves:
        opened.notifier.close()
    opened.aside.shutdown(wait=True, cancel_futures=leaves)
    if not opened.writer.close():
        night.world.log.error("not everything could be written to the journal", why=opened.writer.trouble)
    opened.journal.close()
    opened.folders.close()


def notifier(config: Config, environ: Mapping[str, str]) -> Apprise | None:
    """Return the way to the person, None when there is none."""
    return Apprise(config.notify.urls, base_environment(environ)) if config.notify.urls else None


def _news(state: NightState, tell: Callable[[str, str], object]) -> News:
    done = {name for name, task in state.tasks.items() if task.done}
    return News(tell=tell, known=done, adopted=any(loop.started for loop in state.loops.values()))


def _aside(call: Callable[[], None]) -> None:
    """Run a call on a thread that keeps nobody from leaving: an endpoint may hold it for as long as it likes."""
    threading.Thread(target=call, name="advice", daemon=True).start()


def _consultant(frame: Frame, journal: Journal, inbox: Inbox) -> Consultant:
    config, environ = frame.config.supervisor, frame.environ
    own = Redactor(everything_of(environ))

    def hide(text: str) -> str:
        return own.text(journal.redactor.text(text))

    consultant = Consultant(
        adviser=adviser(config.model, config.base_url, environ),
        adviser_of=lambda model: adviser(model, config.base_url, environ),
        run=_aside,
        inbox=inbox,
        room=Room(stuck=policy.stuck, offers=policy.offers, cheap=policy.cheap_offers),
        budget=config.calls,
        system=lambda: shipped.text("supervisor.md"),
        excerpt=lambda loop: newest_words(loop.loop.folder, hide),
        hide=hide,
        fence=lambda: secrets.token_hex(16),
        chance=random.random,
    )
    if config.model:
        _remember(frame, consultant)
    return consultant


def newest_words(folder: str, hide: Callable[[str], str]) -> str:
    """Return the end of a loop's log, by the CLI that it runs now: ralphd.toml may name another than at the start."""
    from ralphd.cli.excerpt import excerpt  # noqa: PLC0415  # who takes a night up must not wait for it
    from ralphd.cli.logs import whose  # noqa: PLC0415  # as above

    cli, hide_its = whose(folder)
    return excerpt(folder, cli, lambda text: hide(hide_its(text)))


def _remember(frame: Frame, consultant: Consultant) -> None:
    """Tell the consultant what the night's journal holds already."""
    reader = JournalReader.open(frame.place.journal(frame.config))
    try:
        for entry in reader.entries(frame.state.id):
            consultant.chronicle.hear(entry)
    finally:
        reader.close()


def everything_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what of the daemon's environment may never be sent: all that is no path and no common word."""
    harmless = base_environment(environ)
    return tuple(
        value
        for name, value in environ.items()
        if name not in harmless and len(value) >= SHORTEST_TOLD and not value.startswith("/")
    )


def on_request(inbox: Inbox) -> Callable[[dict[str, object], Reply], None]:
    return lambda request, reply: inbox.put(Asked(request=request, reply=reply))


def remembered(place: Place, config: Config, night: str) -> tuple[NightState, dict[str, int]]:
    """Fold a night out of the journal. Raises JournalError when it isn't there."""
    reader = JournalReader.open(place.journal(config))
    try:
        state = fold(reader.condensed(night))
        last_seq = reader.last_seq(night)
    finally:
        reader.close()
    if not state.id:
        raise JournalError(f"the journal has no night {night}")
    return state, last_seq
