"""Begin a night, or take one up again whose daemon is gone: everything up to the daemon's first pass."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ralphd import __version__
from ralphd.cli import preflight, settings, shipped
from ralphd.cli.daemonlog import DaemonLog
from ralphd.cli.place import Place
from ralphd.cli.relearn import mend_journal
from ralphd.cli.settings import Settings
from ralphd.cli.wire import Frame, open_journal, redactor, remembered, tmux
from ralphd.core import events, nights, plan, policy, times
from ralphd.core.config import Config
from ralphd.core.errors import ConfigError, NothingRunning, UsageError
from ralphd.core.events import Entry
from ralphd.core.exchange import Want
from ralphd.core.model import Task
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.redact import Redactor
from ralphd.core.state import NightState
from ralphd.daemon.failpoints import hit
from ralphd.edges import nightfile
from ralphd.edges.checkout import delivered_nights, toplevel_of
from ralphd.edges.journal import Journal, JournalReader, NightRow
from ralphd.edges.loopfolder import LoopFolders
from ralphd.edges.night_repository import NightRepository
from ralphd.edges.processes import boot_id
from ralphd.edges.zone import local_zone

Say = Callable[[str], None]

NOBODY = "/bin/false"  # the agent of a night that is only ended: none is started any more


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A night that is in the journal. ``adopted``: it was open already. Its settings are its own, not this start's."""

    frame: Frame
    journal: Journal
    settings: Settings
    adopted: bool

    @property
    def over(self) -> bool:
        """Whether it only has to be closed: it was ending, has reached its goal, or its time has passed."""
        state = self.frame.state
        return self.adopted and (state.ending or bool(policy.over(state, time.time())))


@dataclass(frozen=True, kw_only=True)
class Start:
    """What ``ralphd start`` was asked for, where, and how it tells what it does.

    ``missed``: in words, which nights the schedule had and nobody began; told in the new night's journal. ``to_end``:
    the open night is taken up only to end it, which a mistake in its file must not prevent.
    """

    place: Place
    settings: Settings
    environ: Mapping[str, str]
    say: Say
    with_uncommitted: bool = False
    missed: str = ""
    to_end: bool = False

    def read(self) -> Config:
        """Read the file that was given. Raises ConfigError."""
        try:
            return self.settings.read()
        except ConfigError:
            if not self.to_end:
                raise
            return Config()

    def begin(self) -> Begun:
        """Check everything, then write the night's first entries. Leaves nothing behind when it raises."""
        config = self.read()
        open_night = find_open(self.place, config)
        if open_night is not None:
            return self._take_up(open_night)
        self._check_tools()
        preflight.check_environment(config.agent, self.environ)
        asked = preflight.check_tasks(config, self.settings.folder, self.environ.get("PATH", os.defpath))
        program = preflight.find_program(config.agent, self.settings.folder, self.environ)
        return self._new(config, asked, program)

    def mend(self) -> None:
        """See that a sound journal is there before anything reads it; what was lost is told and recorded."""
        config = self.read()

        def say_and_log(text: str) -> None:
            """Tell it where it stays, too: who started this may never look at the terminal again."""
            self.say(text)
            DaemonLog(self.place.log, redactor(config, self.environ)).warning(text)

        mend_journal(self.place, config, lambda: open_journal(self.place, config, self.environ), say_and_log)

    def _check_tools(self) -> None:
        tmux(self.place, self.environ).check()
        shipped.check_runner()

    def _take_up(self, row: NightRow) -> Begun:
        state, last_seq = remembered(self.place, Config(), row.id)
        if not _all_run(state):
            self._check_tools()
        own = settings.recalled(state.config)
        config, program = self._agent_of(own, state)
        self.say(f"night {row.id} is open and its daemon is gone: taking it up again with {len(state.loops)} loops")
        frame = self._frame(config, program, state, last_seq)
        journal = open_journal(self.place, config, self.environ)
        if nightfile.read(self.place.night(row.id)) is None:
            self._leave_night_file(config, row.id)
        return Begun(frame=frame, journal=journal, settings=own, adopted=True)

    def _agent_of(self, own: Settings, state: NightState) -> tuple[Config, str]:
        """Return the open night's configuration as its file is now, and the agent's program. Raises UsageError."""
        config = Config()
        try:
            config = own.read()
            self._refresh_verifiers(state, config, own.folder)
            preflight.check_environment(config.agent, self.environ)
            return config, preflight.find_program(config.agent, own.folder, self.environ)
        except UsageError as error:
            if not self.to_end:
                raise
            self.say(f"{error}; that matters no more: the night is only ended")
            return config, NOBODY

    @staticmethod
    def _refresh_verifiers(state: NightState, config: Config, folder: str) -> None:
        """Take verifiers from the file again: the journal holds them with secrets redacted."""
        for task in config.tasks:
            repo = os.path.join(folder, os.path.expanduser(task.repo))
            name = plan.task_name(task.name, "" if task.name else toplevel_of(repo))
            if name in state.tasks:
                state.tasks[name].task = replace(state.tasks[name].task, verifier=task.verify)

    def _new(self, config: Config, asked: list[preflight.Asked], program: str) -> Begun:
        journal = open_journal(self.place, config, self.environ)
        folder = ""
        try:
            night = self._next_id(config, asked)
            folder = self.place.night(night)
            tasks = self._tasks(asked, folder)
            hit("night_cloned")
            journal.append(self._entries(config, tasks, night))
            hit("night_written")
        except BaseException:
            journal.close()
            if folder:
                shutil.rmtree(folder, ignore_errors=True)  # made a moment ago by this very start; no agent ran yet
            raise
        self._leave_night_file(config, night)
        state, last_seq = remembered(self.place, config, night)
        self._warn(tasks, config)
        frame = self._frame(config, program, state, last_seq)
        return Begun(frame=frame, journal=journal, settings=self.settings, adopted=False)

    def _leave_night_file(self, config: Config, night: str) -> None:
        try:
            leave_night_file(self.place, config, night, redactor(config, self.environ))
        except OSError as error:
            self.say(f"night.json can't be written ({error.strerror}): the night hangs on its journal alone")

    def _frame(self, config: Config, program: str, state: NightState, last_seq: Mapping[str, int]) -> Frame:
        return Frame(
            place=self.place, state=state, last_seq=last_seq, config=config, program=program, environ=self.environ
        )

    def _next_id(self, config: Config, asked: list[preflight.Asked]) -> str:
        reader = JournalReader.open(self.place.journal(config))
        try:
            known = [row.id for row in reader.nights()]
        finally:
            reader.close()
        folder = os.path.join(self.place.state, "nights")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        today = datetime.now(local_zone(self.environ)).date().isoformat()
        delivered = (night for one in asked for night in delivered_nights(one.checkout))
        return nights.next_night_id(today, [*known, *os.listdir(folder), *delivered])

    def _tasks(self, asked: list[preflight.Asked], folder: str) -> list[Task]:
        names = [plan.task_name(one.config.name, one.checkout.toplevel) for one in asked]
        if len(set(names)) < len(names):
            raise UsageError(f"two tasks are named {max(names, key=names.count)!r}; give each [[task]] its own name")
        for path in (folder, os.path.join(folder, "repositories")):
            os.mkdir(path, 0o700)
        return [self._task(name, one, folder) for name, one in zip(names, asked, strict=True)]

    def _task(self, name: str, one: preflight.Asked, folder: str) -> Task:
        self.say(f"cloning {one.checkout.toplevel} for the night")
        at = os.path.join(folder, "repositories", name)
        _, base = NightRepository.create(one.checkout, at, one.base, with_uncommitted=self.with_uncommitted)
        if base.uncommitted and not base.included:
            left = "1 uncommitted path is" if base.uncommitted == 1 else f"{base.uncommitted} uncommitted paths are"
            self.say(f"{left} left out; --with-uncommitted takes in what isn't committed")
        return Task(
            name=name,
            repository=one.checkout.toplevel,
            night_repository=at,
            prompt=one.prompt,
            base=base.commit,
            verifier=one.config.verify,
            with_uncommitted=self.with_uncommitted,
            guarded=base.guarded,
        )

    def _entries(self, config: Config, tasks: list[Task], night: str) -> list[Entry]:
        started = events.NightStarted(
            width=config.night.width,
            ends_at=_ends_at(config, self.environ),
            for_s=config.night.for_s,
            version=__version__,
            config={
                **self.settings.remember(),
                "cli": config.agent.cli,
                "model": config.agent.model,
                "supervisor": config.supervisor.model,
                "budget_usd": config.night.budget_usd,
                "budget_ends_night": config.night.budget_ends_night,
            },
        )
        names = [task.name for task in tasks]
        loops = plan.loops_of(config, names, night, self.place.state, lambda: secrets.token_hex(16))
        at = time.time()
        missed = Outcome(kind=Kind.SCHEDULE_MISSED, evidence=(Evidence(what=self.missed),))
        return [
            Entry(at=at, night=night, body=started),
            *([Entry(at=at, night=night, body=events.OutcomeNoted(outcome=missed))] if self.missed else []),
            *(Entry(at=at, night=night, body=events.TaskAdded(task=task)) for task in tasks),
            *(Entry(at=at, night=night, loop=loop.id, body=events.LoopAdded(loop=loop)) for loop in loops),
        ]

    def _warn(self, tasks: list[Task], config: Config) -> None:
        for name in (task.name for task in tasks if not task.verifier.command):
            self.say(
                f"task {name} has no verifier: every verdict is `unverified`, and nobody can tell the best of "
                f"{config.night.width} answers, so width beyond a few buys little; set task.verify.command"
            )


def leave_night_file(place: Place, config: Config, night: str, redact: Redactor) -> None:
    """Write down beside the journal what the night is; without it a lost journal would orphan its loops."""
    reader = JournalReader.open(place.journal(config))
    try:
        frame = list(reader.entries(night, types=("NightStarted", "TaskAdded", "LoopAdded")))
        nightfile.write(place.night(night), frame, redact)
    finally:
        reader.close()


def _all_run(state: NightState) -> bool:
    """Tell whether no loop needs a window: who only adopts needs neither a sound tmux nor a runner that can start."""
    folders = LoopFolders(boot_id())
    return all(folders.alive(loop.loop.folder) for loop in state.loops.values() if loop.want is Want.RUNNING)


def find_open(place: Place, config: Config | None = None) -> NightRow | None:
    """Return the night that has begun and not ended, if any."""
    try:
        reader = JournalReader.open(place.journal(config))
    except NothingRunning:
        return None
    try:
        return next((row for row in reader.nights() if row.ended_at is None), None)
    finally:
        reader.close()


def list_started(place: Place, config: Config | None = None) -> list[tuple[str, float]]:
    """Return each night's id and when it began, in epoch seconds, the oldest first; none where no night has been."""
    try:
        reader = JournalReader.open(place.journal(config))
    except NothingRunning:
        return []
    try:
        return [(row.id, row.started_at) for row in reader.nights()]
    finally:
        reader.close()


def _ends_at(config: Config, environ: Mapping[str, str]) -> float | None:
    if config.night.for_s is not None:
        return time.time() + config.night.for_s
    if not config.night.until:
        return None
    now = datetime.now(UTC).astimezone(local_zone(environ))
    return times.parse_until(config.night.until, now).timestamp()
