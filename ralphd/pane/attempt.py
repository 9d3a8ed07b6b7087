"""What happens in one process of an agent CLI, from its start to its end."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from ralphd.agents.lines import Lines
from ralphd.core.facts import EndedBy, Facts
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.patience import Patience
from ralphd.core.reading import Reading
from ralphd.core.records import NotesGiven, Progressed, Repaired, ToolEnded
from ralphd.core.signals import Resulted, Retrying
from ralphd.pane.call_events import CallKilled, CallOpened, tool_outcome
from ralphd.pane.circles import Circles
from ralphd.pane.dialog import Dialog
from ralphd.pane.procs import end_all, forest
from ralphd.pane.session import Exit, read_some
from ralphd.pane.stdin import ReadsToEnd, waiting_bytes
from ralphd.pane.stirring import Stirring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.agents.base import Reader, Tells
    from ralphd.core.exchange import Limits
    from ralphd.core.signals import Signal
    from ralphd.pane.call_events import CallEvent
    from ralphd.pane.ground import Still
    from ralphd.pane.notes import Notes
    from ralphd.pane.pane import Pane
    from ralphd.pane.procs import Proc
    from ralphd.pane.rawlog import RawLog
    from ralphd.pane.session import Session
    from ralphd.pane.trajectory import Tally

PROGRESS_S = 5.0  # between two signs of life: a status is at most that old
LOOK_SHARE = 0.05  # of the quiet limit: so much later than due is a hung agent noticed
LOOK_MIN_S, LOOK_MAX_S = 0.1, 15.0  # a look takes 0.2 ms
SYNC_S = 0.1  # after the start: an fsync takes 1 to 20 ms, which a session that ends at once would wait for
TAIL_BYTES = 8 << 10  # of stderr: what classification may look at
ERROR_LINE_BYTES = 64 << 10  # what a CLI says on stderr of a wait quotes the server, with a page of HTML at worst
TERM_GRACE_S = 3.0  # CLIs that save their session on SIGTERM took under a second
END_AGAIN_S = 10.0  # what survives KILL is in the kernel's hands for a while
LEFTOVER_GRACE_S = 1.0  # nobody waits for what a session left behind


class Attempt:
    """Listens to one agent process until it has ended and everything it left behind is gone."""

    def __init__(
        self,
        pane: Pane,
        session: Session,
        reader: Reader,
        *,
        limits: Limits,
        logs: tuple[RawLog, RawLog],
        tally: Tally,
        tells: Tells,
        still: Still,
        notes: Notes,
        spoke: Callable[[], None],
        changed_before_s: Callable[[], float | None],
    ) -> None:
        now = time.monotonic()
        self.reading = Reading()
        self.calls = self.tool_kills = self.leftovers = 0
        self.ended_by = EndedBy.ITSELF
        self.seconds = 0.0
        self._pane, self._session, self._reader = pane, session, reader
        self._log, self._errors = logs
        self._tally, self._tells, self._notes = tally, tells, notes
        self._changed_before_s, self._spoke = changed_before_s, spoke
        self._started = now
        self._began_at = self._log.offset
        self._lines = Lines(offset=self._log.offset)
        self._error_lines = Lines(limit_bytes=ERROR_LINE_BYTES)
        self._overhear: Callable[[bytes], tuple[Retrying, ...]] | None = getattr(reader, "read_error", None)
        self._tail = b""
        self._open: set[str] = set()
        self._patience = Patience(
            limits=limits,
            compactions=tally.compactions,
            last_byte=now,
            last_work=now,
            turns=tells.tokens and tells.streams and not tells.partial,
        )
        self._stirring = Stirring(self._tree, own=session.pid, idle_share=tells.idle_share, idle_bytes=tells.idle_bytes)
        shortest_s = min(limits.quiet_s, limits.stream_s) if self._patience.turns else limits.quiet_s
        self.reads_to_end = ReadsToEnd(session.input, self._pids, now)
        self._look_every_s = min(LOOK_MAX_S, max(LOOK_MIN_S, shortest_s * LOOK_SHARE))
        self._look_at = now + self._look_every_s
        self._progress_at = now + PROGRESS_S
        self._sync_at = now + SYNC_S
        self._end_again_at = 0.0
        self._left_to_gate = False
        self._told: Progressed | None = None
        self._dialog = Dialog(self.reading, self._lines, after_s=self._look_every_s * 2)
        self._circles = Circles(tally.repetition, still, pane, self._log.path)

    def listen(self) -> Exit:
        """Return how the process ended; its output is read, its leftovers are gone, its pipes closed."""
        ears, session = self._pane.ears, self._session
        try:
            ears.hear(session.stdout, self._take_output)
            ears.hear(session.stderr, self._take_errors)
            while session.pid not in ears.exits:
                self._excuse(ears.wait(self._next_look_s()))
                self._look()
            self.seconds = time.monotonic() - self._started
            self._drain()
            self._tally.own_retries.end(time.monotonic())
            self._notes.end()
            self._end_leftovers()
        finally:
            ears.forget(session.stdout)
            ears.forget(session.stderr)
            session.close()
        return Exit.of(ears.exits.pop(session.pid))

    def facts(self, cli: str, end: Exit, *, head_moved: bool, files_changed: bool | None) -> Facts:
        return Facts(
            cli=cli,
            exit_code=end.code,
            signal=end.signal,
            seconds=self.seconds,
            ended_by=self.ended_by,
            reading=self.reading,
            stderr_tail=self._tail.decode("utf-8", "replace"),
            stderr_file=self._errors.path,
            head_moved=head_moved,
            files_changed=files_changed,
            tool_kills=self.tool_kills,
            log=self._log.path,
        )

    # Reading.

    def _take_output(self) -> None:
        data = read_some(self._session.stdout)
        if data == b"":
            self._pane.ears.forget(self._session.stdout)
        if data:
            self._hear(data)

    def _hear(self, data: bytes) -> None:
        self._patience.heard(time.monotonic())
        self._log.write(data)
        self._spoke()
        for start, end, line in self._lines.feed(data):
            self._read(start, end, line)

    def _read(self, start: int, end: int, line: bytes) -> None:
        self._note(self._reader.read(line, start, end))

    def _note(self, signals: tuple[Signal, ...]) -> None:
        now = time.monotonic()
        for told in signals:
            self.reading.add(told)
            self._pane.watch.calling = self.reading.open_calls > 0
            self._patience.note(told, now)
            self._tally.own_retries.note(told, now)
            self._ask_gate(told)
            self._notes.heard(told)
            if isinstance(told, Resulted):
                self._session.input.close()  # with its stdin open it would wait for more
            self._pane.digest.show(told)
            self._circles.note(told, now)

    def _ask_gate(self, told: Signal) -> None:
        """Let the gate hear, or leave it to the gate to ask again: the session is taken up when that opens."""
        gate = self._pane.gate
        if isinstance(told, Retrying) and self._tells.resume and self._between_calls() and gate.leaves_it(told):
            self._left_to_gate = True
        else:
            gate.heard(told)

    def _take_errors(self) -> None:
        data = read_some(self._session.stderr)
        if data == b"":
            self._pane.ears.forget(self._session.stderr)
        if data:
            self._hear_error(data)

    def _hear_error(self, data: bytes) -> None:
        self._patience.heard(time.monotonic())
        self._errors.write(data)
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        for line in data[-TAIL_BYTES:].splitlines():
            self._pane.digest.show_error(line)
        if self._overhear is not None:
            for _, _, line in self._error_lines.feed(data):
                self._note(self._overhear(line))

    def _drain(self) -> None:
        """Read what the pipes hold at this moment, and no more: a child that kept them may write for ever."""
        for fd, take in ((self._session.stdout, self._hear), (self._session.stderr, self._hear_error)):
            self._pane.ears.forget(fd)
            left = waiting_bytes(fd)
            while left > 0 and (data := read_some(fd, left)):
                take(data)
                left -= len(data)
        for start, end, line in self._lines.close():
            self._read(start, end, line)

    # Looking.

    def _next_look_s(self) -> float:
        now = time.monotonic()
        tick_s = self._pane.watch.next_tick_in(now)
        waits = [self._patience.next_look_s(now, self.reading), self._progress_at - now, self._look_at - now]
        waits += [self._sync_at - now, self.reads_to_end.next_look_s(now)]
        return min(waits) if tick_s is None else min(*waits, tick_s)

    def _look(self) -> None:
        now, pane = time.monotonic(), self._pane
        for event in pane.watch.tick(now):
            self._note_call(event)
        pane.wishes.heed(pane.ears.signals)
        self._give_notes()
        self.reads_to_end.look(now, spoke=self._log.offset > self._began_at, silent_s=now - self._patience.last_byte)
        if now >= self._look_at:
            self._look_at = now + self._look_every_s
            if self._stirring.look(now):
                self._patience.worked(now)
        if now >= self._progress_at:
            self._progress_at = now + PROGRESS_S
            pane.wishes.read()  # a bell that an agent removed can't ring
            waits = self._tally.own_retries.waiting is not None
            pane.gate.still_tries(tells=self._tells.tokens or self._tells.partial, waits=waits)
            self._tell_progress(now)
        if self._session.pid in pane.ears.exits:
            return
        if now >= self._sync_at:
            self._sync_at = now + PROGRESS_S
            pane.recorder.sync()
        self._judge(now)

    def _give_notes(self) -> None:
        if given := self._notes.give(self._session.input):
            self._pane.record(NotesGiven(names=given, how="live"))
            self._pane.say(f"told the running session: {', '.join(given)}")

    def _excuse(self, lost_s: float) -> None:
        if lost_s:
            self._patience.excuse(lost_s)
            outcome = Outcome(kind=Kind.SUSPENDED, detail={"seconds": round(lost_s, 1)})
            what = f"nobody could work for {lost_s:.0f} s: the machine or this runner was stopped; no clock counts it"
            self._pane.record(Repaired(outcome=outcome, what=what))
            self._pane.say(what)

    def _judge(self, now: float) -> None:
        over = self._patience.over(now, self.reading, open_calls=len(self._open))
        wishes = self._pane.wishes
        waits = self._tally.own_retries.waiting is not None
        wishes.ask = wishes.ask and waits  # there is nothing to cut otherwise
        if wishes.ask and over is EndedBy.ITSELF:
            over = EndedBy.ASKED_ANEW
        if self._left_to_gate and over is EndedBy.ITSELF:
            over = EndedBy.GATE
        if self._circles.too_many and over is EndedBy.ITSELF:
            over = EndedBy.REPEATING
        if over is EndedBy.ITSELF and self._may_be_taken_up():
            over = EndedBy.NOTE
        if wishes.cut:
            over = EndedBy.OPERATOR
        if over is EndedBy.ITSELF or now < self._end_again_at:
            return
        if over is EndedBy.QUIET and self._files_change(now):
            return
        if self.ended_by is EndedBy.ITSELF:
            self.ended_by = over
            self._pane.say(_ENDING[over])
        self._end_session()
        self._end_again_at = time.monotonic() + END_AGAIN_S

    def _may_be_taken_up(self) -> bool:
        """Tell whether a note waits for this session's end, and the session can be ended softly: between two calls."""
        return self._notes.waiting and self._between_calls()

    def _between_calls(self) -> bool:
        working = self.reading.begun and not self.reading.settled
        return bool(working and not self._open and not self.reading.open_calls)

    def _files_change(self, now: float) -> bool:
        """Tell whether files of the worktree show life after all: who changes them may run outside of our tree."""
        before_s = self._changed_before_s()
        if before_s is None:
            return False
        self._patience.worked(now - before_s)
        return self._patience.over(now, self.reading, open_calls=len(self._open)) is EndedBy.ITSELF

    def _note_call(self, event: CallEvent) -> None:
        if isinstance(event, CallOpened):
            self.calls += 1
            self._open.add(event.call_id)
            self._pane.gate.answered()  # nobody but a model that answers asks for one
            return
        self._open.discard(event.call_id)
        self._patience.heard(time.monotonic())  # the agent's turn begins
        if isinstance(event, CallKilled):
            self.tool_kills += 1
            outcome = tool_outcome(event)
            self._pane.record(ToolEnded(outcome=outcome))
            self._pane.say(f"killed a call past its {event.limit} limit: {event.command}")

    def _tell_progress(self, now: float) -> None:
        usage = self._tally.with_usage_of(self.reading)
        told = Progressed(
            usage=usage,
            compactions=self._tally.compactions + self.reading.compactions,
            output_bytes=self._log.offset + self._errors.offset,
            calls=self._tally.calls + max(self.calls, self.reading.calls),
            quiet_for_s=0.0,
            client_waits=self._tally.own_retries.waits_for,
            asks=self._dialog.shown(now, self._patience.last_byte, calls=bool(self._open), stderr=self._tail),
        )
        if told != self._told:
            self._told = told
            quiet_for_s = round(now - self._patience.last_byte, 1)
            self._pane.record(replace(told, quiet_for_s=quiet_for_s))

    # Ending.

    def _pids(self) -> list[int]:
        return [proc.pid for proc in self._tree()]

    def _tree(self) -> list[Proc]:
        """All that runs below the runner: it has no other children than this session's."""
        return [proc for proc in forest((os.getpid(),)) if proc.pid != os.getpid()]

    def _end_session(self) -> None:
        """TERM, then KILL to the whole tree of the agent, while its output is still read."""
        end_all(lambda: forest((self._session.pid,)), now=time.monotonic, pause=self._pane.pause, grace_s=TERM_GRACE_S)
        self._pane.ears.reap()

    def _end_leftovers(self) -> None:
        watch = self._pane.watch
        self.leftovers = watch.end_leftovers(now=time.monotonic, pause=self._pane.pause, grace_s=LEFTOVER_GRACE_S)
        if self.leftovers:
            processes = "1 process" if self.leftovers == 1 else f"{self.leftovers} processes"
            what = f"ended {processes} that the session left behind"
            if self.ended_by is EndedBy.ITSELF:  # of a session that was ended anything may run on
                outcome = Outcome(kind=Kind.LEFTOVER_PROCESSES, detail={"processes": self.leftovers})
                self._pane.record(Repaired(outcome=outcome, what=what))
            self._pane.say(what)
        for event in watch.tick(time.monotonic()):
            self._note_call(event)


_ENDING = {
    EndedBy.RESULT_GRACE: "the agent gave its final result but doesn't exit: ending it, its work is kept",
    EndedBy.QUIET: "no output and no activity for too long: ending this session",
    EndedBy.SILENT_STREAM: "the model's answer stopped coming: ending this attempt",
    EndedBy.ENDLESS: "it asks the model in vain, again and again: ending this attempt",
    EndedBy.COMPACTIONS: "the context was compacted too often: a fresh session is next",
    EndedBy.REPEATING: "the same calls with the same results, over and over: a fresh session is next",
    EndedBy.ASKED_ANEW: "asking inference anew as ordered: ending this attempt",
    EndedBy.GATE: "inference refuses, and one loop asks for all: ending this attempt",
    EndedBy.OPERATOR: "ending this session as ordered",
    EndedBy.NOTE: "ending this attempt: the session is taken up again with a note",
}
