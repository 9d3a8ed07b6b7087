"""What an agent is given at its start: the prompt and its notes, the command line, and the whole environment."""

from __future__ import annotations

import os

from ralphd.agents import Turn, adapter
from ralphd.core.records import NotesGiven
from ralphd.pane import prompt
from ralphd.pane.files import lay, read_regular
from ralphd.pane.session import start
from ralphd.pane.watched import GUARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.agents import Launch
    from ralphd.core.exchange import Assignment
    from ralphd.pane.calls import CallWatch
    from ralphd.pane.first import First
    from ralphd.pane.inbox import Inbox
    from ralphd.pane.pane import Pane
    from ralphd.pane.session import Session
    from ralphd.pane.trajectory import Trajectory
    from ralphd.pane.waits import Waits

PREAMBLE_LIMIT_BYTES = 1 << 20


class Launcher:
    """Starts the agent of the loop whose state is in ``folder``."""

    def __init__(self, folder: str, inbox: Inbox, pane: Pane) -> None:
        self._folder, self._inbox, self._pane = folder, inbox, pane
        self._first: First | None = None
        self.reads_to_end = ""  # the program that was seen to read its stdin to the end before it begins

    def go_first(self, assignment: Assignment, waits: Waits) -> None:
        """Wait for the first loop of its CLI, where several trip; sooner if something else is wanted of the loop."""
        if not adapter(assignment.cli).TELLS.trips_at_first:
            return
        if self._first is None:
            from ralphd.pane.first import First  # noqa: PLC0415  # few CLIs need it

            self._first = First(self._folder, waits)
        self._first.wait(assignment.cli, assignment.program)

    def spoke(self) -> None:
        """Note that the agent has said something."""
        if self._first is not None:
            self._first.spoke()

    def over(self) -> None:
        """Note that the session, or the turn without one, is over: another may go first."""
        if self._first is not None:
            self._first.over()

    def compose(self, assignment: Assignment) -> prompt.Prompt:
        """Return the prompt of the next session; its notes are used up. Raises NoPrompt."""
        text = prompt.read(assignment.prompt)
        notes = self._inbox.notes()
        composed = prompt.compose(self._preamble(assignment.preamble), text, notes)
        self._use(notes, "prompt")
        return composed

    def start(self, assignment: Assignment, running: Trajectory) -> Session:
        """Start the next attempt and record it. Raises StartFailed."""
        turn = Turn(
            session=running.session,
            attempt=running.attempts,
            resume=running.resumes,
            guard=GUARD,
            tmp=own_tmp(self._folder),
            home=os.path.join(self._folder, "agent"),
        )
        launch = adapter(assignment.cli).launch(assignment, turn)
        lay(turn.home, launch.files)
        session = self._begin(assignment, running, launch)
        self._pane.ears.expect(session.pid)
        self._pane.watch.agent = session.pid
        self._pane.record(running.started(session.pid, assignment.account))
        # The end of the last session becomes durable while the next one already runs, a tenth of a second later, or
        # here when sessions are shorter than that. A power cut before loses a second of records at most, and the
        # sessions that they tell of have committed what they did.
        self._pane.recorder.sync(older_than_s=1.0)
        return session

    def _begin(self, assignment: Assignment, running: Trajectory, launch: Launch) -> Session:
        tell, text = adapter(assignment.cli).TELLS.input, self._told(running)
        return start(
            launch.argv,
            environment(assignment, running.number, launch.env, folder=self._folder, watch=self._pane.watch),
            cwd=assignment.worktree,
            stdin=text if tell is None else tell(text.decode("utf-8", "replace")),
            stays_open=tell is not None and self.reads_to_end != launch.argv[0],
        )

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

    def _use(self, notes: tuple[tuple[str, str], ...], how: str) -> None:
        self._inbox.use(notes)
        if notes:
            self._pane.record(NotesGiven(names=tuple(name for name, _ in notes), how=how))

    def _preamble(self, path: str) -> str:
        try:
            return read_regular(path, PREAMBLE_LIMIT_BYTES).decode("utf-8", "replace")
        except OSError as error:
            self._pane.say(f"no preamble for this session: {path} {error.strerror}")
            return ""


def environment(
    assignment: Assignment, number: int, env: dict[str, str], *, folder: str, watch: CallWatch
) -> dict[str, str]:
    """Return exactly what session ``number`` gets: the assignment's, the adapter's ``env``, and ours on top."""
    limits = assignment.limits
    return {
        **assignment.env,
        **env,
        **watch.environment(),
        "RALPHD_NIGHT": assignment.night,
        "RALPHD_LOOP": assignment.loop,
        "RALPHD_TRAJECTORY": str(number),
        "RALPHD_NONCE": assignment.nonce,
        "RALPHD_LIMIT_SECONDS": f"{limits.tool_seconds:g}",
        "RALPHD_LIMIT_MEMORY": str(limits.tool_memory_bytes),
        "RALPHD_LIMIT_OUTPUT": str(limits.tool_output_bytes),
        "RALPHD_GUARD": GUARD,
        "RALPHD_GUARD_MATCH": watch.match,
        "TMPDIR": os.path.join(folder, "tmp"),
    }


def own_tmp(folder: str) -> str:
    path = os.path.join(folder, "tmp")
    if not os.path.isdir(path):
        os.makedirs(path, mode=0o700, exist_ok=True)
    return path
