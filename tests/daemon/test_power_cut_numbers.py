"""A power cut takes the end of a runner's file after the journal had it: what the next runner says is still heard."""

from __future__ import annotations

from pathlib import Path

from ralphd.core.config import Config
from ralphd.core.events import Entry, LoopAdded, NightStarted, TaskAdded
from ralphd.core.fold import fold
from ralphd.core.model import Loop, Task, Verifier
from ralphd.core.records import Held, RunnerStarted, TrajectoryStarted
from ralphd.daemon.assign import Assigner
from ralphd.edges.loopfolder import LoopFolders
from ralphd.pane.inbox import Inbox
from ralphd.pane.recorder import Recorder


def begun(loop: Loop) -> list[Entry]:
    """What the daemon wrote of a night of one loop before any runner said a word."""
    task = Task(name="t", repository="/r", night_repository="/n", prompt="/r/P", base="0" * 40, verifier=Verifier())
    bodies = (NightStarted(width=1, ends_at=None, config={}, version=""), TaskAdded(task=task), LoopAdded(loop=loop))
    return [Entry(id=id_, at=0.0, night="n", body=body) for id_, body in enumerate(bodies, 1)]


def record(recorder: Recorder, session: int) -> None:
    recorder.generation, recorder.trajectory = 1, session
    recorder.append(TrajectoryStarted(head="h", log="l", prompt_sha256="", prompt_bytes=0), at=1.0)


def test_the_next_runner_uses_no_number_that_the_journal_has(tmp_path: Path) -> None:
    folder = tmp_path / "loop"
    folder.mkdir()
    loop = Loop(id="t-1", task="t", pod="p", branch="b", worktree="/w", folder=str(folder), nonce="x")
    recorder = Recorder(str(folder))
    for session in range(1, 6):
        record(recorder, session)
    told = LoopFolders("boot").told(loop, "n", 0).entries
    assert [entry.seq for entry in told] == [1, 2, 3, 4, 5]
    state = fold([*begun(loop), *told])
    file = folder / "records.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))  # two were not synced yet

    assign = Assigner(environ={"PATH": "/bin"}, program="/bin/agent", preamble="")
    LoopFolders("next").assign(*assign(Config(), state, state.loops["t-1"], 1, ""))
    assigned = Inbox(str(folder)).assignment()
    assert assigned is not None
    after = Recorder(str(folder))
    after.go_on_after(assigned.after_seq, assigned.after_trajectory)
    assert after.past.trajectory == 5  # nor a session's: its log is there
    after.append(Held(kind="", why="heard"), at=2.0)
    assert [(entry.seq, entry.body.why) for entry in LoopFolders("next").told(loop, "n", 5).entries] == [(6, "heard")]


def test_a_file_that_is_further_on_than_the_journal_is_believed(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    for session in range(1, 6):
        record(recorder, session)
    recorder.go_on_after(3, 3)
    assert (recorder.seq, recorder.past.trajectory) == (5, 0)


def test_a_number_that_nobody_can_mean_is_not_taken(tmp_path: Path) -> None:
    """Agents can write to the assignment, and readers refuse what is so far ahead."""
    recorder = Recorder(str(tmp_path))
    recorder.go_on_after(10**12, 10**12)
    recorder.append(RunnerStarted(pid=1, start_ticks=1, boot_id="b", pane="", version="", account=""), at=1.0)
    assert recorder.seq == 1
