"""What a loop does, turn by turn, until it is told to stop."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace

from ralphd.agents import Turn, adapter
from ralphd.core import pacing
from ralphd.core.classify import classify
from ralphd.core.errors import GitError
from ralphd.core.exchange import Want
from ralphd.core.facts import Facts
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.pacing import Circumstances, Streak, Then
from ralphd.core.reading import Reading
from ralphd.core.records import (
    AttemptEnded,
    Held,
    NotesGiven,
    Prepared,
    Repaired,
    Resumed,
    RunnerStopped,
    TrajectoryEnded,
    TrajectoryStarted,
    Waiting,
)
from ralphd.pane import prompt
from ralphd.pane.attempt import Attempt, Pane, Tally
from ralphd.pane.files import lay, read_regular
from ralphd.pane.gatekeeper import LOOK_S, chance
from ralphd.pane.ground import Ground, NotReady, Still, place_of
from ralphd.pane.limits import Limits
from ralphd.pane.notes import Notes
from ralphd.pane.procs import descends_from, end_all, with_environ
from ralphd.pane.session import SHORTAGES, StartFailed, start
from ralphd.pane.trajectory import Trajectory
from ralphd.pane.watched import GUARD
from ralphd.pane.zones import dated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.agents import Launch
    from ralphd.core.exchange import Assignment
    from ralphd.core.records import RunnerBody
    from ralphd.pane.inbox import Inbox
    from ralphd.pane.procs import Proc
    from ralphd.pane.session import Session

GROUND_WAIT_MAX_S = 60.0
PREAMBLE_LIMIT_BYTES = 1 << 20
HOST_ERRNOS = {
    errno.ENOSPC: Kind.DISK_FULL,
    errno.EDQUOT: Kind.DISK_FULL,
    errno.EIO: Kind.IO_ERROR,
    errno.EROFS: Kind.IO_ERROR,
    **dict.fromkeys(SHORTAGES, Kind.HOST_LIMITS),
}


def boot_s() -> float:
    """Seconds of a clock that goes on while the machine sleeps: a server's wait is over when it is over."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Loop:
    """One Ralph loop: prepare, prompt, agent, outcome, and again."""

    def __init__(self, folder: str, assignment: Assignment, inbox: Inbox, pane: Pane) -> None:
        self._folder, self._assignment, self._inbox, self._pane = folder, assignment, inbox, pane
        past = pane.recorder.past
        self._number = past.trajectory
        self._ground = Ground(
            place=place_of(assignment),
            reset_to=assignment.reset_to,
            generation=assignment.generation,
            known_tip=past.head,
            prepared=past.prepared,
        )
        self._not_ready = 0
        self._running: Trajectory | None = None
        self._worked = False  # a session ended, and nobody had the worktree to himself since
        self._streak = Streak()
        self._pane.ears.hear(pane.watch.fileno(), self._bell)

    def run(self, after_s: float = 0.0) -> int:
        """Turn until stopped, the first turn ``after_s`` seconds late. Return the exit code of the runner."""
        self._close_what_died()
        if after_s > 0:
            self._say(f"begins in {after_s:.1f} s: several loops come back at once")
            self._let_others_go(after_s)
        while self._may_go_on():
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001  # the loop boundary: what broke costs this turn, not the loop
                self._stumbled(error)
        leftovers = self._end_everything()
        if self._worked:
            self._put_back()
        self._record(RunnerStopped(why=self._pane.wishes.why, leftovers=leftovers))
        self._say(f"this loop has stopped: {self._pane.wishes.why or 'as ordered'}")
        self._pane.recorder.close()
        return 0

    # One turn.

    def _turn(self) -> None:
        self._pane.wishes.cut = False  # what came between sessions has no session to end
        self._reassign()
        if not self._pass_gate():
            return
        head = self._ready()
        composed = self._compose() if head else None
        if composed is None:
            return
        outcome, wait_s = self._trajectory(composed, head)
        if outcome.response in pacing.HELD_RESPONSES:
            why = outcome.detail.get("message") or outcome.detail.get("question") or outcome.kind.value
            self._hold(outcome.kind.value, str(why))
        self._pane.wishes.cut = False
        self._rest(wait_s, outcome.kind.value)

    def _reassign(self) -> None:
        """Take the newest assignment: a new generation, other limits, another CLI."""
        self._assignment = self._inbox.assignment() or self._assignment
        limits, pane = self._assignment.limits, self._pane
        pane.recorder.generation = self._assignment.generation
        pane.digest.secrets = self._assignment.secrets
        pane.gate.assign(self._folder, self._assignment.account, limits)
        pane.watch.match = adapter(self._assignment.cli).guarded_lines
        pane.watch.bare = adapter(self._assignment.cli).TELLS.bare_calls
        pane.watch.limits = Limits(
            seconds=limits.tool_seconds,
            memory_bytes=limits.tool_memory_bytes,
            output_bytes=limits.tool_output_bytes,
        )

    def _ready(self) -> str:
        """Return the branch's tip once the worktree is fit, or nothing after a wait, so that all is looked at anew."""
        self._ground.assign(self._assignment)
        try:
            head = self._ground.ready(self._tell_ground)
        except NotReady as error:
            self._not_ready += 1
            self._say(f"the worktree is not ready: {error}")
            self._rest(min(GROUND_WAIT_MAX_S, 2.0 ** min(self._not_ready - 1, 10)), error.outcome.kind.value)
            return ""
        self._not_ready = 0
        return head

    def _tell_ground(self, body: Prepared | Repaired) -> None:
        self._record(body)
        if isinstance(body, Repaired):
            self._say(f"repaired: {body.what}" + (f" (saved in {body.ref})" if body.ref else ""))

    def _put_back(self) -> None:
        try:
            self._ground.put_back(self._tell_ground)
        except (GitError, OSError) as error:
            self._say(f"the branch is left as it is: {error}")

    def _compose(self) -> prompt.Prompt | None:
        """Return the prompt of the next session, or None after a hold, so that everything is looked at anew."""
        path = self._assignment.prompt
        try:
            text = prompt.read(path)
        except prompt.NoPrompt as error:
            self._hold(Kind.CONFIG_ERROR.value, str(error), mended=lambda: _readable(path))
            return None
        notes = self._inbox.notes()
        composed = prompt.compose(self._preamble(), text, notes)
        self._use(notes, "prompt")
        return composed

    def _use(self, notes: tuple[tuple[str, str], ...], how: str) -> None:
        self._inbox.use(notes)
        if notes:
            self._record(NotesGiven(names=tuple(name for name, _ in notes), how=how))

    def _preamble(self) -> str:
        try:
            return read_regular(self._assignment.preamble, PREAMBLE_LIMIT_BYTES).decode("utf-8", "replace")
        except OSError as error:
            self._say(f"no preamble for this session: {self._assignment.preamble} {error.strerror}")
            return ""

    # One trajectory.

    def _trajectory(self, composed: prompt.Prompt, head: str) -> tuple[Outcome, float]:
        """Run a fresh context to its end, over as many attempts as inference needs. Return how to go on."""
        self._number += 1
        running = self._running = Trajectory(
            self._folder,
            self._assignment.generation,
            self._number,
            head=head,
            prompt=composed.text,
            model=self._assignment.model,
        )
        recorder = self._pane.recorder
        recorder.trajectory, recorder.nonce = self._number, os.urandom(16).hex()
        self._record(
            TrajectoryStarted(
                head=head, log=running.log.path, prompt_sha256=composed.sha256, prompt_bytes=composed.size_bytes
            )
        )
        self._say(f"session {self._number} begins")
        outcome, wait_s = self._attempts(running)
        self._finish(running, outcome)
        return outcome, wait_s

    def _attempts(self, running: Trajectory) -> tuple[Outcome, float]:
        while True:
            began = time.monotonic()
            outcome, moved = self._attempt(running)
            self._pane.gate.judge(outcome)
            seen = Circumstances(seconds=time.monotonic() - began, worked=moved, now=time.time(), chance=chance())
            self._streak, pace = pacing.after(self._streak, outcome, seen, self._assignment.limits)
            if pace.then is not Then.ATTEMPT or self._interrupted():
                return pace.outcome, pace.wait_s
            wait_s = self._pane.gate.wait_s() or pace.wait_s
            self._record(AttemptEnded(attempt=running.attempts, outcome=outcome, wait_s=wait_s))
            self._await_inference(outcome.kind.value, pace.wait_s)
            if self._interrupted():
                return Outcome(kind=Kind.STOPPED, detail={"while": outcome.kind.value}), 0.0

    def _await_inference(self, kind: str, wait_s: float) -> None:
        """Wait until inference may be asked again: for all loops of the account at its gate, else for itself."""
        if not self._pane.gate.look().closed:
            self._rest(wait_s, kind)
        while not self._pass_gate() and not self._interrupted():
            self._hold("", self._pane.wishes.why)

    def _pass_gate(self) -> bool:
        """Wait until the gate is open or it is this loop's turn to try; False when something else is wanted of it."""
        gate, wishes = self._pane.gate, self._pane.wishes
        self._follow_edits()
        waits = gate.look().closed and not gate.trying
        while gate.look().closed and not gate.trying and self._goes_on():
            self._wait_at_gate()
            if gate.look().closed:
                break  # it is this loop's turn, or nobody takes his
            self._let_others_go(gate.spread_s())  # and it may close again meanwhile
        if waits:
            wishes.retry = False
            self._record(Resumed())
        wishes.ask = False
        return self._goes_on()

    def _follow_edits(self) -> None:
        """Take another key or address over while inference is waited for: it may be what mends the trouble."""
        mine, newest = self._assignment, self._inbox.assignment()
        if newest is not None and newest is not mine and (newest.generation, newest.cli) == (mine.generation, mine.cli):
            self._reassign()

    def _goes_on(self) -> bool:
        return self._pane.wishes.want is Want.RUNNING and not self._pane.wishes.cut

    def _wait_at_gate(self) -> None:
        gate, wishes = self._pane.gate, self._pane.wishes
        kind, wait_s = gate.look().kind, gate.wait_s()
        self._record(Waiting(kind=kind, until=time.time() + wait_s))
        self._say(f"waits {wait_s:.0f} s with all loops of its account ({kind})")
        while self._goes_on():
            asked, wishes.retry, wishes.ask = wishes.retry or wishes.ask, False, False
            self._follow_edits()
            if gate.may_go(asked=asked):
                return
            self._idle(gate.look_s())

    def _let_others_go(self, seconds: float) -> None:
        """Start a little later than the others that waited at the gate: a small machine, and a server just back."""
        until, wishes = boot_s() + seconds, self._pane.wishes
        while (left_s := until - boot_s()) > 0 and self._goes_on() and not wishes.retry:
            self._idle(min(left_s, LOOK_S))

    def _interrupted(self) -> bool:
        return self._pane.wishes.cut or self._pane.wishes.want is Want.STOPPED

    def _attempt(self, running: Trajectory) -> tuple[Outcome, bool]:
        """Run one process. Return its outcome, and whether the branch moved."""
        running.attempts += 1
        facts, moved = self._process(running)
        if facts.reading.result is not None:
            running.claims_done = facts.reading.result.claims_done
        running.take_up(facts.reading, adapter(facts.cli).TELLS)
        return dated(classify(facts), self._assignment.env, time.time()), moved

    def _process(self, running: Trajectory) -> tuple[Facts, bool]:
        """Run one process of the agent and look at what it changed. Return the facts, and whether the branch moved."""
        cli = self._assignment.cli
        before, stamp = running.head_now, self._ground.stamp_ns()
        try:
            session = self._start(running)
        except StartFailed as error:
            self._pane.recorder.sync()
            return Facts(cli=cli, exit_code=None, start_error=str(error), reading=Reading()), False
        attempt = Attempt(
            self._pane,
            session,
            adapter(cli).reader(),
            limits=self._assignment.limits,
            logs=(running.log, running.errors),
            tally=running.tally,
            tells=adapter(cli).TELLS,
            still=Still(self._ground),
            notes=Notes(self._inbox, adapter(cli).TELLS),
            changed_before_s=self._ground.changed_before_s,
        )
        end = attempt.listen()
        self._pane.watch.agent, self._pane.watch.calling = None, False
        running.tally.add(attempt)
        running.head_now = self._ground.head()
        moved = running.head_now != before
        changed = None if moved else self._ground.changed_since(stamp)
        facts = attempt.facts(cli, end, head_moved=moved, files_changed=changed)
        facts, running.worked = replace(facts, worked_before=running.worked), running.worked or moved or changed is True
        return facts, moved

    def _start(self, running: Trajectory) -> Session:
        """Start the agent and record it. Raises StartFailed."""
        turn = Turn(
            session=running.session,
            attempt=running.attempts,
            resume=running.resumes,
            guard=GUARD,
            tmp=self._own_tmp(),
            home=os.path.join(self._folder, "agent"),
        )
        launch = adapter(self._assignment.cli).launch(self._assignment, turn)
        lay(turn.home, launch.files)
        session = self._begin(launch, self._told(running))
        self._pane.ears.expect(session.pid)
        self._pane.watch.agent = session.pid
        self._record(running.started(session.pid, self._assignment.account))
        # The end of the last session becomes durable while the next one already runs, a tenth of a second later, or
        # here when sessions are shorter than that. A power cut before loses a second of records at most, and the
        # sessions that they tell of have committed what they did.
        self._pane.recorder.sync(older_than_s=1.0)
        return session

    def _told(self, running: Trajectory) -> bytes:
        """Return what the next attempt is told; a later one with the notes that did not wait."""
        if running.attempts == 1:
            return running.prompt
        notes = self._inbox.notes(now=True)
        text = running.prompt
        if running.resumes:
            text = prompt.GO_ON_WITH if notes else prompt.GO_ON
        self._use(notes, "resume" if running.resumes else "prompt")
        return prompt.with_notes(text, notes)

    def _begin(self, launch: Launch, text: bytes) -> Session:
        tell = adapter(self._assignment.cli).TELLS.input
        return start(
            launch.argv,
            self._environment(launch.env),
            cwd=self._assignment.worktree,
            stdin=text if tell is None else tell(text.decode("utf-8", "replace")),
            stays_open=tell is not None,
        )

    def _environment(self, env: dict[str, str]) -> dict[str, str]:
        """Return exactly what the agent gets: the assignment's and the adapter's, and ours on top."""
        limits, mine = self._assignment.limits, self._assignment
        return {
            **mine.env,
            **env,
            **self._pane.watch.environment(),
            "RALPHD_NIGHT": mine.night,
            "RALPHD_LOOP": mine.loop,
            "RALPHD_TRAJECTORY": str(self._number),
            "RALPHD_NONCE": mine.nonce,
            "RALPHD_LIMIT_SECONDS": f"{limits.tool_seconds:g}",
            "RALPHD_LIMIT_MEMORY": str(limits.tool_memory_bytes),
            "RALPHD_LIMIT_OUTPUT": str(limits.tool_output_bytes),
            "RALPHD_GUARD": GUARD,
            "RALPHD_GUARD_MATCH": self._pane.watch.match,
            "TMPDIR": os.path.join(self._folder, "tmp"),
        }

    def _own_tmp(self) -> str:
        path = os.path.join(self._folder, "tmp")
        if not os.path.isdir(path):
            os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def _finish(self, running: Trajectory, outcome: Outcome) -> None:
        tally = running.tally
        tells = adapter(self._assignment.cli).TELLS
        if own_retries := tally.own_retries.told():
            outcome = replace(outcome, detail={**outcome.detail, "own_retries": own_retries})
        ended = TrajectoryEnded(
            outcome=outcome,
            head_before=running.head,
            head_after=running.head_now,
            claims_done=running.claims_done,
            usage=tally.usage,
            compactions=tally.compactions if tells.compactions or tally.compactions else None,
            seconds=round(time.monotonic() - running.began, 3),
            attempts=running.attempts,
            calls=tally.calls,
            leftovers=tally.leftovers,
            log=running.log.path,
            repeated=tally.repetition.told(),
        )
        running.close()
        self._running, self._worked = None, True
        self._record(ended)
        self._say_end(ended)
        if running.log.trouble:
            self._say(f"the log is incomplete, {running.log.lost_bytes} bytes: {running.log.trouble}")

    # Between sessions.

    def _may_go_on(self) -> bool:
        self._serve()
        wishes = self._pane.wishes
        if wishes.want is Want.PAUSED:
            self._hold("", wishes.why)
        return wishes.want is not Want.STOPPED

    def _rest(self, wait_s: float, kind: str) -> None:
        """Wait, unless somebody wants something else of the loop meanwhile."""
        wishes = self._pane.wishes
        if wait_s <= 0 or self._interrupted():
            return
        self._pane.gate.leave()
        wishes.retry = False
        self._record(Waiting(kind=kind, until=time.time() + wait_s))
        self._say(f"waits {wait_s:.0f} s ({kind})")
        until = boot_s() + wait_s
        while (left_s := until - boot_s()) > 0 and wishes.want is Want.RUNNING and not (wishes.cut or wishes.retry):
            self._idle(min(left_s, LOOK_S))
        wishes.retry = False
        self._record(Resumed())

    def _hold(self, kind: str, why: str, mended: Callable[[], bool] | None = None) -> None:
        """Stand still: a plain pause until the order changes, trouble until a newer order or until it is mended."""
        wishes = self._pane.wishes
        wishes.cut = wishes.retry = False
        self._pane.gate.leave()
        if self._worked:  # now, for later the worktree may be a person's
            self._put_back()
        self._worked = False
        serial = wishes.serial
        self._record(Held(kind=kind, why=why))
        self._say(f"{'on hold' if kind else 'paused'}: {why or 'as ordered'}")
        while wishes.want is not Want.STOPPED:
            asked = not kind or wishes.retry or wishes.serial > serial or (mended is not None and mended())
            if asked and wishes.want is Want.RUNNING:
                break
            self._idle(LOOK_S)
        wishes.retry = False
        self._record(Resumed())

    def _idle(self, seconds: float) -> None:
        self._pane.recorder.sync()
        self._pane.ears.wait(seconds)
        self._serve()

    def _serve(self) -> None:
        pane = self._pane
        pane.wishes.heed(pane.ears.signals)
        pane.wishes.read()
        pane.watch.tick(time.monotonic())
        pane.recorder.flush()

    def _bell(self) -> None:
        self._pane.watch.on_readable(time.monotonic())
        self._pane.wishes.read()

    # Trouble of our own.

    def _close_what_died(self) -> None:
        """End what an earlier runner of this loop left running, and the trajectory that it could not end."""
        past, recorder = self._pane.recorder.past, self._pane.recorder
        if past.seq == 0:
            return
        leftovers = self._end_everything()
        if not past.open_nonce:
            return
        recorder.trajectory, recorder.nonce = past.trajectory, past.open_nonce
        head = self._ground.head()
        self._record(
            TrajectoryEnded(
                outcome=Outcome(kind=Kind.PANE_LOST, detail={"why": "its runner was killed"}),
                head_before=past.open_head or head,
                head_after=head,
                claims_done=False,
                usage=Tally().usage,
                compactions=None,
                seconds=max(0.0, round(time.time() - past.open_at, 3)),
                attempts=1,
                calls=0,
                leftovers=leftovers,
                log=past.open_log,
            )
        )

    def _end_everything(self) -> int:
        setting = f"RALPHD_NONCE={self._assignment.nonce}".encode()
        pause = self._pane.pause
        ended = self._pane.watch.end_leftovers(now=time.monotonic, pause=pause, grace_s=1.0)

        def strays() -> list[Proc]:
            return [proc for proc in with_environ(setting) if not descends_from(os.getpid(), proc.pid)]

        return ended + end_all(strays, now=time.monotonic, pause=pause, grace_s=1.0)

    def _stumbled(self, error: Exception) -> None:
        kind = HOST_ERRNOS.get((error.errno if isinstance(error, OSError) else None) or 0, Kind.UNKNOWN)
        if not os.path.isdir(self._assignment.worktree):
            kind = Kind.WORKTREE_GONE
        outcome = Outcome(kind=kind, detail={"error": f"{type(error).__name__}: {error}"[:500]})
        self._say(f"this turn broke: {type(error).__name__}: {error}")
        self._end_everything()
        self._pane.watch.agent, self._pane.watch.calling = None, False
        self._pane.gate.leave()
        seen = Circumstances(seconds=0.0, worked=False, now=time.time(), chance=chance())
        self._streak, pace = pacing.after(self._streak, outcome, seen, self._assignment.limits)
        if self._running is not None:
            self._finish(self._running, pace.outcome)
        self._rest(max(1.0, pace.wait_s), pace.outcome.kind.value)

    # Telling.

    def _record(self, body: RunnerBody) -> None:
        recorder = self._pane.recorder
        before = recorder.trouble
        recorder.append(body, at=time.time())
        if recorder.trouble and recorder.trouble != before:
            self._say(f"records can't be written, they wait in memory: {recorder.trouble}")

    def _say(self, text: str) -> None:
        self._pane.digest.say(text)

    def _say_end(self, ended: TrajectoryEnded) -> None:
        parts = [ended.outcome.kind.value, f"{ended.seconds:.0f} s"]
        parts.append(self._ground.commits_in_words(ended.head_before, ended.head_after))
        if ended.usage.tokens_in is not None or ended.usage.tokens_out is not None:
            parts.append(f"{ended.usage.tokens_in or 0} tokens in, {ended.usage.tokens_out or 0} out")
        if ended.compactions:
            parts.append(f"{ended.compactions} compactions")
        self._say(f"session {self._number} ended: {', '.join(parts)}")


def _readable(path: str) -> bool:
    try:
        prompt.read(path)
    except prompt.NoPrompt:
        return False
    return True
