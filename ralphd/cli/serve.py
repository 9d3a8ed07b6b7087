"""The daemon's process: own the state, begin the night, run it, and leave word for whoever started it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from ralphd import __version__
from ralphd.cli import memory, preflight
from ralphd.cli.begin import Begun, Start, find_open, leave_night_file
from ralphd.cli.place import Place
from ralphd.cli.pulse import Pulse, pulse
from ralphd.cli.settings import Settings
from ralphd.cli.wire import Parts, assigner, build, known_secrets, on_request, redactor, tmux
from ralphd.core.config import Config
from ralphd.core.errors import ConfigError, RalphdError
from ralphd.core.events import Entry, NightEnded
from ralphd.core.outcomes import Kind
from ralphd.core.state import NightState
from ralphd.core.status import iso
from ralphd.daemon.assign import Assigner
from ralphd.daemon.inbox import Changed, Leave, Rang
from ralphd.daemon.recover import note_reboot, recover
from ralphd.daemon.run import Hooks
from ralphd.edges import nightfile
from ralphd.edges.control import ControlServer
from ralphd.edges.journal_backup import back_up
from ralphd.edges.ownership import own
from ralphd.edges.processes import boot_id, forbid_reading
from ralphd.edges.reclaim import reclaim
from ralphd.edges.space import Ballast
from ralphd.edges.strain import strains
from ralphd.edges.systemd import forget

if TYPE_CHECKING:
    from ralphd.edges.schedule import Schedule
    from ralphd.edges.watch import Watch

# Who takes a night up after its daemon died waits for what is loaded here, on a machine that is as busy as the loops
# make it. So what isn't needed to adopt them (the report's words, schedules, the watch over files) is loaded later, in
# the functions that need it; tests/cli/test_look_is_light.py holds that.

REPORT_EVERY_S = 600.0  # so that a night which is cut short has a report of its last minutes

BACKUP_EVERY_S = 900.0  # what a lost journal may cost at most, in what the daemon itself decided and judged


class When(Enum):
    """What ``ralphd start`` begins with, when no night is open."""

    NOW = "now"
    ONLY_OPEN = "only open"  # go on with what is there: an open night, or a daemon's waiting; else leave at once
    ONLY_SCHEDULED = "only scheduled"  # wait for the first night that the schedule has


@dataclass(frozen=True, kw_only=True)
class Word:
    """How the daemon speaks to the command that started it: JSON lines on a pipe, or a person's terminal."""

    write: Callable[[dict[str, object]], None]

    def progress(self, text: str) -> None:
        self.write({"progress": text})

    def ready(self, text: str, *, adopted: bool) -> None:
        self.write({"ready": text, "adopted": adopted})

    def error(self, text: str, code: int) -> None:
        self.write({"error": text, "code": code})

    def without_ready(self) -> Word:
        """Return a word that never tells that the loops run: who waits for that has to wait on."""
        return Word(write=lambda data: None if "ready" in data else self.write(data))


def through(fd: int) -> Word:
    """Speak into a pipe. The one who reads it may be gone; that is no trouble of ours."""

    def write(data: dict[str, object]) -> None:
        try:
            os.write(fd, json.dumps(data).encode() + b"\n")
        except OSError:
            return

    return Word(write=write)


def serve(
    place: Place,
    settings: Settings,
    environ: Mapping[str, str],
    word: Word,
    *,
    with_uncommitted: bool,
    when: When = When.NOW,
    to_end: bool = False,
) -> int:
    """Run a night to its end, or until a signal; with a schedule then each that is due. Returns the exit code."""
    forbid_reading()
    heart = pulse(environ)
    forget(os.environ)
    start = Start(
        place=place,
        settings=settings,
        environ=environ,
        say=word.progress,
        with_uncommitted=with_uncommitted,
        to_end=to_end,
    )
    try:
        ownership = own(place.state, version=__version__, started_at=iso(time.time()) or "")
        try:
            start.mend()
            _nights(start, word, heart, when)
        finally:
            ownership.release()
    except RalphdError as error:
        heart.leave(str(error))
        word.error(str(error), error.exit_code)
        return error.exit_code
    return 0


def _nights(start: Start, word: Word, heart: Pulse, when: When) -> None:
    """Run one night, if one is to run now, and then each that the schedule has, until somebody ends the waiting."""
    config = start.read()
    is_open = find_open(start.place, config) is not None
    before = memory.recall(start.place)
    if when is When.ONLY_OPEN and not is_open and before is None:
        _leave_at_once(start.place, start.environ, heart, word)
        return
    if when is When.ONLY_OPEN and not is_open and before is not None:
        start = replace(start, settings=before.settings)
        config = start.read()
    if is_open or when is When.NOW:
        start = _account_before(start, config) if config.night.schedule else start
        ran = _serve(start, word, heart, only_open=when is When.ONLY_OPEN)
        after = _after(start, ran) if ran is not None else None
        if ran is None or after is None:
            return
        start, config = replace(start, settings=ran.settings), after
    _wait(start, config, word, heart)


def _after(start: Start, ran: Begun) -> Config | None:
    """Return the configuration by which another night shall follow this one, None: by none.

    It remembers how far nights are accounted for.
    """
    try:
        config = ran.settings.read()
    except ConfigError:
        config = ran.frame.config
    if not config.night.schedule:
        memory.forget(start.place)
        return None
    from ralphd.cli.wait import account_after  # noqa: PLC0415  # see above

    account_after(replace(start, settings=ran.settings), config)
    return config


def _account_before(start: Start, config: Config) -> Start:
    from ralphd.cli.wait import account_before  # noqa: PLC0415  # see above

    return account_before(start, config)


def _wait(start: Start, config: Config, word: Word, heart: Pulse) -> None:
    """Begin every night that is due, until a signal or `ralphd stop` while none runs."""
    from ralphd.cli.wait import Wait  # noqa: PLC0415  # see above

    while True:
        wait = Wait(start=start, config=config, beat=heart.wait)
        on_signals(lambda message, wait=wait: wait.inbox.put(message))  # type: ignore[misc]  # bound now

        def ready(wait: Wait = wait) -> None:
            word.ready(f"waiting: {wait.words()}", adopted=False)
            heart.ready()

        begun = wait.until_begun(ready)
        if begun is None:
            heart.leave("leaving while no night runs")
            return
        _run(start.place, begun, word.without_ready(), heart, last=False)
        left_open = find_open(start.place, begun.frame.config) is not None
        after = None if left_open else _after(start, begun)
        if after is None:
            heart.leave(f"leaving night {begun.frame.state.id}")
            return
        config = after


def _leave_at_once(place: Place, environ: Mapping[str, str], heart: Pulse, word: Word) -> None:
    """Leave as a service that did its work: to a manager an end before READY=1 is a failure."""
    server = tmux(place, environ)
    if not server.panes():
        server.kill_server()  # ralphd-tmux.service was started for us, and has nothing to hold
    text = "no night is open, so there is nothing to take up; `ralphd start --service` begins one"
    word.progress(text)
    heart.ready()
    heart.leave(text)


def _serve(start: Start, word: Word, heart: Pulse, *, only_open: bool) -> Begun | None:
    """Run a night; return it when it has ended, None when told to go before.

    One that was over when its daemon died is closed first: what it left must not end the new one.
    """
    begun, place = start.begin(), start.place
    if begun.over:
        night = begun.frame.state.id
        word.progress(f"night {night} was over when its daemon died: closing it first")
        _run(place, begun, word.without_ready(), heart, last=only_open and not begun.frame.config.night.schedule)
        if find_open(place, begun.frame.config) is not None:
            return None  # told to go before it was closed
        if only_open:
            word.ready(f"night {night}: closed", adopted=True)
            return begun
        begun = start.begin()
    _run(place, begun, word, heart, last=not begun.frame.config.night.schedule)
    return begun if find_open(place, begun.frame.config) is None else None


def _run(place: Place, begun: Begun, word: Word, heart: Pulse, *, last: bool = True) -> None:
    night = begun.frame.state.id
    heart.adopted = begun.adopted and _has_run(begun.frame.state)
    ballast = Ballast(place.state)
    company = ExitStack()  # what is set going once the loops run, and ends with us

    def ready(text: str, *, runs: bool) -> None:
        _tell_ready(word, heart, f"night {night}: {text}", adopted=begun.adopted, runs=runs)
        company.callback(_schedule(begun, parts).close)
        company.callback(_watch(begun, parts).close)

    hooks = Hooks(
        ready=lambda text, runs: ready(text, runs=runs),
        report=lambda: _write_report(place, begun.frame.config, night),
        reload=lambda: reload(begun),
        backup=lambda: _back_up(place, begun),
        room=ballast.look,
        spare=ballast.drop,
        strains=lambda: strains(place.state),
        ticked=heart.beat,
    )
    parts = build(begun.frame, begun.journal, hooks)
    world = parts.daemon.night.world
    world.frame = lambda: leave_night_file(place, world.config, night, begun.journal.redactor)
    world.free_disk = lambda: reclaim(place.state, night, time.time())
    control = ControlServer(Path(place.state), on_request(parts.inbox))
    on_signals(parts.inbox.put)
    try:
        if heart.adopted:
            recover(parts.daemon.night)
            note_reboot(parts.daemon.night, boot_id())
        parts.daemon.run()
    finally:
        if last:
            heart.leave(f"leaving night {night}")
        company.close()
        control.close()
        parts.close()
        _keep_the_end(place, begun, parts)
        ballast.drop()


def _write_report(place: Place, config: Config, night: str) -> None:
    from ralphd.cli.reports import write_report  # noqa: PLC0415  # see above

    write_report(place, config, night)


def _back_up(place: Place, begun: Begun) -> None:
    """Copy the journal if it is a file of ours. Raises JournalError."""
    path = place.journal(begun.frame.config)
    if path == place.journal():
        back_up(path, time.time(), begun.frame.state.id)


def _keep_the_end(place: Place, begun: Begun, parts: Parts) -> None:
    """Note a night's end beside the journal, and keep a copy that has it: a lost journal must not begin it again."""
    state = begun.frame.state
    if state.ended_at is None:
        return
    end = Entry(at=state.ended_at, night=state.id, body=NightEnded(why=state.why_ended))
    try:
        nightfile.close(place.night(state.id), end, redactor(begun.frame.config, begun.frame.environ))
        _back_up(place, begun)
    except (OSError, RalphdError) as error:
        parts.daemon.night.world.log.warning("the night's end is in the journal alone", why=str(error))


def _has_run(state: NightState) -> bool:
    """Tell a night that a daemon had from one that `ralphd start --service` only began."""
    return bool(state.intents) or any(loop.started for loop in state.loops.values())


def _tell_ready(word: Word, heart: Pulse, text: str, *, adopted: bool, runs: bool) -> None:
    if runs:
        word.ready(text, adopted=adopted)
    else:
        word.error(f"{text} yet; they are tried again: `ralphd status` and `ralphd doctor` say more", 1)
    heart.ready()


def reload(begun: Begun) -> tuple[Config, Assigner]:
    """Read ralphd.toml again: a running night follows in agent, limits, worktrees, supervisor. Raises UsageError."""
    if not os.path.exists(begun.settings.path):
        raise ConfigError(f"{begun.settings.path} is gone")
    config, environ = begun.settings.read(), begun.frame.environ
    preflight.check_environment(config.agent, environ)
    begun.journal.redactor.learn(known_secrets(config, environ))
    return config, assigner(preflight.find_program(config.agent, begun.settings.folder, environ), environ)


def _watch(begun: Begun, parts: Parts) -> Watch:
    """Watch what changes rarely: ralphd.toml, and what in a night repository can make git run something."""
    from ralphd.edges.watch import Watch  # noqa: PLC0415  # see above

    paths = [begun.settings.path]
    for task in begun.frame.state.tasks.values():
        git_dir = os.path.join(task.task.night_repository, "repo.git")
        paths += [os.path.join(git_dir, name) for name in ("config", "config.worktree", "hooks", "info")]
    watch = Watch(paths, lambda path: parts.inbox.put(Changed(path=path)))
    if begun.adopted and watch.mode != "inotify":
        parts.daemon.night.note(Kind.HOST_LIMITS, watch.why)
    return watch


def _schedule(begun: Begun, parts: Parts) -> Schedule:
    from ralphd.edges.schedule import Schedule  # noqa: PLC0415  # see above

    schedule = Schedule(lambda name: parts.inbox.put(Rang(name=name)))
    schedule.every("report", REPORT_EVERY_S)
    schedule.every("backup", BACKUP_EVERY_S)
    if begun.frame.state.ends_at is not None:
        schedule.at("end", datetime.fromtimestamp(begun.frame.state.ends_at, UTC))
    return schedule


def on_signals(put: Callable[[Leave], None]) -> None:
    """Let each handler leave a note only; the main loop acts on it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda n, _frame: put(Leave(why=signal.Signals(n).name)))
