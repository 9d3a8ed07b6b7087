"""A journal that was damaged is mended before anything reads it, and learns again what lies beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ralphd.cli import shipped
from ralphd.cli.nightfolders import by_age, night_names
from ralphd.cli.place import Place
from ralphd.core import actions, events
from ralphd.core.config import Config
from ralphd.core.events import Entry
from ralphd.core.exchange import Order, Want
from ralphd.core.fold import fold
from ralphd.core.losses import Loss, outcome_of_loss, sentence
from ralphd.core.state import LoopState, NightState
from ralphd.edges import nightfile
from ralphd.edges.journal import Journal, JournalReader, NightRow
from ralphd.edges.journal_mend import LEAP, mend, revisions
from ralphd.edges.journal_salvage import gapless, salvage
from ralphd.edges.loopfolder import LoopFolders, standing_order
from ralphd.edges.nightfile import NightFile

SLOW_CHECK_S = 1.0  # a person who waits that long is told what for
# No night gives so many ids. A serial beyond it is forged: loops' folders are in reach of their agents.
SERIAL_MAX = 1 << 40
WHY = "the journal was damaged; the loop's own order says so"


def mend_journal(place: Place, config: Config, open_: Callable[[], Journal], say: Callable[[str], None]) -> None:
    """See that a sound journal lies in the state folder; after a loss, refill it and record what is gone.

    A journal elsewhere (a URL) is its server's to mend. Raises JournalError where nothing may be touched.
    """
    path = place.journal(config)
    if path != place.journal():
        return
    now = time.time()
    found = mend(path, revisions(shipped.folder("migrations")), now)
    if found.health.seconds > SLOW_CHECK_S:
        cut = ", and was cut short" if found.health.cut_short else ""
        say(f"checking the journal took {found.health.seconds:.0f} s{cut}")
    if found.loss is None:
        return
    say(sentence(found.loss))
    journal = open_()
    try:
        Relearning(place=place, journal=journal, loss=found.loss, beyond=found.beyond, now=now).run()
    finally:
        journal.close()


@dataclass(frozen=True, kw_only=True)
class Relearning:
    """One journal after its loss. What is appended first makes the rest repeatable: a killed start does it again."""

    place: Place
    journal: Journal
    loss: Loss
    beyond: int
    now: float

    def run(self) -> None:
        saved = self._salvage()
        known = self._known()
        files = list(self._files())
        lost = [file for file in files if file.night not in known]
        open_night = _open_night(known, files)
        first = [entry for file in lost for entry in file.frame]
        first += self._ends(known, files, open_night)
        told_of = open_night or max([*known, *(file.night for file in lost)], key=by_age, default="")
        if told_of:
            noted = events.OutcomeNoted(outcome=outcome_of_loss(replace(self.loss, saved=saved)))
            first.append(Entry(at=self.now, night=told_of, body=noted))
        self.journal.append(first, beyond=max(self.beyond, self._highest_serial(files) + LEAP))
        for file in lost:
            if file.night != open_night:  # the open one's records are the daemon's to take in
                self._take_in(file)
        if open_night:
            self._settle(self._fold(open_night))

    def _salvage(self) -> int:
        aside = self.loss.set_aside
        rows = salvage(aside, self.loss.first_id, self.loss.last_id) if aside else []
        return self.journal.refill(gapless(rows, self._last_seq(rows)), self.beyond, self.now)

    def _last_seq(self, rows: Iterable[Mapping[str, object]]) -> dict[tuple[str, str], int]:
        reader = JournalReader.open(self.place.journal())
        try:
            nights = {str(row["night"]) for row in rows}
            return {(night, loop): seq for night in nights for loop, seq in reader.last_seq(night).items()}
        finally:
            reader.close()

    def _known(self) -> dict[str, NightRow]:
        reader = JournalReader.open(self.place.journal())
        try:
            return {row.id: row for row in reader.nights()}
        finally:
            reader.close()

    def _fold(self, night: str) -> NightState:
        reader = JournalReader.open(self.place.journal())
        try:
            return fold(reader.entries(night))
        finally:
            reader.close()

    def _files(self) -> Iterator[NightFile]:
        for night in night_names(self.place):
            found = nightfile.read(self.place.night(night))
            if found is not None:
                yield found

    def _ends(self, known: Mapping[str, NightRow], files: list[NightFile], open_night: str) -> Iterator[Entry]:
        """End every night but the open one that the journal has no end of: as its file says, else as not known."""
        ended = {file.night: file.ended for file in files}
        lacking = [row.id for row in known.values() if row.ended_at is None]
        lacking += [file.night for file in files if file.night not in known]
        for night in lacking:
            unknown = Entry(at=self.now, night=night, body=events.NightEnded(why="lost with the journal"))
            if night != open_night:
                yield ended.get(night) or unknown

    def _take_in(self, file: NightFile) -> None:
        """Read all that the runners of an ended night recorded."""
        folders = LoopFolders(boot_id="")
        try:
            for loop in [entry.body.loop for entry in file.frame if isinstance(entry.body, events.LoopAdded)]:
                after = 0
                while (told := folders.told(loop, file.night, after)).entries or told.refused:
                    self.journal.append(told.entries)
        finally:
            folders.close()

    def _highest_serial(self, files: list[NightFile]) -> int:
        loops = [entry.body.loop for file in files for entry in file.frame if isinstance(entry.body, events.LoopAdded)]
        orders = [standing_order(loop.folder) for loop in loops]
        return max((order.serial for order in orders if order and order.serial < SERIAL_MAX), default=0)

    def _settle(self, state: NightState) -> None:
        """Close intents of a time that is lost, and take what each loop was told last for what is wanted of it."""
        late = "the journal was restored from before it was settled"
        self.journal.append(
            [
                self._entry(state, "", events.ActionSettled(intent=intent, result="superseded", detail=late))
                for intent in state.intents
            ]
        )
        wanted = [(loop, action) for loop in state.loops.values() if (action := _told(loop)) is not None]
        intended = self.journal.append([self._intent(state, loop, action) for loop, action in wanted])
        self.journal.append(
            [
                self._entry(state, entry.loop, events.ActionSettled(intent=entry.id, result="done", detail=WHY))
                for entry in intended
            ]
        )

    def _intent(self, state: NightState, loop: LoopState, action: actions.Action) -> Entry:
        type_, args = events.action_to_json(action)
        body = events.ActionIntended(type=type_, args=args, why=WHY, by="operator")
        return self._entry(state, loop.loop.id, body)

    def _entry(self, state: NightState, loop: str, body: events.Body) -> Entry:
        generation = state.loops[loop].generation if loop else 0
        return Entry(at=self.now, night=state.id, loop=loop, generation=generation, body=body)


def _open_night(known: Mapping[str, NightRow], files: list[NightFile]) -> str:
    """Return the newest night that nobody says has ended; a night whose file tells its end has."""
    ended = {file.night for file in files if file.ended} | {row.id for row in known.values() if row.ended_at}
    return max({*known, *(file.night for file in files)} - ended, key=by_age, default="")


def _told(loop: LoopState) -> actions.Action | None:
    order = standing_order(loop.loop.folder)
    if order is None or order.want is loop.want:
        return None
    return _ACTIONS[order.want](loop.loop.id, order)


_ACTIONS: dict[Want, Callable[[str, Order], actions.Action]] = {
    Want.RUNNING: lambda loop, _order: actions.Resume(loop=loop),
    Want.PAUSED: lambda loop, order: actions.Pause(loop=loop, now=order.now),
    Want.STOPPED: lambda loop, order: actions.StopLoop(loop=loop, now=order.now),
}
