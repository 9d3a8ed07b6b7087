"""The daemon's life: one loop that takes messages from the inbox, makes a pass a second, and knows when to go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty
from typing import assert_never

from ralphd.core.config import Config
from ralphd.core.errors import UsageError
from ralphd.core.exchange import Want
from ralphd.core.outcomes import Kind
from ralphd.core.policy import Strain
from ralphd.core.status import iso
from ralphd.daemon.close import Closing, ended
from ralphd.daemon.consult import Consultant
from ralphd.daemon.failpoints import hit
from ralphd.daemon.guarding import Guarding
from ralphd.daemon.inbox import Advised, Asked, Changed, Closed, Judged, Leave, Message, Rang, Reached, Settled, Stored
from ralphd.daemon.news import News
from ralphd.daemon.pressure import Pressures
from ralphd.daemon.requests import Desk
from ralphd.daemon.tick import Night
from ralphd.daemon.world import Assign

# A pass over 512 loops takes 2 ms, over eight 0.2 ms: a small night sees a session's end, and judges it, sooner.
PASS_S, LEAST_PASS_S = 1.0, 0.2
LOOPS_OF_A_WHOLE_PASS = 256
STRAINS_EVERY_S = 5.0  # the kernel's own figures are averages over 10 s
TOLD_STRAINS = frozenset({Kind.MEMORY_PRESSURE, Kind.DISK_LOW, Kind.HOST_LIMITS})
STARTING_PASS_S = 0.1  # until the loops run somebody waits for them
# 512 loops start in some 15 s; a start that takes longer than this is told as it stands.
READY_PATIENCE_S = 60.0


@dataclass(kw_only=True)
class Hooks:
    """What the wiring wants to know.

    ``report`` writes the report as of now. ``reload`` reads ralphd.toml again and returns it with the assignments that
    follow from it; it raises UsageError over a bad edit. ``ticked`` hears of every pass that went well, at its end.
    ``backup`` copies the journal, in the slow pool, or raises. ``room`` names what the state folder's disk lacks,
    ``strains`` what the machine is short of; ``spare`` makes a little room, once, and tells whether it could.
    """

    ready: Callable[[str, bool], None]  # how many loops run, and whether that is any
    report: Callable[[], None]
    reload: Callable[[], tuple[Config, Assign]]
    backup: Callable[[], None] = lambda: None
    room: Callable[[], tuple[Kind, str] | None] = lambda: None
    spare: Callable[[], bool] = lambda: False
    strains: Callable[[], tuple[Strain, ...]] = tuple
    ticked: Callable[[Night], None] = lambda _night: None


@dataclass(kw_only=True)
class Daemon:
    """Runs one night until it ends or somebody asks the daemon to go."""

    night: Night
    desk: Desk
    closing: Closing
    hooks: Hooks
    consultant: Consultant
    guarding: Guarding
    news: News | None = None  # None: nobody is to be told
    troubles: dict[str, str] = field(default_factory=dict)
    pressures: Pressures = field(default_factory=Pressures)
    backup_trouble: str = ""  # set by the slow pool
    report_trouble: str = ""  # likewise
    strains_at: float = float("-inf")
    started: float = 0.0
    is_ready: bool = False
    gone: bool = False

    def run(self) -> None:
        """Return when the night has ended, or on Leave with every loop left running."""
        clock = self.night.world.clock
        self.started = next_pass = clock.monotonic()
        self._safely(self.guarding.begin)
        while not self.gone:
            wait = next_pass - clock.monotonic()
            message = self._next(wait)
            if message is not None:
                self._safely(lambda message=message: self._handle(message))  # type: ignore[misc]  # bound now
            if clock.monotonic() >= next_pass:
                next_pass = clock.monotonic() + (self._pass_every_s() if self.is_ready else STARTING_PASS_S)
                self._safely(self._pass)
                self._safely(self._tell_ready)  # also when every pass fails: somebody waits for a word

    def _pass_every_s(self) -> float:
        return min(PASS_S, max(LEAST_PASS_S, PASS_S * len(self.night.state.loops) / LOOPS_OF_A_WHOLE_PASS))

    def _next(self, wait_s: float) -> Message | None:
        try:
            return self.night.inbox.get(timeout=max(0.0, wait_s))
        except Empty:
            return None

    def _safely(self, step: Callable[[], None]) -> None:
        """No failure crashes the coordinator: it is logged, shown in ``status``, and the next pass goes on."""
        try:
            step()
        except Exception as error:  # the loop boundary
            self.night.world.log.exception("a step failed")
            self.troubles["daemon"] = f"a step failed: {type(error).__name__}: {error}"[:300]

    def _pass(self) -> None:
        self._look_at_machine()
        self.night.tick()
        self.closing.step()
        self.guarding.step()
        self._look_at_troubles()
        if self.news is not None:
            self.news.look(self.night.state)
        self.hooks.ticked(self.night)

    def _look_at_machine(self) -> None:
        """Note in the sight what the machine is short of, every few seconds."""
        now = self.night.world.clock.monotonic()
        if now >= self.strains_at + STRAINS_EVERY_S:
            self.strains_at = now
            self.night.sight.strains = (*self.hooks.strains(), *self.night.behind())

    def _look_at_troubles(self) -> None:
        journal, short = self.night.world.journal, self.hooks.room()
        now: dict[Kind, str] = {} if short is None else {short[0]: short[1]}
        said = {
            "disk": short[1] if short else "",
            "backup": self.backup_trouble,
            "report": self.report_trouble,
            "journal": "",
            "model": self.consultant.trouble,
        }
        if self.report_trouble and "report" not in self.troubles:
            self.night.note(Kind.REPORT_FAILED, self.report_trouble)
        if journal.trouble:
            said["journal"] = f"the journal can't be written: {journal.trouble}"
            now[journal.trouble_kind] = said["journal"]
        for strain in self.night.sight.strains:
            now.setdefault(strain.kind, strain.words)
            said[strain.kind.value] = strain.words
        for kind in TOLD_STRAINS - {strain.kind for strain in self.night.sight.strains}:
            said[kind.value] = ""
        for name, words in said.items():
            self.troubles.pop(name, None)
            if words:
                self.troubles[name] = words
        began, over = self.pressures.look(now, self.night.world.clock.monotonic())
        for words in began:
            self.night.world.log.error(words)
            self.night.doer.aside.submit(self.night.doer.tell_person, "this machine needs you", words)
        for kind, words in over:
            self.night.note(kind, words)

    def _handle(self, message: Message) -> None:
        match message:
            case Stored():
                self.night.stored(message)
            case Settled():
                self.night.settled(message)
            case Judged(intent=intent, candidate=candidate, verdict=verdict):
                self.night.judged(intent, candidate, verdict)
            case Asked():
                self.desk.answer(message)
            case Rang(name=name):
                self._ring(name)
            case Changed(path=path):
                self._changed(path)
            case Leave(why=why):
                self._leave(why)
            case Closed(trouble=trouble):
                self._closed(trouble)
            case Advised():
                self.consultant.arrived.append(message)
                self.night.advance()
            case Reached():
                self.consultant.reached(self.night, message)
            case _:
                assert_never(message)

    def _ring(self, name: str) -> None:
        if name == "report":
            self.night.doer.slow.submit(self._report)
        elif name == "backup":
            self.night.doer.slow.submit(self._backup)
        else:
            self._pass()

    def _report(self) -> str:
        """Write the report; returns what went wrong, which stops nothing."""
        try:
            self.hooks.report()
        except Exception as error:  # a night must end, with or without its report's files
            self.night.world.log.exception("the report could not be written")
            self.report_trouble = f"the report could not be written ({error}); `ralphd report` makes it anew"
        else:
            self.report_trouble = ""
        return self.report_trouble

    def _backup(self) -> None:
        try:
            self.hooks.backup()
        except Exception as error:  # noqa: BLE001  # a night goes on without its backup; ``status`` says so
            self.backup_trouble = str(error) or type(error).__name__
            self.night.world.log.warning("no backup of the journal", why=self.backup_trouble)
        else:
            self.backup_trouble = ""

    def _tell_ready(self) -> None:
        if self.is_ready:
            return
        loops, seen = self.night.state.loops, self.night.sight.alive
        alive, awaited = sum(seen.values()), [name for name, loop in loops.items() if loop.want is Want.RUNNING]
        late = self.night.world.clock.monotonic() > self.started + READY_PATIENCE_S
        if self.night.state.ending:
            self.is_ready = True
            self.hooks.ready(f"it was ending, and is brought to its end; {alive} of {len(loops)} loops still run", True)
        elif late or all(seen.get(name, False) for name in awaited):
            self.is_ready = True
            self.hooks.ready(f"{alive} of {len(loops)} loops run", alive > 0 or not awaited)
            if self.news is not None:
                self.news.began(self.night.state, f"{alive} of {len(loops)} loops run")

    def _leave(self, why: str) -> None:
        alive = sum(self.night.sight.alive.values())
        self.night.world.log.info("leaving", why=why, loops_left_running=alive)
        words = f"the daemon was asked to go ({why}); {alive} loops run on; `ralphd start` takes the night up again"
        self.desk.say_goodbye({"ok": False, "error": words, "code": 1})
        self.gone = True

    def _closed(self, trouble: tuple[str, ...]) -> None:
        """Write the last entry, then the report, then say good-bye to whoever waits."""
        end = ended(self.night)
        late = "" if self.night.finish(end) else "the journal can't be written: the night's end is not in it"
        trouble = tuple(line for line in (*trouble, late, self._report()) if line)
        hit("reported")
        if self.news is not None:
            self.news.look(self.night.state)
            self.news.closed(self.night.state, end.why)
        for line in trouble:
            self.night.world.log.warning(line)
        data: dict[str, object] = {"night": self.night.state.id, "trouble": list(trouble)}
        data["next_night_at"] = iso(self.desk.facts().next_night_at)
        self.desk.say_goodbye(
            {"ok": not trouble, "code": 1 if trouble else 0, "data": data, "error": "; ".join(trouble)}
        )
        self.gone = True

    def _changed(self, path: str) -> None:
        if path.endswith(".toml"):
            self._reload()
        else:
            self.guarding.look()

    def _reload(self) -> None:
        """Take a good edit over from each loop's next session on; over a bad one keep the old and say so."""
        try:
            self.night.world.config, self.night.world.assignment = self.hooks.reload()
        except UsageError as error:
            self.troubles["config"] = f"ralphd.toml was changed and refused, the old one stays: {error}"
            self.night.note(Kind.CONFIG_REJECTED, str(error))
            return
        self.troubles.pop("config", None)
        self.night.world.log.info("ralphd.toml was read again")
        self.consultant.follow(self.night.world.config.supervisor)
        self.night.doer.reassign(self.night.state)
