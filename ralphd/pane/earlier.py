"""How a loop's processes are ended, also those of an earlier runner, and how a session that one left open is closed."""

from __future__ import annotations

import os
import time

from ralphd.core.outcomes import Kind, Outcome
from ralphd.core.records import TrajectoryEnded, Usage
from ralphd.pane.procs import descends_from, end_all, with_environ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.pane.ground import Ground
    from ralphd.pane.pane import Pane
    from ralphd.pane.procs import Proc

GRACE_S = 1.0  # between TERM and KILL: nobody waits for what these have to say


def end_everything(pane: Pane, nonce: str) -> int:
    """End all that runs below this runner, then all with the loop's nonce that runs elsewhere; return how many."""
    setting = f"RALPHD_NONCE={nonce}".encode()
    ended = pane.watch.end_leftovers(now=time.monotonic, pause=pane.pause, grace_s=GRACE_S)

    def strays() -> list[Proc]:
        return [proc for proc in with_environ(setting) if not descends_from(os.getpid(), proc.pid)]

    return ended + end_all(strays, now=time.monotonic, pause=pane.pause, grace_s=GRACE_S)


def close_what_died(pane: Pane, ground: Ground, nonce: str) -> None:
    """End what an earlier runner of this loop left running, and the trajectory that it could not end."""
    past, recorder = pane.recorder.past, pane.recorder
    if past.seq == 0:
        return
    leftovers = end_everything(pane, nonce)
    if not past.open_nonce:
        return
    recorder.trajectory, recorder.nonce = past.trajectory, past.open_nonce
    head = ground.head()
    pane.record(
        TrajectoryEnded(
            outcome=Outcome(kind=Kind.PANE_LOST, detail={"why": "its runner was killed"}),
            head_before=past.open_head or head,
            head_after=head,
            claims_done=False,
            usage=Usage(),
            compactions=None,
            seconds=max(0.0, round(time.time() - past.open_at, 3)),
            attempts=1,
            calls=0,
            leftovers=leftovers,
            log=past.open_log,
        )
    )
