"""What a loop does, turn by turn, until it is told to stop."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace

from ralphd.agents import adapter
from ralphd.core import pacing
from ralphd.core.classify import classify
from ralphd.core.errors import GitError
from ralphd.core.exchange import Want
from ralphd.core.facts import Facts
from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.pacing import Circumstances, Streak, Then
from ralphd.core.reading import Reading
from ralphd.core.records import AttemptEnded, Prepared, Repaired, RunnerStopped, TrajectoryEnded, TrajectoryStarted
from ralphd.pane import prompt
from ralphd.pane.attempt import Attempt
from ralphd.pane.earlier import close_what_died, end_everything
from ralphd.pane.gatekeeper import chance
from ralphd.pane.ground import Ground, NotReady, Still, place_of
from ralphd.pane.launcher import Launcher
from ralphd.pane.limits import Limits
from ralphd.pane.notes import Notes
from ralphd.pane.session import SHORTAGES, StartFailed
from ralphd.pane.trajectory import Trajectory
from ralphd.pane.waits import Waits
from ralphd.pane.zones import dated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.core.exchange import Assignment
    from ralphd.pane.inbox import Inbox
    from ralphd.pane.pane import Pane

GROUND_WAIT_MAX_S = 60.0
HOST_ERRNOS = {
    errno.ENOSPC: Kind.DISK_FULL,
    errno.EDQUOT: Kind.DISK_FULL,
    errno.EIO: Kind.IO_ERROR,
    errno.EROFS: Kind.IO_ERROR,
    **dict.fromkeys(SHORTAGES, Kind.HOST_LIMITS),
}


class Loop:
    """One Ralph loop: prepare, prompt, agent, outcome, and again."""

    def __init__(self, folder: str, assignment: Assignment, inbox: Inbox, pane: Pane) -> None:
        self._folder, self._assignment, self._inbox, self._pane = folder, assignment, inbox, pane
        self._launcher = Launcher(folder, inbox, pane)
        self._waits = Waits(pane, self._follow_edits)
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
        close_what_died(self._pane, self._ground, self._assignment.nonce)
        if after_s > 0:
            self._pane.say(f"begins in {after_s:.1f} s: several loops come back at once")
            self._waits.let_others_go(after_s)
        while self._may_go_on():
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001  # the loop boundary: what broke costs this turn, not the loop
                self._stumbled(error)
            finally:
                self._launcher.over()
        leftovers = end_everything(self._pane, self._assignment.nonce)
        if self._worked:
            self._put_back()
        self._pane.record(RunnerStopped(why=self._pane.wishes.why, leftovers=leftovers))
        self._pane.say(f"this loop has stopped: {self._pane.wishes.why or 'as ordered'}")
        self._pane.recorder.close()
        return 0

    def _may_go_on(self) -> bool:
        self._waits.serve()
        wishes = self._pane.wishes
        if wishes.want is Want.PAUSED:
            self._hold("", wishes.why)
        return wishes.want is not Want.STOPPED

    def _bell(self) -> None:
        self._pane.watch.on_readable(time.monotonic())
        self._pane.wishes.read()

    # One turn.

    def _turn(self) -> None:
        self._pane.wishes.cut = False  # what came between sessions has no session to end
        self._reassign()
        if not self._waits.pass_gate():
            return
        head = self._ready()
        if head:
            self._launcher.go_first(self._assignment, self._waits)
        composed = self._compose() if head and self._waits.goes_on else None
        if composed is None:
            return
        outcome, wait_s = self._trajectory(composed, head)
        if outcome.response in pacing.HELD_RESPONSES:
            why = outcome.detail.get("message") or outcome.detail.get("question") or outcome.kind.value
            self._hold(outcome.kind.value, str(why))
        self._pane.wishes.cut = False
        self._waits.rest(wait_s, outcome.kind.value)

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

    def _follow_edits(self) -> None:
        """Take another key or address over while inference is waited for: it may be what mends the trouble."""
        mine, newest = self._assignment, self._inbox.assignment()
        if newest is not None and newest is not mine and (newest.generation, newest.cli) == (mine.generation, mine.cli):
            self._reassign()

    def _ready(self) -> str:
        """Return the branch's tip once the worktree is fit, or nothing after a wait, so that all is looked at anew."""
        self._ground.assign(self._assignment)
        try:
            head = self._ground.ready(self._tell_ground)
        except NotReady as error:
            self._not_ready += 1
            self._pane.say(f"the worktree is not ready: {error}")
            self._waits.rest(min(GROUND_WAIT_MAX_S, 2.0 ** min(self._not_ready - 1, 10)), error.outcome.kind.value)
            return ""
        self._not_ready = 0
        return head

    def _tell_ground(self, body: Prepared | Repaired) -> None:
        self._pane.record(body)
        if isinstance(body, Repaired):
            self._pane.say(f"repaired: {body.what}" + (f" (saved in {body.ref})" if body.ref else ""))

    def _put_back(self) -> None:
        try:
            self._ground.put_back(self._tell_ground)
        except (GitError, OSError) as error:
            self._pane.say(f"the branch is left as it is: {error}")

    def _compose(self) -> prompt.Prompt | None:
        """Return the prompt of the next session, or None after a hold, so that everything is looked at anew."""
        path = self._assignment.prompt
        try:
            return self._launcher.compose(self._assignment)
        except prompt.NoPrompt as error:
            self._hold(Kind.CONFIG_ERROR.value, str(error), mended=lambda: _readable(path))
            return None

    def _hold(self, kind: str, why: str, mended: Callable[[], bool] | None = None) -> None:
        if self._worked:  # now, for later the worktree may be a person's
            self._put_back()
        self._worked = False
        self._waits.hold(kind, why, mended)

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
        self._pane.record(
            TrajectoryStarted(
                head=head, log=running.log.path, prompt_sha256=composed.sha256, prompt_bytes=composed.size_bytes
            )
        )
        self._pane.say(f"session {self._number} begins")
        outcome, wait_s = self._attempts(running)
        if not running.read:
            self._inbox.take_back(composed.notes)
        self._finish(running, outcome)
        return outcome, wait_s

    def _attempts(self, running: Trajectory) -> tuple[Outcome, float]:
        while True:
            began = time.monotonic()
            outcome, moved = self._attempt(running)
            self._pane.gate.judge(outcome)
            seen = Circumstances(seconds=time.monotonic() - began, worked=moved, now=time.time(), chance=chance())
            self._streak, pace = pacing.after(self._streak, outcome, seen, self._assignment.limits)
            if pace.then is not Then.ATTEMPT or self._waits.interrupted:
                return pace.outcome, pace.wait_s
            wait_s = self._pane.gate.wait_s() or pace.wait_s
            self._pane.record(AttemptEnded(attempt=running.attempts, outcome=outcome, wait_s=wait_s))
            self._waits.await_inference(outcome.kind.value, pace.wait_s)
            if self._waits.interrupted:
                return Outcome(kind=Kind.STOPPED, detail={"while": outcome.kind.value}), 0.0

    def _attempt(self, running: Trajectory) -> tuple[Outcome, bool]:
        """Run one process. Return its outcome, and whether the branch moved."""
        running.attempts += 1
        facts, moved = self._process(running)
        if facts.reading.result is not None:
            running.claims_done = facts.reading.result.claims_done
        running.take_up(facts.reading, adapter(facts.cli).TELLS)
        outcome = dated(classify(facts), self._assignment.env, time.time())
        running.read = running.read or facts.reading.answered or not _unheard(outcome)
        return outcome, moved

    def _process(self, running: Trajectory) -> tuple[Facts, bool]:
        """Run one process of the agent and look at what it changed. Return the facts, and whether the branch moved."""
        cli = self._assignment.cli
        before, stamp = running.head_now, self._ground.stamp_ns()
        try:
            session = self._launcher.start(self._assignment, running)
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
            spoke=self._launcher.spoke,
            changed_before_s=self._ground.changed_before_s,
        )
        end = attempt.listen()
        self._launcher.over()
        if attempt.reads_to_end.seen:
            self._launcher.reads_to_end = self._assignment.program
        self._pane.watch.agent, self._pane.watch.calling = None, False
        running.tally.add(attempt)
        running.head_now = self._ground.head()
        moved = running.head_now != before
        changed = None if moved else self._ground.changed_since(stamp)
        facts = attempt.facts(cli, end, head_moved=moved, files_changed=changed)
        facts, running.worked = replace(facts, worked_before=running.worked), running.worked or moved or changed is True
        return facts, moved

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
        self._pane.record(ended)
        self._say_end(ended)
        if running.log.trouble:
            self._pane.say(f"the log is incomplete, {running.log.lost_bytes} bytes: {running.log.trouble}")

    def _say_end(self, ended: TrajectoryEnded) -> None:
        parts = [ended.outcome.kind.value, f"{ended.seconds:.0f} s"]
        parts.append(self._ground.commits_in_words(ended.head_before, ended.head_after))
        if ended.usage.tokens_in is not None or ended.usage.tokens_out is not None:
            parts.append(f"{ended.usage.tokens_in or 0} tokens in, {ended.usage.tokens_out or 0} out")
        if ended.compactions:
            parts.append(f"{ended.compactions} compactions")
        self._pane.say(f"session {self._number} ended: {', '.join(parts)}")

    # Trouble of our own.

    def _stumbled(self, error: Exception) -> None:
        kind = HOST_ERRNOS.get((error.errno if isinstance(error, OSError) else None) or 0, Kind.UNKNOWN)
        if not os.path.isdir(self._assignment.worktree):
            kind = Kind.WORKTREE_GONE
        outcome = Outcome(kind=kind, detail={"error": f"{type(error).__name__}: {error}"[:500]})
        self._pane.say(f"this turn broke: {type(error).__name__}: {error}")
        end_everything(self._pane, self._assignment.nonce)
        self._pane.watch.agent, self._pane.watch.calling = None, False
        self._pane.gate.leave()
        seen = Circumstances(seconds=0.0, worked=False, now=time.time(), chance=chance())
        self._streak, pace = pacing.after(self._streak, outcome, seen, self._assignment.limits)
        if self._running is not None:
            self._finish(self._running, pace.outcome)
        self._waits.rest(max(1.0, pace.wait_s), pace.outcome.kind.value)


def _unheard(outcome: Outcome) -> bool:
    """Tell whether nobody may have read the prompt: no program began, or it got no answer from inference."""
    return outcome.kind.family == "inference" or outcome.kind in {Kind.START_FAILED, Kind.CONFIG_ERROR}


def _readable(path: str) -> bool:
    try:
        prompt.read(path)
    except prompt.NoPrompt:
        return False
    return True
